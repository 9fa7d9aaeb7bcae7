"""Packages whose modules know each other in one direction only, what is imported for annotations included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.parsing import parsed

import holdfast

ROOT = Path(holdfast.__file__).parent
WITHOUT_CIRCLES = ["actors"]
"""A package that has lost its last circle is added here."""


def modules_of(package: str) -> dict[str, Path]:
    paths = (ROOT / package).rglob("*.py")
    return {".".join(("holdfast", *path.relative_to(ROOT).with_suffix("").parts)): path for path in paths}


def imported_by(source: str) -> Iterator[str]:
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def imports_in(package: str) -> dict[str, set[str]]:
    modules = modules_of(package)
    return {name: set(imported_by(path.read_text())) & modules.keys() for name, path in modules.items()}


def room_of(module: str) -> str:
    """The module, or the folder of the package that it lies in."""
    return ".".join(module.split(".")[:3])


@pytest.mark.parametrize("package", WITHOUT_CIRCLES)
def test_no_module_knows_one_that_knows_it(package: str) -> None:
    imports = imports_in(package)
    assert sum(map(len, imports.values())) > len(imports), "the imports were not read"
    assert circle_in(imports) == []


@pytest.mark.parametrize("package", WITHOUT_CIRCLES)
def test_no_folder_knows_one_that_knows_it(package: str) -> None:
    rooms: dict[str, set[str]] = {}
    for module, imported in imports_in(package).items():
        rooms.setdefault(room_of(module), set()).update(room_of(each) for each in imported)
    assert circle_in({room: imported - {room} for room, imported in rooms.items()}) == []


def test_a_circle_is_found() -> None:
    assert set(circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
