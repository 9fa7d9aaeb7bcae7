"""Prose uses the standard words: the pages of docs/, README.md, and the docstrings and comments of src/holdfast."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "holdfast"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PACKAGES = sorted(path.parent for path in SOURCE.glob("*/__init__.py"))

PERSON = "it, or name the process: the worker, the caller, the owner"
STANDARD = {
    "whoever": "the worker, the caller, a process that",
    "whomever": "the worker, the caller, a process that",
    "somebody": "another worker, another process, a caller",
    "anybody": "any worker, any caller",
    "nobody": "no worker, no process",
    "he": PERSON,
    "his": PERSON,
    "him": PERSON,
    "himself": PERSON,
    "beside": "concurrently, next to",
    "anew": "again",
    "how-manieth": "occurrence number",
    "so many": "a number of, count",
    "gets on": "makes progress",
    "stranded": "blocked",
    "strands": "blocks",
    "mend": "repair",
    "mends": "repairs",
    "mended": "repaired",
    "mending": "repair",
    "let go": "release",
    "lets go": "releases",
    "letting go": "releasing",
    "set aside": "parked",
    "sets aside": "parks",
    "ring": "wake-up, wake",
    "rings": "wake-ups, wakes",
    "rang": "woke",
    "rung": "woken",
    "ringing": "waking",
}
"""What is not to be said, and what to say."""

PHRASES = "|".join(STANDARD).replace(" ", r"\s+")
WORD = re.compile(rf"(?<![\w-])(?:{PHRASES})(?![\w-])")
CODE = re.compile(r"^(?P<fence>```+).*?^(?P=fence)|(?P<ticks>`+)[^`]+?(?P=ticks)|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
STRING = r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'"
PROSE_OF_PYTHON = re.compile(
    rf'^[ ]*r?"""(?P<docstring>.*?)"""|""".*?"""|{STRING}|#(?P<comment>[^\n]*)', re.MULTILINE | re.DOTALL
)

ALLOWED: dict[str, int] = {
    "docs/glossary.md": 8,
    "src/holdfast": 0,
    "src/holdfast/actors": 0,
    "src/holdfast/chaos": 0,
    "src/holdfast/compat": 0,
    "src/holdfast/cost": 0,
    "src/holdfast/demo": 0,
    "src/holdfast/http": 0,
    "src/holdfast/infra": 0,
    "src/holdfast/kernel": 0,
    "src/holdfast/messaging": 0,
    "src/holdfast/moving": 0,
    "src/holdfast/patterns": 0,
    "src/holdfast/replay": 0,
    "src/holdfast/runtime": 0,
    "src/holdfast/workflows": 0,
}
"""How many are left in a page or a package, 0 where none is named. A number only ever goes down."""


class Found(NamedTuple):
    """A word that is not to be used."""

    path: Path
    line: int
    word: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.word!r}; say: {STANDARD[self.word]}"


def found_in(path: Path, prose: str, first_line: int = 1) -> Iterator[Found]:
    text = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), prose.lower())
    for match in WORD.finditer(text):
        line = first_line + text.count("\n", 0, match.start())
        yield Found(path, line, " ".join(match[0].split()))


def found_in_module(path: Path) -> Iterator[Found]:
    text = path.read_text(encoding="utf-8")
    for part in PROSE_OF_PYTHON.finditer(text):
        prose = part["docstring"] or part["comment"]
        if prose and WORD.search(prose.lower()):
            yield from found_in(path, prose, 1 + text.count("\n", 0, part.start()))


def found_at(place: str) -> list[Found]:
    """The words on a page, or in the modules of a package, those below it included."""
    path = ROOT / place
    if path.suffix == ".md":
        return list(found_in(path, path.read_text(encoding="utf-8")))
    modules = path.glob("*.py") if path == SOURCE else path.rglob("*.py")
    return [found for module in sorted(modules) for found in found_in_module(module)]


@pytest.mark.parametrize("place", [path.relative_to(ROOT).as_posix() for path in (*PAGES, SOURCE, *PACKAGES)])
def test_a_place_uses_the_standard_words(place: str) -> None:
    found, allowed = found_at(place), ALLOWED.get(place, 0)
    listed = "\n".join(map(str, found))
    assert len(found) <= allowed, f"{place}: {len(found)} words, {allowed} allowed; replace what you added:\n{listed}"
    assert len(found) == allowed, f"{place}: {len(found)} words are left; lower ALLOWED[{place!r}] from {allowed}"


def test_what_is_allowed_is_there() -> None:
    assert [place for place in ALLOWED if not (ROOT / place).exists()] == []


def test_code_is_not_prose() -> None:
    page = "Say `whoever`, [so](x.md#let-go) they\n```python\nnobody = 1\n```\nwere set\naside"
    assert [(found.line, found.word) for found in found_in(ROOT, page)] == [(5, "set aside")]
