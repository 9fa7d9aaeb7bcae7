"""The reference, as `make docs` writes it: every public name, no internal module, no link to nothing."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_links import PAGES, REFERENCE, ROOT, links_of
from tools.reference import HANDED_OUT, MODULES, RETURNED

PUBLIC = [(module, name) for module in MODULES for name in import_module(module).__all__ if name != "DurableFabric"]
"""All that users import, but for what needs AWS CDK."""

RETURNS = [(f"holdfast.{module}", name) for module, names in HANDED_OUT.items() for name in names.split()]
PARTS = {"navtoggle", "togglestate", "site"}
"""What has an id on every page."""


class Page(HTMLParser):
    """The anchors of a page, where its links lead to, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self._skips = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._skips = tag in {"script", "style"}
        self.anchors |= {given["id"] or ""} if "id" in given else set()
        self.links += [given["href"] or ""] if tag == "a" and "href" in given else []

    def handle_data(self, data: str) -> None:
        self.text += "" if self._skips else data


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, "-W", "error", "-m", "tools.reference", str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return {path.relative_to(folder): Page(path) for path in folder.rglob("*.html")}


def page_of(module: str) -> Path:
    return Path(f"{module.replace('.', '/')}.html")


def test_every_public_name_is_on_the_page_of_its_module_and_every_other_is_not(pages: dict[Path, Page]) -> None:
    expected = {*PUBLIC, *((RETURNED, name) for _, name in RETURNS)}
    assert set(pages) == {Path("index.html"), *(page_of(module) for module, _ in expected)}
    for path, page in pages.items():
        names = {name for module, name in expected if page_of(module) == path}
        assert {anchor for anchor in page.anchors if re.fullmatch(r"[A-Za-z]\w*", anchor)} - PARTS == names


def test_no_internal_module_is_named(pages: dict[Path, Page]) -> None:
    named = {name for page in pages.values() for name in re.findall(r"\bholdfast\.[a-z_]\w*", page.text)}
    assert {name for name in named if is_module(name)} - set(MODULES) == set()


def is_module(name: str) -> bool:
    path = ROOT / "src" / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def test_its_links_lead_to_what_is_there(pages: dict[Path, Page]) -> None:
    wrong = [(path, link) for path, page in pages.items() for link in page.links if not leads(pages, path, link)]
    assert wrong == []
    assert sum(len(page.links) for page in pages.values()) > 2000


def test_the_documentation_links_to_what_is_there(pages: dict[Path, Page]) -> None:
    links = [link for path in PAGES for link in links_of(path) if link[0].is_relative_to(REFERENCE)]
    assert len(links) >= len(pages)
    wrong = [(path, anchor) for path, anchor in links if not is_on(pages, path.relative_to(REFERENCE), anchor)]
    assert wrong == []


def leads(pages: dict[Path, Page], path: Path, link: str) -> bool:
    if link.startswith("https://pdoc.dev"):  # the tool's own, at the bottom
        return True
    target, _, anchor = link.partition("#")
    folder = (REFERENCE / path).parent
    page = (folder / target).resolve().relative_to(REFERENCE) if target else path
    return is_on(pages, page, anchor)


def is_on(pages: dict[Path, Page], path: Path, anchor: str) -> bool:
    return path in pages and (not anchor or anchor in pages[path].anchors)


def without_docstring(module: str, name: str) -> Iterator[str]:
    """The name, and each method and property that a class adds to its bases, if it has no docstring."""
    value = getattr(import_module(module), name)
    if inspect.isroutine(value) and not value.__doc__:
        yield name
    if inspect.isclass(value):
        yield from [] if vars(value).get("__doc__") else [name]
        inherited = {attribute for base in value.__mro__[1:] for attribute in vars(base)}
        for attribute, member in vars(value).items():
            is_new = not attribute.startswith("_") and attribute not in inherited
            if is_new and is_method(member) and not inspect.getdoc(member):
                yield f"{name}.{attribute}"


def is_method(member: Any) -> bool:
    return inspect.isfunction(getattr(member, "fget", None) or getattr(member, "__func__", member))


@pytest.mark.parametrize("module", sorted({module for module, _ in (*PUBLIC, *RETURNS)}))
def test_every_public_name_has_a_docstring(module: str) -> None:
    names = [name for each, name in (*PUBLIC, *RETURNS) if each == module]
    assert [missing for name in names for missing in without_docstring(module, name)] == []
