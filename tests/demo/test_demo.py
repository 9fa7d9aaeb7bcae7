"""The demonstration runs, and cannot be fooled: whoever tampers with its books is found out."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import holdfast
import holdfast as hf
from holdfast.cli import main
from holdfast.cli.demo import Told, _as_lines, _rescued
from holdfast.cli.invocation import own_command
from holdfast.demo import generate, payments, shop
from holdfast.demo.audit import audit, home_url
from holdfast.demo.loopback import HttpRefused, post
from holdfast.demo.progress import Progress
from holdfast.demo.run import Kill, Run, sample_orders
from holdfast.ports import SqlCursor
from holdfast.workflows.record import partition_of
from holdfast.workflows.view import view_of

ORDERS = 40
SOURCES = Path(holdfast.__file__).parents[1]
HANGS_AFTER_SECONDS = 110


# ── A whole run ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One run of the demonstration, for all tests here: the folder it kept, and its answer."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    command = [sys.executable, "-m", "holdfast.cli", "demo", "--orders", str(ORDERS), "--keep", str(folder), "--json"]
    path = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, json.loads(done.stdout)


@pytest.mark.process
def test_nothing_is_lost_and_nothing_is_charged_twice(run):
    _, told = run
    assert told["ok"] is True
    assert told["problems"] == []
    assert told["orders"] == told["confirmed"] + told["compensated"] + told["rejected"] == ORDERS
    assert told["lost"] == told["duplicate_charges_accepted"] == 0


@pytest.mark.process
def test_what_it_survives_did_happen(run):
    _, told = run
    assert told["kills_survived"] == 2
    assert told["orders_in_killed_hands"] >= 2
    assert told["time_outs_survived"] >= 4
    assert told["repeats_recognised"] >= 4
    assert told["refunds"] >= 2
    assert {"CardDeclined", "Damaged", "InvalidCart", "StepTimeout"} <= told["reasons"].keys()
    assert told["charges_attempted"] > told["charges_accepted"] > told["confirmed"]


@pytest.mark.process
def test_what_it_leaves_behind_is_private(run):
    folder, _ = run
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "shop.db").stat().st_mode & 0o077 == 0


@pytest.mark.process
def test_it_refuses_a_folder_that_is_in_use(run):
    result = CliRunner().invoke(main, ["demo", "--keep", str(run[0])])
    assert result.exit_code == 1
    assert "not empty" in result.stderr


# ── The audit ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def books(run, tmp_path) -> Path:
    """A copy of the books, to tamper with."""
    return shutil.copytree(run[0], tmp_path / "books", ignore=shutil.ignore_patterns("*-bells"))


def check(folder: Path) -> Result:
    return CliRunner().invoke(main, ["demo", "--check", str(folder), "--json"])


def ledger_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def write_ledger(folder: Path, entries: list[dict[str, Any]]) -> None:
    (folder / "ledger.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def change_shop(folder: Path, statement: str) -> None:
    def work(sql: SqlCursor) -> tuple[tuple[()], None]:
        sql.execute(statement)
        return (), None

    with hf.App("tamper", home=f"sqlite:///{folder}/shop.db").sync() as run:
        home = run._app.runtime().home
        assert home.transactions is not None
        run(home.transactions.transact(work))


def charge_twice(folder: Path) -> None:
    accepted = next(entry for entry in ledger_of(folder) if entry["what"] == "accepted")
    write_ledger(folder, [*ledger_of(folder), {**accepted, "key": "another", "payment": "pay-99999"}])


def accept_a_key_twice(folder: Path) -> None:
    accepted = next(entry for entry in ledger_of(folder) if entry["what"] == "accepted")
    write_ledger(folder, [*ledger_of(folder), accepted])


def charge_too_much(folder: Path) -> None:
    entries = ledger_of(folder)
    next(entry for entry in entries if entry["what"] == "accepted")["cents"] += 1
    write_ledger(folder, entries)


def forget_a_charge(folder: Path) -> None:
    entries = ledger_of(folder)
    entries.remove(next(entry for entry in entries if entry["what"] == "accepted"))
    write_ledger(folder, entries)


def forget_a_refund(folder: Path) -> None:
    write_ledger(folder, [entry for entry in ledger_of(folder) if entry["what"] != "refund"])


def charge_nobody(folder: Path) -> None:
    accepted = next(entry for entry in ledger_of(folder) if entry["what"] == "accepted")
    write_ledger(folder, [*ledger_of(folder), {**accepted, "order": "order-9999", "key": "another"}])


def lose_goods(folder: Path) -> None:
    change_shop(folder, "UPDATE stock SET free = free - 1 WHERE sku = 'MUG-BLUE'")


def lose_a_reservation(folder: Path) -> None:
    change_shop(folder, "DELETE FROM reservations WHERE rowid = (SELECT min(rowid) FROM reservations)")


def sell_twice(folder: Path) -> None:
    change_shop(folder, "INSERT INTO sales SELECT * FROM sales LIMIT 1")


def forget_a_sale(folder: Path) -> None:
    change_shop(folder, "DELETE FROM sales WHERE rowid = (SELECT min(rowid) FROM sales)")


def forget_an_order(folder: Path) -> None:
    line = (folder / "orders.jsonl").read_text().splitlines()[-1].replace("order-0040", "order-0041")
    with (folder / "orders.jsonl").open("a") as orders:
        orders.write(line + "\n")


TAMPERED: dict[Callable[[Path], None], str] = {
    charge_twice: "was charged [",
    accept_a_key_twice: "this idempotency key more than once",
    charge_too_much: "was charged [",
    forget_a_charge: "was charged []",
    forget_a_refund: "refunded [] cents",
    charge_nobody: "was never placed",
    lose_goods: "MUG-BLUE: there were",
    lose_a_reservation: "does not fit the order",
    sell_twice: "too often",
    forget_a_sale: "missing from the table of sales",
    forget_an_order: "there is no execution of it",
}


@pytest.mark.process
def test_books_that_were_kept_are_found_in_order(books, run):
    result = check(books)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told == {key: value for key, value in run[1].items() if key in told} | {"folder": str(books)}


@pytest.mark.process
@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda each: each.__name__)
def test_books_that_were_tampered_with_are_found_out(tamper, books):
    tamper(books)
    result = check(books)
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert told["ok"] is False
    assert any(TAMPERED[tamper] in problem for problem in told["problems"]), told["problems"]


@pytest.mark.process
def test_books_that_cannot_be_read_are_an_error_of_one_line(books, tmp_path):
    (tmp_path / "empty").mkdir()
    (books / "ledger.jsonl").write_text("{\n")
    for folder in (tmp_path / "empty", books):
        result = check(folder)
        assert result.exit_code == 1
        assert json.loads(result.stderr)["code"] == "configuration"


def test_books_with_problems_are_rescued(tmp_path):
    (tmp_path / "ledger.jsonl").write_text("x")
    rescued = _rescued(tmp_path)
    assert (rescued / "ledger.jsonl").read_text() == "x"
    shutil.rmtree(rescued)


@pytest.mark.process
def test_people_are_told_what_is_off(books):
    charge_twice(books)
    result = CliRunner().invoke(main, ["demo", "--check", str(books)])
    assert result.exit_code == 1
    assert "The books do not agree:" in result.output
    assert "duplicate charges accepted        1" in result.output


async def look(books) -> Told:
    found = await audit(books)
    async with hf.App("look", home=home_url(books)) as app:
        shown = await view_of(app.runtime(), partition_of("checkout", "order-0001"))
    kills = [Kill(1, ["order-0001"], 2), Kill(3, ["order-0002", "order-0003"], 4)]
    return Told(audit=found, run=Run(kills=kills, elapsed_seconds=12.3), shown=shown)


@pytest.mark.process
def test_people_see_a_summary_a_timeline_and_what_to_try_next(books):
    told = asyncio.run(look(books))
    text = "\n".join(_as_lines(told, None))
    assert not told.problems
    assert "kills survived                    2   3 orders in the killed workers' hands" in text
    assert "Every order is accounted for" in text
    assert "step take_payment#0" in text
    assert "holdfast demo --keep shop-demo\n" in text
    assert f"holdfast doctor --home sqlite:///{books}/shop.db" in "\n".join(_as_lines(told, books))


@pytest.mark.process
def test_what_to_try_next_works_as_it_is_printed_although_nothing_is_on_the_path(books, tmp_path, monkeypatch):
    kept = tmp_path / "books of a shop"
    shutil.copytree(books, kept, ignore=shutil.ignore_patterns("*-bells"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    told = asyncio.run(look(books))
    _, _, advice = "\n".join(_as_lines(told, kept)).partition("What to try next\n")
    assert advice.endswith(f"The shop's code is {shop.__file__}")
    commands = [line.strip() for line in advice.splitlines() if line.startswith("  ")]
    ended = [subprocess.run(["bash", "-c", each], capture_output=True, text=True, check=False) for each in commands]
    assert [each.returncode for each in ended] == [0, 0, 0, 0, 1], [each.stderr for each in ended]
    assert "order-0001" in ended[1].stdout
    assert "duplicate charges accepted        1" in ended[4].stdout


def test_the_command_line_knows_how_to_call_it(tmp_path, monkeypatch):
    scripts, elsewhere = tmp_path / "bin", tmp_path / "other"
    for folder in (scripts, elsewhere):
        folder.mkdir()
        (folder / "holdfast").touch(mode=0o755)
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(scripts))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{scripts}:{elsewhere}")
    assert own_command() == "holdfast"
    monkeypatch.setenv("PATH", f"{elsewhere}:{scripts}")
    assert own_command() == "./bin/holdfast"
    monkeypatch.chdir(elsewhere)
    assert own_command() == str(scripts / "holdfast")
    (scripts / "holdfast").unlink()
    assert own_command() == "holdfast"
    monkeypatch.setenv("PATH", str(scripts))
    assert own_command() == f"{sys.executable} -m holdfast.cli"


@pytest.mark.process
def test_a_kill_that_did_not_take_place_is_a_problem(books):
    told = Told(audit=asyncio.run(audit(books)), run=Run(kills=[], elapsed_seconds=1.0), shown=None)
    assert told.problems == ["not every kill took place"]


# ── Its progress ────────────────────────────────────────────────────────────────────────────────────────────────────


def drawn(capsys, *, terminal: bool = False, quiet: bool = False) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
        progress = Progress(quiet=quiet)
    progress.tell("they come in")
    for ended in range(9):
        progress.progress(ended, 8, Counter(confirmed=ended))
        progress.progress(ended, 8, Counter(confirmed=ended))
        if ended == 4:
            progress.tell("kill -9")
    out: str = capsys.readouterr().out
    return out


def test_without_a_terminal_progress_is_a_line_for_each_quarter(capsys):
    assert [line.strip() for line in drawn(capsys).splitlines()] == [
        "they come in",
        "2/8 orders, 2 confirmed",
        "4/8 orders, 4 confirmed",
        "kill -9",
        "6/8 orders, 6 confirmed",
        "8/8 orders, 8 confirmed",
    ]


def test_on_a_terminal_progress_is_a_bar_drawn_when_it_changes(capsys):
    out = drawn(capsys, terminal=True)
    assert out.count("4/8 orders") == 2  # once more below what was told
    assert out.count("5/8 orders") == 1
    assert out.endswith("█" * 30 + "    8/8 orders, 8 confirmed\n")


def test_for_machines_there_is_no_progress(capsys):
    assert drawn(capsys, quiet=True) == ""


# ── Its orders ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_data_file_is_what_the_generator_makes():
    made = [generate.as_line(order) for order in islice(generate.orders(), 300)]
    assert made == sample_orders(300)


def test_more_orders_than_the_file_has_are_of_the_same_kind():
    lines = sample_orders(320)
    assert len({json.loads(line)["id"] for line in lines}) == 320


async def test_of_every_twenty_orders_one_or_two_make_no_sense():
    orders = list(islice(generate.orders(), 300))
    refused = 0
    for order in orders:
        try:
            assert await shop.validate_cart(order) == order.total_cents
        except shop.InvalidCart:
            refused += 1
    assert 5 <= refused <= 30


# ── Its bank ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def bank(tmp_path, monkeypatch) -> payments.Payments:
    monkeypatch.setattr(payments, "USUAL_SECONDS", (0, 0))
    monkeypatch.setattr(payments, "TOO_LATE_SECONDS", 0)
    return payments.Payments(tmp_path / "ledger.jsonl")


def charge(bank: payments.Payments, key: str = "k", card: str = "tok_visa_1", order: str = "o") -> tuple[int, Any]:
    return bank.handle("/charge", {"key": key, "order": order, "card": card, "cents": 500})


def noted(tmp_path: Path) -> list[str]:
    return [entry["what"] for entry in ledger_of(tmp_path)]


def test_the_bank_accepts_a_key_once(bank, tmp_path):
    assert charge(bank) == charge(bank)
    assert noted(tmp_path) == ["accepted", "repeat"]


def test_the_bank_does_not_guard_against_two_keys(bank, tmp_path):
    assert charge(bank, key="one") != charge(bank, key="two")
    assert noted(tmp_path) == ["accepted", "accepted"]


def test_the_bank_declines_and_stumbles_as_the_card_says(bank, tmp_path):
    assert charge(bank, card="tok_declined_1")[0] == 402
    assert charge(bank, key="f", card="tok_flaky_1")[0] == 503
    assert charge(bank, key="f", card="tok_flaky_1")[0] == 200
    assert noted(tmp_path) == ["declined", "unavailable", "accepted"]


def test_the_bank_refunds_once_and_takes_no_late_charge(bank, tmp_path):
    charge(bank)
    assert bank.handle("/refund", {"order": "o"}) == (200, {"refunded_cents": 500})
    assert bank.handle("/refund", {"order": "o"}) == (200, {"refunded_cents": 0})
    assert charge(bank, key="late")[0] == 409
    assert noted(tmp_path) == ["accepted", "closed", "refund", "refused"]


def test_a_service_answers_on_this_machine_only():
    with pytest.raises(ValueError, match="not on this machine"):
        post("http://example.com:80/charge", {})


def test_a_service_ends_with_its_standard_input(tmp_path):
    command = [sys.executable, "-m", "holdfast.demo.payments", str(tmp_path / "ledger.jsonl")]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        url = json.loads(service.stdout.readline())["url"]
        assert post(f"{url}/charge", {"key": "k", "order": "o", "card": "tok_visa_1", "cents": 5})["payment"]
        with pytest.raises(HttpRefused, match="insufficient funds"):
            post(f"{url}/charge", {"key": "d", "order": "o", "card": "tok_declined_1", "cents": 5})
        service.stdin.close()
        assert service.wait(10) == 0
