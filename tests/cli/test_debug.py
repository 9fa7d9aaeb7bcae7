"""``holdfast debug``: a recorded execution under pdb, and nothing is written."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import textwrap
from contextlib import closing

import apsw
import pytest

CODE = """
    import asyncio
    from pathlib import Path

    import holdfast as hf

    app = hf.App("shop", home="sqlite:///shop.db")


    @app.step
    def charge(cents: int) -> str:
        with open("charged", "a") as file:
            file.write("x")
        return f"pay-{cents}"


    async def branch(n: int) -> str:
        what = f"branch {n}"
        return what + await hf.signal(f"go{n}", str)


    @app.workflow
    async def order(cents: int, pin: hf.Secret) -> str:
        payment = await charge(cents)
        token = hf.callback(str).token
        both = await asyncio.gather(branch(1), branch(2))
        return f"{payment} {both} {token}"


    @app.workflow
    async def failing(cents: int) -> str:
        payment = await charge(cents)
        raise KeyError(payment)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A home with an execution that waits, one that failed, and one that no worker has seen."""
    folder = tmp_path_factory.mktemp("debug")
    (folder / "shop.py").write_text(textwrap.dedent(CODE), encoding="utf-8")
    work = """
        import asyncio
        import holdfast as hf
        from shop import app, failing, order

        async def main():
            async with app.worker():
                waiting = await order.start(7, hf.Secret("hunter2"), id="o-1")
                failed = await failing.start(8, id="f-1")
                while (await waiting.status()).status != "SUSPENDED":
                    await asyncio.sleep(0.01)
                try:
                    await failed
                except hf.ExecutionFailed:
                    pass
            async with app:
                await order.start(9, hf.Secret("hunter2"), id="o-2")

        asyncio.run(main())
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(work)], cwd=folder, check=True)
    return folder


def debug(folder, *arguments, stdin=""):
    command = [sys.executable, "-m", "holdfast.cli", "debug", "-a", "shop:app", *arguments]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, check=False)


def dumped(folder):
    with closing(apsw.Connection(str(folder / "shop.db"))) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}  # noqa: S608 - of our own tables


def test_without_pdb_the_stack_and_the_variables_are_printed_and_secrets_are_not(recorded):
    before, charged = dumped(recorded), (recorded / "charged").read_text()
    result = debug(recorded, "order", "o-1", "--no-pdb")
    assert result.returncode == 0, result.stderr
    assert "    payment = 'pay-7'" in result.stdout
    assert "    pin = ***" in result.stdout
    assert "hunter2" not in result.stdout
    assert "hf1.(token)" in result.stdout
    assert "branch branch#1\n  shop.py:19 in branch: return what + await hf.signal" in result.stdout
    assert "    what = 'branch 2'" in result.stdout
    assert dumped(recorded) == before
    assert (recorded / "charged").read_text() == charged


def test_what_was_not_recorded_is_not_done(recorded):
    before, charged = dumped(recorded), (recorded / "charged").read_text()
    result = debug(recorded, "order", "o-2", "--no-pdb", "--json")
    assert '"stopped": "it waits for charge#0"' in result.stdout
    assert dumped(recorded) == before
    assert (recorded / "charged").read_text() == charged


def test_pdb_in_a_terminal_shows_the_branches_of_the_body(recorded):
    told = in_terminal(recorded, ["order", "o-1"], ["p payment", "tasks", "task 2", "p what", "task 9", "c"])
    assert "'pay-7'" in told
    assert "branch#1" in told
    assert "'branch 2'" in told
    assert "there is no task '9'" in told


def test_pdb_stops_before_an_operation_and_goes_on_line_by_line(recorded):
    result = debug(recorded, "order", "o-1", "--before", "charge", stdin="p cents\nn\nn\np payment\nq\n")
    assert result.returncode == 0, result.stderr
    assert "7\n" in result.stdout
    assert "'pay-7'" in result.stdout
    assert "Evicted" not in result.stdout + result.stderr


def test_leaving_before_an_operation_ends_quietly(recorded):
    for command in ("q", "c", ""):
        result = debug(recorded, "order", "o-1", "--before", "charge#0", stdin=f"{command}\n" if command else "")
        assert (result.returncode, result.stderr.count("\n")) == (0, 1), result.stderr


def test_an_operation_that_is_not_asked_for_is_said(recorded):
    result = debug(recorded, "order", "o-1", "--before", "ship", "--no-pdb")
    assert result.returncode == 1
    assert "does not ask for 'ship'; it asks for: charge#0" in result.stderr


def test_an_execution_that_failed_is_looked_at_where_it_did(recorded):
    result = debug(recorded, "failing", "f-1", stdin="p payment\nc\n")
    assert "raised KeyError" in result.stderr
    assert "'pay-8'" in result.stdout


def test_a_breakpoint_in_the_body_works(recorded, tmp_path):
    changed(recorded, tmp_path, "token = hf", "breakpoint()\n    token = hf")
    told = in_terminal(tmp_path, ["order", "o-1"], ["p payment", "q"])
    assert "'pay-7'" in told
    assert "BdbQuit" not in told
    assert "it waits for" not in told


def test_code_that_does_not_fit_is_named_from_both_sides(recorded, tmp_path):
    changed(recorded, tmp_path, "await charge(cents)", "await charge(cents + 1)")
    result = debug(tmp_path, "order", "o-1", "--no-pdb")
    assert result.returncode == 1
    assert "charge#0: the journal and the code disagree" in result.stderr
    assert "shop.py:24 in order: payment = await charge(cents + 1)" in result.stdout
    changed(recorded, tmp_path, "payment = await charge(cents)", "payment = ''")
    result = debug(tmp_path, "order", "o-1", stdin="w\nq\n")
    assert result.returncode == 1
    assert "earlier code finished or began charge#0" in result.stderr


def test_names_that_are_not_there_are_said(recorded, tmp_path):
    assert "there is no execution 'nobody'" in debug(recorded, "order", "nobody").stderr
    assert "nothing" in debug(recorded, "nothing", "o-1").stderr
    (tmp_path / "shop.py").write_text((recorded / "shop.py").read_text())
    assert "no database" in debug(tmp_path, "order", "o-1").stderr
    assert not (tmp_path / "shop.db").exists()


def changed(recorded, folder, before, after):
    """The home and its code in another folder, with one change of the code."""
    for file in recorded.glob("shop.db*"):
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
            (folder / file.name).chmod(0o600)
    code = (recorded / "shop.py").read_text()
    assert before in code
    (folder / "shop.py").write_text(code.replace(before, after))


def in_terminal(folder, arguments, commands):
    """What a terminal shows."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "holdfast.cli", "debug", "-a", "shop:app", *arguments]
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        told = ""
        for line in [*commands, None]:
            while line is not None and not told.endswith(("(holdfast) ", "(Pdb) ")):
                told += os.read(ours, 65536).decode()
            if line is not None:
                told += "\n"
                os.write(ours, f"{line}\n".encode())
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the other end is closed: Linux has EIO for that
                break
            if not more:
                break
            told += more.decode()
        os.close(ours)
        assert process.wait() == 0, told
    return told
