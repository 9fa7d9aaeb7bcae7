"""Integers that JSONata's numbers cannot hold: those above 2**53, such as ids, which go through an expression exactly.

The engine computes with doubles, as JavaScript does, and so prints another number. Step Functions keeps 64 bits. So the
digits that such an input has become are turned back where they come out of an expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from holdfast.asl.jsontext import is_array, is_object

LARGEST_EXACT: Final = 2**53
"""From here on an integer may look like its neighbour to the engine."""
LARGEST: Final = 2**63
LONG_NUMBER = re.compile(r"\d{16}")


class Ambiguous(Exception):
    """Two integers of an input look alike to the engine, and one of them is in the result."""


def restored(result: str, bindings: dict[str, Any]) -> str:
    """The JSON text of a result, with the exact digits of the integers in ``bindings``. Raises ``Ambiguous``."""
    if not LONG_NUMBER.search(result):
        return result
    exact: dict[str, int] = {}
    for number in large_integers(bindings):
        printed = as_printed(number)
        if exact.setdefault(printed, number) != number and digits(printed).search(result):
            raise Ambiguous(
                f"the integers {exact[printed]} and {number} are one and the same to JSONata, so the result may be "
                "wrong; pass them as text"
            )
    for printed, number in exact.items():
        result = digits(printed).sub(str(number), result)
    return result


def large_integers(value: Any) -> Iterator[int]:
    """The integers in a JSON value from 2**53 on that have 64 bits."""
    if isinstance(value, int):
        if LARGEST_EXACT <= abs(value) < LARGEST:
            yield value
    elif is_object(value):
        for inner in value.values():
            yield from large_integers(inner)
    elif is_array(value):
        for inner in value:
            yield from large_integers(inner)


def as_printed(number: int) -> str:
    """The digits that the engine prints: the fewest that name the double, filled up with zeros.

    >>> as_printed(9007199254740993), as_printed(1234567890123456789)
    ('9007199254740992', '1234567890123456800')
    """
    return str(int(Decimal(repr(float(number)))))


def digits(printed: str) -> re.Pattern[str]:
    """Finds the number, and not as a part of a longer one."""
    return re.compile(rf"(?<![\d.]){re.escape(printed)}(?![\d.]|[eE][+-]?\d)")
