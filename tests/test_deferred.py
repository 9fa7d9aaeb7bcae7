"""Modules that stand in for others until something in them is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.deferred import DeferredModule, LazyModule, made_when_used

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
    module = LazyModule(late)
    assert late not in sys.modules
    assert module.double("ab") == 4
    assert vars(module)["double"] is sys.modules[late].double, "and is asked for once"


def test_a_lazy_module_has_what_the_module_has(late: str) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = LazyModule(late).nothing


def test_a_method_of_a_deferred_module_takes_the_instance(late: str) -> None:
    module: Any = DeferredModule(late)

    class Words(list[str]):
        double = module.double

    words = Words(["a"])
    assert late not in sys.modules
    assert words.double() == 2
    assert words.double(times=3) == 3
    assert vars(Words)["double"] is sys.modules[late].double, "the function has taken its place"


def test_an_attribute_of_a_deferred_module_is_made_once(late: str) -> None:
    module: Any = DeferredModule(late)

    class Words(list[str]):
        count = made_when_used(module.double)

    words = Words(["a"])
    assert late not in sys.modules
    assert words.count == 2
    words.append("b")
    assert words.count == 2
