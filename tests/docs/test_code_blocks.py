"""Every code block of README.md and docs/ is run: documentation that lies fails the build.

The blocks of one page run in order, in one namespace, in a fresh process and a fresh folder, without HOLDFAST_URL.

    ```python                     run
    ```python file=shop.py        written to that file and imported; its names join the namespace
    ```python raises=SomeError    run, and must raise that error (or a subclass of it)
    ```console                    `$ command` runs in the same folder and must succeed; the lines below it must
                                  appear in its output, in this order; `...` stands for anything
    ```console exit=1             the same, but its last command must end with this status

A file that is written again is imported with all that it imports. A command that ends in `&` runs in the background
until the page ends. 8080 in a console block stands for a port that is free. Other languages are not run. Python that
would not run (```py, ```pycon, ```python no-run) is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("run_blocks.py")
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.exists()]
PAGE_TIMEOUT_SECONDS = 120

FENCE = re.compile(r"^(?P<indent>[ >]*)(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)(?P<options>[^`]*)$")
OPTIONS = {"python": {"file", "raises"}, "console": {"exit"}}
DISGUISES = frozenset({"py", "py3", "pycon", "python3", "ipython", "Python"})

NOT_A_READERS = ("HOLDFAST_", "PYTEST_", "PYTHON", "MAKE")
"""Variables of the test run that the shell of a reader has not: a `make` that began it says which Python it takes."""


class WrongPage(Exception):
    """A page that cannot be run, with the place and the reason."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: ``line`` is the number of its first line of code."""

    language: str
    line: int
    code: str
    options: dict[str, str]


def blocks_of(page: str, text: str) -> list[Block]:
    """The blocks of a page that are to be run."""
    blocks: list[Block] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        opening = FENCE.match(line)
        if opening is None:
            continue
        code: list[str] = []
        for _, inner in lines:
            closing = FENCE.match(inner)
            if closing and closing["fence"].startswith(opening["fence"]) and not closing["language"]:
                break
            code.append(inner.removeprefix(opening["indent"]))
        else:
            raise WrongPage(f"{page}:{number} the block is never closed")
        language = opening["language"]
        if language in DISGUISES:
            raise WrongPage(f"{page}:{number} write ```python, so that the block is run, not ```{language}")
        if language in OPTIONS:
            options = options_of(f"{page}:{number}", language, opening["options"])
            blocks.append(Block(language, number + 1, textwrap.dedent("\n".join(code)) + "\n", options))
    return blocks


def options_of(place: str, language: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if name not in OPTIONS[language] or not equals:
            raise WrongPage(f"{place} ```{language} takes {sorted(OPTIONS[language])}, not {word!r}")
        options[name] = value.strip("\"'")
    return options


def run_page(page: str, text: str, folder: Path) -> tuple[int, str]:
    """Run all blocks of a page in a fresh process; its status is 0 only if each block did what the page says."""
    job = json.dumps({"page": page, "blocks": [asdict(block) for block in blocks_of(page, text)]})
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NOT_A_READERS)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    with subprocess.Popen(
        [sys.executable, "-W", "error", RUNNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=environment,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(job, timeout=PAGE_TIMEOUT_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_tells_the_truth(path: Path, tmp_path: Path) -> None:
    status, said = run_page(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"), tmp_path)
    assert status == 0, "\n" + said


# ── The test itself can fail ────────────────────────────────────────────────────────────────────────────────────────

RIGHT = {
    "names live on": """
        ```python
        import asyncio
        x = 1
        ```
        ```python
        async def main(): return x
        assert asyncio.run(main()) == 1
        ```
    """,
    "hints and sources can be read": """
        ```python
        from __future__ import annotations
        import dataclasses, inspect, typing
        @dataclasses.dataclass
        class Order:
            size: Count
        Count = int
        assert typing.get_type_hints(Order) == {"size": int}
        assert "size: Count" in inspect.getsource(Order)
        def double(n): return 2 * n
        assert "2 * n" in inspect.getsource(double)
        assert __name__ == "__main__"
        ```
    """,
    "an expected error": """
        ```python raises=LookupError
        {}["a"]
        ```
    """,
    "a file": """
        ```python file=shop.py
        price = 3
        if __name__ == "__main__":
            print("for", price)
        ```
        ```python
        assert price == 3
        ```
        ```console
        $ python shop.py
        for 3
        ```
    """,
    "a file that is written again": """
        ```python file=things.py
        names = set()
        ```
        ```python file=shop.py
        from things import names
        assert not names
        names.add("shop")
        ```
        ```python file=shop.py
        from things import names
        assert not names
        ```
    """,
    "a port": """
        ```console
        $ python -c "import socket; print(socket.create_server(('127.0.0.1', 8080)).getsockname()[1])"
        8080
        ```
    """,
    "a command": """
        ```console
        $ echo one; echo two and three; echo four
        one
        ... three
        four
        $ touch here && echo a \\
          b
        a b
        ```
        ```python
        from pathlib import Path
        assert Path("here").exists()
        ```
    """,
    "a command that fails": """
        ```console exit=3
        $ echo no; exit 3
        no
        ```
    """,
    "a command in the background": """
        ```console
        $ sleep 1000 &
        $ echo on
        on
        ```
    """,
    "indented blocks": """
        1. First:

            ```python
            y = 2
            ```
        > ~~~python
        > y == 2 or 1 / 0
        > ~~~
    """,
    "other languages": """
        ```toml
        not = python
        ```
        ````markdown
        ```python
        1 / 0
        ```
        ````
    """,
    "no home": """
        ```python
        import os
        assert "HOLDFAST_URL" not in os.environ and not os.listdir()
        ```
    """,
}

WRONG = {
    "an error": ("```python\n\n1 / 0\n```", 'page.md", line 3'),
    "a syntax error": ("```python\n1 +\n```", "SyntaxError"),
    "an error that did not come": ("```python raises=KeyError\n1\n```", "page.md:2 raised nothing"),
    "another error": ("```python raises=KeyError\n1 / 0\n```", "ZeroDivisionError"),
    "exit": ("```python\nimport sys; sys.exit()\n```", "SystemExit"),
    "a file with an error": ("```python file=a.py\n1 / 0\n```", "ZeroDivisionError"),
    "missing output": ("```console\n$ echo one\ntwo\n```", "'two'"),
    "output in another order": ("```console\n$ echo one; echo two\ntwo\none\n```", "'one'"),
    "a command that fails": ("```console\n$ false\n```", "ended with 1"),
    "a command that should fail": ("```console exit=1\n$ true\n```", "ended with 0"),
    "no command": ("```console\nhello\n```", "begins with"),
    "the second block": ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```", 'page.md", line 6'),
}

REFUSED = {
    "no-run": "```python no-run\n```",
    "an unknown option": "```python skip=1\n```",
    "a disguise": "```py\nx\n```",
    "an open end": "```python\nx",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_a_right_page_passes(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "memory://")
    status, said = run_page("page.md", textwrap.dedent(text), tmp_path)
    assert status == 0, "\n" + said


@pytest.mark.parametrize(("text", "complaint"), WRONG.values(), ids=WRONG)
def test_a_wrong_page_fails(text: str, complaint: str, tmp_path: Path) -> None:
    status, said = run_page("page.md", text, tmp_path)
    assert status == 1
    assert complaint in said


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_page_that_hides_code_is_refused(text: str) -> None:
    with pytest.raises(WrongPage, match=r"page\.md:1 "):
        blocks_of("page.md", text)
