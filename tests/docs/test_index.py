"""docs/README.md lists every page, every page leads back to it, and docs/glossary.md can be searched by eye."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
INDEX = DOCS / "README.md"
GLOSSARY = DOCS / "glossary.md"
PAGES = sorted(path for path in DOCS.glob("*.md") if path != INDEX)

ENTRY = re.compile(r"^\*\*(?P<term>[^*]+)\*\*: (?P<text>.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
ENTRIES = {entry["term"]: entry["text"] for entry in ENTRY.finditer(GLOSSARY.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_index_says_which_question_a_page_answers(page: Path) -> None:
    lines = re.findall(rf"^- .*\]\({page.name}\): .+\?$", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_links_to_the_index_and_the_glossary(page: Path) -> None:
    title, blank, links, *_ = page.read_text(encoding="utf-8").splitlines()
    assert (title[:2], blank) == ("# ", "")
    assert links == (
        "[All pages](README.md)" if page == GLOSSARY else "[All pages](README.md) · [Glossary](glossary.md)"
    )


def test_the_glossary_is_in_alphabetical_order() -> None:
    terms = [term.replace("-", "").lower() for term in ENTRIES]
    assert len(terms) > 90
    assert terms == sorted(terms)


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_of_the_glossary_leads_to_its_explanation(term: str) -> None:
    text = ENTRIES[term]
    other = re.search(r"see \*(.+?)\*\.$", text)
    assert other[1].capitalize() in ENTRIES if other else re.search(r"\]\((?!https?:).+\)", text)
