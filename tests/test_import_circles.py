"""Modules know each other in one direction only, what is imported for annotations or late included."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.parsing import parsed

import holdfast

ROOT = Path(holdfast.__file__).parent
FACE = "holdfast"
"""It names what every module offers, and loads none of them."""

CIRCLES = (
    {"holdfast.kernel.entity", "holdfast.kernel.host", "holdfast.kernel.model"},
    {"holdfast.replay.generators", "holdfast.replay.intrusion", "holdfast.replay.loop", "holdfast.replay.tasks"},
)
"""A host, its models and their entities are told of each other, and so are a loop and its tasks: hints only."""


def name_of(path: Path) -> str:
    parts = ("holdfast", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(source: str, modules: Collection[str]) -> Iterator[str]:
    """The modules that a source imports. A name taken from a package is a module of it, if there is one."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for each in node.names:
                own = f"{node.module}.{each.name}"
                yield own if own in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


@cache
def imports() -> dict[str, set[str]]:
    sources = {name_of(path): path.read_text() for path in ROOT.rglob("*.py")}
    del sources[FACE]
    return {name: set(imported_by(source, sources)) & sources.keys() - {name} for name, source in sources.items()}


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def without_hints_in(circles: tuple[set[str], ...], graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph without the imports inside these circles."""
    inside = {module: circle for circle in circles for module in circle}
    return {module: imported - inside.get(module, set()) for module, imported in graph.items()}


def folder_of(module: str) -> str:
    """The folder of a package that a module lies in, or the module."""
    return ".".join(module.split(".")[:3])


def test_no_module_knows_one_that_knows_it() -> None:
    graph = imports()
    assert sum(map(len, graph.values())) > len(graph), "the imports were not read"
    assert circle_in(without_hints_in(CIRCLES, graph)) == []


@pytest.mark.parametrize("circle", CIRCLES, ids=min)
def test_the_circles_that_are_left_are_circles_of_hints(circle: set[str]) -> None:
    graph = imports()
    others = tuple(each for each in CIRCLES if each is not circle)
    assert set(circle_in(without_hints_in(others, graph))) <= circle
    assert circle_in({module: graph[module] & circle for module in circle}) != []


def test_no_folder_knows_one_that_knows_it() -> None:
    folders: dict[str, set[str]] = {}
    for module, imported in without_hints_in(CIRCLES, imports()).items():
        folders.setdefault(folder_of(module), set()).update(map(folder_of, imported))
    assert circle_in({folder: imported - {folder} for folder, imported in folders.items()}) == []


def test_a_circle_is_found() -> None:
    assert set(circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
    assert circle_in(without_hints_in(({"a", "b"},), {"a": {"b"}, "b": {"a", "c"}, "c": set()})) == []
