"""The tests parse source, and nothing else may parse meanwhile."""

from __future__ import annotations

import ast
import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.parsing import parsed

SOURCE = Path(__file__).read_text(encoding="utf-8")


@contextmanager
def collecting() -> Generator[list[ast.Module]]:
    """There is a collection for every few new objects, and each parses something."""
    found: list[ast.Module] = []

    def collected(phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            found.append(ast.parse("1 + 1"))

    before = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        yield found
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)


def test_nothing_is_collected_while_a_source_is_parsed():
    with collecting() as collections:
        before = len(collections)
        parsed(SOURCE)
        after = len(collections)
    assert after - before <= 1, "one may come when it is over"
    assert gc.isenabled()
