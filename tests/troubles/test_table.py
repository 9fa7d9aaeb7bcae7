"""The table of troubles in the documentation is that of the tests."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from tests.troubles.stage import MOST_COMMANDS, PAGES, TOLD

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def rows() -> dict[str, list[str]]:
    found = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ")]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in found[1:]}


@pytest.fixture(scope="module", autouse=True)
def _all_troubles_are_known():
    for module in HERE.glob("test_*.py"):
        import_module(f"tests.troubles.{module.stem}")


def test_each_row_is_tested_and_each_tested_trouble_has_a_row():
    assert rows().keys() == TOLD.keys()


def test_the_commands_of_each_row_are_those_that_its_test_types():
    told = {name: tuple(re.findall(r"`holdfast ([^`]+)`", cells[1])) for name, cells in rows().items()}
    assert told == TOLD


def test_no_row_takes_more_than_two_commands_and_each_says_how_many():
    assert {name: int(cells[2]) for name, cells in rows().items()} == {name: len(each) for name, each in TOLD.items()}
    assert max(int(cells[2]) for cells in rows().values()) <= MOST_COMMANDS
    assert all(cells[0] and cells[4] for cells in rows().values())


def test_the_pages_of_each_row_are_those_that_its_test_opens():
    assert {name: tuple(filter(None, cells[3].split(" > "))) for name, cells in rows().items()} == PAGES
