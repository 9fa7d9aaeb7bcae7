"""Modules that stand in for others until something in them is asked for."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.deferred import LazyModule, MethodsOf, made_when_used

SOURCE = """
def double(thing, times=2):
    return times * len(thing)
"""


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that nothing has imported."""
    (tmp_path / "imported_late.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "imported_late"
    sys.modules.pop("imported_late", None)


def test_a_lazy_module_is_imported_when_a_function_of_it_is_asked_for(late: str) -> None:
    names: dict[str, Any] = {"other": 1}
    names["late"] = names["again"] = LazyModule(late, names)
    assert late not in sys.modules
    assert names["late"].double("ab") == 4
    module = sys.modules[late]
    assert names == {"other": 1, "late": module, "again": module}, "the module has taken its place"


def test_what_python_asks_a_lazy_module_for_imports_nothing(late: str) -> None:
    module = LazyModule(late, {})
    assert not hasattr(module, "__wrapped__")
    assert copy.copy(module) is not module
    assert late not in sys.modules


def test_a_lazy_module_has_what_the_module_has(late: str) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = LazyModule(late, {}).nothing


def test_a_method_of_a_deferred_module_takes_the_instance(late: str) -> None:
    module: Any = MethodsOf(late)

    class Words(list[str]):
        double = module.double

    words = Words(["a"])
    assert late not in sys.modules
    assert words.double() == 2
    assert words.double(times=3) == 3
    assert vars(Words)["double"] is sys.modules[late].double, "the function has taken its place"


def test_an_attribute_of_a_deferred_module_is_made_once(late: str) -> None:
    module: Any = MethodsOf(late)

    class Words(list[str]):
        count = made_when_used(module.double, "How many, twice.")

    words = Words(["a"])
    assert late not in sys.modules
    assert words.count == 2
    words.append("b")
    assert words.count == 2
    assert vars(Words)["count"].__doc__ == "How many, twice."
