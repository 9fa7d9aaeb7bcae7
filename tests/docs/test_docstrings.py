"""The examples in the docstrings of the library run, and answer what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_examples() -> list[str]:
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


def failures_in(module: ModuleType) -> str:
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for case in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(case, out=report.append)
    return "".join(report)


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert failures_in(importlib.import_module(name)) == ""


def test_a_wrong_example_is_found() -> None:
    module = ModuleType("sample")
    module.__doc__ = ">>> 1 + 1\n2\n"
    assert failures_in(module) == ""
    module.__doc__ = ">>> 1 + 1\n3\n"
    assert "Expected" in failures_in(module)
