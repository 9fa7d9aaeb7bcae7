"""Pages name what exists (tests, files), and what exists (guarantees, commands, public names) is on a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.every import every_command

import holdfast

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = ("workflows.md", "actors.md", "deploy.md", "state-machines.md")
"""The pages with tables of commands."""

GUARANTEES = [f"G{number}" for number in range(1, 17)]

PROOF = re.compile(r"`((?:src|tests)/[\w./]+\.py)::(\w+)`")
FILE = re.compile(r"`((?:src|tests|docs|tools|benchmarks|examples)/[\w./-]+)")
CHECKLIST_ROW = re.compile(r"^\|( \d+ \|.*)\|$", re.MULTILINE)
FUNCTION = re.compile(r"^ *(?:async )?def (\w+)", re.MULTILINE)
SECTION = re.compile(r"^## (G\d+)\b.*$", re.MULTILINE)


def sections() -> dict[str, str]:
    """The text of each guarantee, by its number."""
    parts = SECTION.split((ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def functions_of(path: Path) -> set[str]:
    return set(FUNCTION.findall(path.read_text(encoding="utf-8")))


def test_every_guarantee_has_its_section() -> None:
    assert list(sections()) == GUARANTEES


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_guarantee_is_proven_by_tests_that_exist(guarantee: str) -> None:
    proofs = PROOF.findall(sections()[guarantee])
    missing = [f"{path}::{name}" for path, name in proofs if name not in functions_of(ROOT / path)]
    assert proofs, f"{guarantee} names no test"
    assert not missing


def test_every_row_of_the_security_checklist_names_its_test() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in CHECKLIST_ROW.findall(text)]
    assert [int(number) for number, *_ in rows] == list(range(1, 27))
    assert [number for number, *_, proof in rows if not PROOF.search(proof)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_names_files_and_tests_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    files = [name for name in FILE.findall(text) if not (ROOT / name).exists()]
    tests = [f"{name}::{test}" for name, test in PROOF.findall(text) if test not in functions_of(ROOT / name)]
    assert not files
    assert not tests


@pytest.mark.parametrize("command", sorted(command for command, _ in every_command()))
def test_every_command_is_in_a_guide(command: str) -> None:
    text = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in GUIDES)
    assert re.search(rf"^\| .*`{command}\b", text, re.MULTILINE)


def test_every_public_name_is_on_a_page() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert [name for name in holdfast.__all__ if not re.search(rf"\b{name}\b", text)] == []
