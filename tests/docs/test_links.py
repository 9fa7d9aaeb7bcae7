"""A link of a page leads to a file, and to a heading of it, that is there. Links to other hosts are not followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "build" / "reference"
PAGES = sorted(path for folder in (".", "docs", "examples") for path in (ROOT / folder).glob("*.md"))

LINK = re.compile(r"\]\((?!https?:)(?P<page>[^)#]*)(?:#(?P<anchor>[^)]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def links_of(path: Path) -> list[tuple[Path, str]]:
    """The files that a page links to, each with the anchor in it, or nothing."""
    text = FENCED.sub("", path.read_text(encoding="utf-8")).replace("\n", " ")
    return [
        ((path.parent / link["page"]).resolve() if link["page"] else path, link["anchor"] or "")
        for link in LINK.finditer(text)
    ]


def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings, as they are made by those who show Markdown."""
    headings = HEADING.findall(FENCED.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_there(target: Path, anchor: str) -> bool:
    return target.exists() and (not anchor or anchor in anchors_of(target))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_links_to_what_is_there(path: Path) -> None:
    links = [link for link in links_of(path) if not link[0].is_relative_to(REFERENCE)]  # see test_reference.py
    assert [link for link in links if not is_there(*link)] == []


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](#one) [b](#two)\n[c](other.md) [d](https://example.com) [e](page.md#one)\n")
    assert [(target.name, anchor) for target, anchor in links_of(page) if not is_there(target, anchor)] == [
        ("page.md", "two"),
        ("other.md", ""),
    ]
