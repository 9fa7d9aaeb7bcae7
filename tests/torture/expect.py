"""What every execution must come to: its inputs by number, its end, its result and exactly which effects it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

Effects = Mapping[str, str]
"""What the ledger accepted for one execution: label → value."""


class Ending(NamedTuple):
    """How an execution of one kind must end.

    ``result`` names effects, in the order of the result; or computes it. ``effects`` are all those that must have been
    accepted, once each; those in ``optional`` may have been.
    """

    effects: tuple[str, ...]
    result: tuple[str, ...] | None = None
    status: str = "COMPLETED"
    optional: tuple[str, ...] = ()
    error: str = ""


FAILED_TRIP: Final = Ending(
    ("reserve seat", "charge", "refuse", "undo charge", "undo reserve seat"), status="FAILED", error="Terminal"
)
TRIP: Final = Ending(("reserve seat", "charge"), ("reserve seat", "charge"))

ENDINGS: Final[Mapping[str, Ending]] = {
    "order": Ending(("reserve a", "reserve b", "charge", "ship"), ("reserve a", "reserve b", "charge", "ship")),
    "approval": Ending(("ask", "close"), ("ask", "=0", "=1", "=2", "=?", "close")),
    "family": Ending(
        ("wrap left", "box left", "wrap right", "box right", "send"),
        ("wrap left", "box left", "wrap right", "box right", "send"),
    ),
    "rolling": Ending(("turn 0", "turn 1", "turn 2"), ("=0", "turn 0", "=1", "turn 1", "=2", "turn 2")),
    "messenger": Ending(("told",), ("=0", "=1", "=2", "told")),
    "transfer": Ending(("receipt",), ("=?", "receipt")),
    "once": Ending(("fuel", "report"), ("fuel", "=?", "report"), optional=("launch",)),
    "impatient": Ending(("gave up",), ("gave up",)),
    "doomed": Ending((), status="TERMINATED", error="ExecutionTerminated"),
    "recalled": Ending(("clean up",), status="CANCELLED", error="CancelledError"),
}
"""``=x`` stands for the text x itself, ``=?`` for something judged apart."""

KINDS: Final = ("order", "family", "approval", "trip", "rolling", "order", "messenger", "transfer", "once", "family")
RARE_KINDS: Final = ("impatient", "doomed", "recalled")


def kind_of(number: int) -> str:
    """What the ``number``-th execution is."""
    if number % 7 == 6:
        return RARE_KINDS[number // 7 % len(RARE_KINDS)]
    return KINDS[number % len(KINDS)]


def id_of(number: int) -> str:
    return f"{kind_of(number)}-{number}"


def arguments_of(number: int, *, other: bool = False) -> tuple[Any, ...]:
    """The input; ``other`` is one that does not belong to this id."""
    first = -1 if other else number
    return (first, 0, []) if kind_of(number) == "rolling" else (first,)


def ending_of(number: int) -> Ending:
    kind = kind_of(number)
    if kind == "trip":
        return FAILED_TRIP if number // 10 % 2 else TRIP
    return ENDINGS[kind]


# ── Judging ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def complaints(number: int, status: str, result: Any, error: str, effects: Effects) -> Iterator[str]:
    """Everything that is wrong with how an execution ended."""
    id, ending = id_of(number), ending_of(number)
    if status != ending.status:
        yield f"{id} ended as {status} ({error}), not as {ending.status}"
        return
    if ending.error and ending.error not in error:
        yield f"{id} ended with {error!r}, not with {ending.error}"
    missing = [label for label in ending.effects if label not in effects]
    surplus = effects.keys() - {*ending.effects, *ending.optional}
    if missing or surplus:
        yield f"{id}: effects missing {missing}, effects too many {sorted(surplus)}"
        return
    if ending.result is not None:
        yield from _result_complaints(id, ending.result, result, effects)
    if kind_of(number) in SPECIAL:
        yield from SPECIAL[kind_of(number)](id, result, effects)


def _result_complaints(id: str, names: tuple[str, ...], result: Any, effects: Effects) -> Iterator[str]:
    if not isinstance(result, list) or len(result) != len(names):
        yield f"{id}: the result is {result!r}"
        return
    for name, value in zip(names, result, strict=True):
        wanted = name[1:] if name.startswith("=") else effects[name]
        if wanted not in {"?", value}:
            yield f"{id}: the result says {value!r} where {name!r} came to {wanted!r}"


def _once(id: str, result: Any, effects: Effects) -> Iterator[str]:
    launched = effects.get("launch")
    if result[1] not in {"interrupted", launched}:
        yield f"{id}: the result says {result[1]!r}, the ledger {launched!r}"


def _approval(id: str, result: Any, effects: Effects) -> Iterator[str]:
    if result[4] not in {f"said by {client}" for client in range(2)}:
        yield f"{id}: nobody said {result[4]!r}"


SPECIAL: Final[Mapping[str, Callable[[str, Any, Effects], Iterator[str]]]] = {"once": _once, "approval": _approval}
