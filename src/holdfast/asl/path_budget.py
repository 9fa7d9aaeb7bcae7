"""How much one JSONPath may do. A few ``..`` or a filter within a filter multiply what a small input has, and the
process does nothing else while a path is evaluated.

What is counted are nodes and comparisons, and not seconds: a replay comes to the same end on any machine.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from holdfast.asl.errors import RUNTIME, EvaluationError

MAX_NODES: Final = 1_000_000
"""About a second of the processor. To look at each value of an input of 256 KiB once takes 375,000 at most."""
CHARACTERS_A_NODE: Final = 16
"""What of a text that is found again and again counts as a node."""

_left: ContextVar[list[int]] = ContextVar("how many nodes a path may still look at")


class _Spent(Exception):
    """Nothing is left."""


def spend(nodes: int) -> None:
    """Count nodes that a path looks at, or comparisons. Ends the path when it has had too many."""
    left = _left.get()
    left[0] -= nodes
    if left[0] < 0:
        raise _Spent


def within_a_path() -> bool:
    """Whether a path is being evaluated: another one is then in a filter of it, and spends what that one has."""
    return _left.get(None) is not None


@contextmanager
def budgeted(path: str) -> Generator[None]:
    """Let a path look at ``MAX_NODES`` at most, its filters included. Raises ``EvaluationError``."""
    before = _left.set([MAX_NODES])
    try:
        yield
    except _Spent:
        told = f"it looks at more than {MAX_NODES:,} values, each counted as often as it is reached"
        advice = "Write it with fewer '..', name the fields on the way, or compare with less in its filters"
        raise EvaluationError(RUNTIME, f"Invalid path '{path}' : {told}. {advice}") from None
    finally:
        _left.reset(before)
