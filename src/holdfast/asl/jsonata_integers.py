"""Integers that JSONata's numbers cannot hold: those from 2**53 on, such as ids, which pass an expression exactly.

JSONata computes with doubles, as JavaScript does, and so does the engine. Step Functions keeps 64 bits. So a number of
a result that is the double of an integer that the expression reads gets the digits of this integer. Two integers with
the same double fail the evaluation where that double is in its result: nothing tells which of them it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from itertools import chain
from typing import Any, Final

import msgspec

from holdfast.asl.jsontext import is_array, is_number, is_object

LARGEST_EXACT: Final = 2**53
"""From here on an integer may look like its neighbour to the engine."""
LARGEST: Final = 2**63
"""Integers from here on are doubles at AWS, too."""

ROUNDED: Final = 1024
"""How far above ``LARGEST`` an integer may be and still have it for its double."""

WHOLE: Final = True
"""What is read of a value: all of it."""

LONG_NUMBER: Final = re.compile(r"\d{16}")

large_parsed: Final[ContextVar[list[float] | None]] = ContextVar("holdfast_asl_parsed", default=None)
"""Where `$parse` leaves the large numbers that it reads."""


class Ambiguous(Exception):
    """Two integers that an expression reads look alike to the engine, and one of them is in the result."""


def restored(result: str, values: dict[str, Any], reads: dict[str, Any], others: Iterable[float]) -> Any:
    """The value of a result, with the exact digits of the integers that the expression ``reads`` of ``values``, and of
    ``others``. Raises ``Ambiguous``.
    """
    value = msgspec.json.decode(result)
    if not LONG_NUMBER.search(result):
        return value
    exact: dict[float, set[int]] = {}
    for number in chain(large_numbers(values, reads), others):
        magnitude = abs(number)
        whole = magnitude if isinstance(magnitude, int) and magnitude < LARGEST else int(float(magnitude))
        exact.setdefault(float(whole), set()).add(whole)
    return _with_digits(value, exact) if exact else value


def large_numbers(value: Any, reads: object = WHOLE) -> Iterator[float]:
    """The numbers from ``LARGEST_EXACT`` up to ``LARGEST`` in what is read of a JSON value.

    ``reads`` has what is read of an object's fields by name, also for the objects of an array, or is ``WHOLE``.
    """
    if is_object(value):
        for name, inner in value.items():
            if not is_object(reads):
                yield from large_numbers(inner)
            elif name in reads:
                yield from large_numbers(inner, reads[name])
    elif is_array(value):
        for inner in value:
            yield from large_numbers(inner, reads)
    elif is_number(value) and LARGEST_EXACT <= abs(value) <= LARGEST + ROUNDED:
        yield value


def _with_digits(value: Any, exact: dict[float, set[int]]) -> Any:
    if is_object(value):
        return {name: _with_digits(inner, exact) for name, inner in value.items()}
    if is_array(value):
        return [_with_digits(inner, exact) for inner in value]
    found = exact.get(abs(float(value))) if is_number(value) and abs(value) >= LARGEST_EXACT else None
    if found is None:
        return value
    if len(found) > 1:
        one, other, *_ = sorted(found)
        raise Ambiguous(
            f"the integers {one} and {other} are one and the same to JSONata, so the result may be wrong. "
            "Pass them as text"
        )
    (digits,) = found
    return digits if value > 0 else -digits
