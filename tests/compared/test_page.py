"""docs/patterns-compared.md shows the very code that is played here, all of it, and names every test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.parsing import parsed

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "patterns-compared.md").read_text(encoding="utf-8")
NAIVE = (HERE / "naive.py").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
TOP_LEVEL = [node for node in parsed(NAIVE).body if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)]
TESTS = sorted(path for path in HERE.glob("test_*.py") if path.name != Path(__file__).name)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_on_the_page_is_the_code_that_is_played(block):
    for piece in block.split("\n\n\n"):
        assert f"\n{piece}\n" in NAIVE


@pytest.mark.parametrize("function", TOP_LEVEL, ids=lambda function: function.name)
def test_all_of_it_is_on_the_page(function):
    assert ast.get_source_segment(NAIVE, function) in "\n".join(BLOCKS)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_page_names_every_test(path):
    names = re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in names if f"`tests/compared/{path.name}::{name}`" not in PAGE] == []
