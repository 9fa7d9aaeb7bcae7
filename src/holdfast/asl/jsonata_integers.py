"""Integers that JSONata's numbers cannot hold: those above 2**53, such as ids, which come out of an expression exactly.

The engine computes with doubles, as JavaScript does. Step Functions keeps 64 bits. So an expression that sees such a
number is evaluated twice more, with other numbers in the place of the large ones: each has one of its own, in the same
order. In the first of these they lie next to the real ones, in the second far away. Where both results have the number
that stands for the same integer, the integer was passed on, and only there it is put back. What depends on digits that
the engine does not have comes out differently, and fails (``Unclear``); it is never taken for something else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.asl.jsontext import is_array, is_number, is_object

LARGEST_EXACT: Final = 2**53
"""From here on an integer may look like its neighbour to the engine."""
LARGE: Final = 2**52
"""From here on numbers have others in their place, if one of them is as large as ``LARGEST_EXACT``: a comparison with
the largest exact one is common.
"""
LARGEST: Final = 2**63
"""Integers from here on are doubles at AWS, too."""

FAR: Final = 2**51
FAR_APART: Final = 1_000_003

ANY_DIGIT: Final = bytes.maketrans(b"123456789", b"000000000")
LONG_NUMBER: Final = b"0" * 16
NUMBER_IN_TEXT: Final = re.compile(r"(?<![\d.])\d{16,}(?![\d.]|[eE][+-]?\d)")
CLOSE: Final = 0.01
"""What is computed is rounded: this much of it may be wrong, if the last digits of what it comes from are."""

NOTHING: Final = object()
"""The result of an expression that is undefined."""
UNKNOWN: Final = object()
"""Where two results do not have the same shape, one of them tells nothing."""

UNCLEAR: Final = (
    "it depends on digits that JSONata's numbers do not have: an integer above 2**53 is computed with. Pass it as text"
)

Evaluate = Callable[[Mapping[str, Any], Mapping[str, float]], str | None]
"""Evaluates an expression with these values for what it reads, and these for its literals."""

parsed: Final[ContextVar[Callable[[Any], Any] | None]] = ContextVar("holdfast_asl_parsed", default=None)
"""What to do with a value that `$parse` has read."""


class Unclear(Exception):
    """The result depends on digits that the engine does not have."""


def exact_result(evaluate: Evaluate, values: Mapping[str, Any], literals: Mapping[str, float], *, parses: bool) -> Any:
    """The value of an expression, or ``NOTHING``.

    ``literals`` are the large numbers in its source, ``parses`` says whether it reads JSON texts. Raises ``Unclear``,
    and what ``evaluate`` raises.
    """
    given: list[float] = list(literals.values())
    if LONG_NUMBER in msgspec.json.encode(values).translate(ANY_DIGIT):
        given += large_numbers(values)

    def seen(value: Any) -> Any:
        given.extend(large_numbers(value))
        return value

    with_parsed = parsed.set(seen if parses else None)
    failed: Exception | None = None
    first: Any = UNKNOWN
    try:
        first = _decoded(evaluate(values, {}))
    except Exception as error:  # noqa: BLE001 - it is raised unless the other two results tell better
        failed = error
    finally:
        parsed.reset(with_parsed)
    if not any(abs(number) >= LARGEST_EXACT for number in given):
        if failed is not None:
            raise failed
        return first
    magnitudes = sorted({abs(number) for number in given})
    near, far = Code(_nearby(magnitudes)), Code(_faraway(magnitudes))
    try:
        by_near, by_far = (each.result(evaluate, values, literals) for each in (near, far))
        return Settling(near, far).settled(first, by_near, by_far)
    except Unclear:
        if failed is not None:
            raise failed from None
        raise


def large_numbers(value: Any) -> Iterator[float]:
    """The numbers in a JSON value from ``LARGE`` on."""
    if is_object(value):
        for inner in value.values():
            yield from large_numbers(inner)
    elif is_array(value):
        for inner in value:
            yield from large_numbers(inner)
    elif is_number(value) and abs(value) >= LARGE:
        yield value


def _nearby(magnitudes: Iterable[float]) -> Iterator[tuple[float, float]]:
    """For each a double of its own, next to it. Any two have another difference than before."""
    number = 0.0
    for place, magnitude in enumerate(magnitudes, 1):
        number = max(float(magnitude) + place * math.ulp(magnitude), math.nextafter(number, math.inf))
        yield magnitude, number


def _faraway(magnitudes: Iterable[float]) -> Iterator[tuple[float, float]]:
    """For each a double of its own that is so small that adding one changes it."""
    for place, magnitude in enumerate(magnitudes, 1):
        yield magnitude, float(FAR + place * FAR_APART)


class Code:
    """Which number stands for which: of each large one its magnitude. What is negative stays so."""

    def __init__(self, pairs: Iterable[tuple[float, float]]) -> None:
        self._standing = dict(pairs)
        self._meant = {number: magnitude for magnitude, number in self._standing.items()}

    def result(self, evaluate: Evaluate, values: Mapping[str, Any], literals: Mapping[str, float]) -> Any:
        """The result of an expression with these numbers, ``UNKNOWN`` if it fails."""
        with_parsed = parsed.set(self.coded)
        try:
            return _decoded(evaluate(self.coded(values), self.coded(literals)))
        except Exception:  # noqa: BLE001 - whatever it is, it comes of these numbers
            return UNKNOWN
        finally:
            parsed.reset(with_parsed)

    def coded(self, value: Any) -> Any:
        """The value with these numbers. Raises ``KeyError`` for a large one that was not seen before."""
        if is_object(value):
            return {name: self.coded(inner) for name, inner in value.items()}
        if is_array(value):
            return [self.coded(inner) for inner in value]
        if is_number(value) and abs(value) >= LARGE:
            return math.copysign(self._standing[abs(value)], value)
        return value

    def meant(self, number: Any) -> float | None:
        """What a number of a result stands for."""
        magnitude = self._meant.get(abs(float(number))) if is_number(number) else None
        if magnitude is None:
            return None
        exact = int(magnitude) if magnitude < LARGEST else float(magnitude)
        return -exact if number < 0 else exact

    def spelled(self, text: str) -> str:
        """A text with the digits of what is meant."""
        return NUMBER_IN_TEXT.sub(self._spelled, text)

    def _spelled(self, found: re.Match[str]) -> str:
        number = float(found[0])
        meant = self.meant(number)
        return found[0] if meant is None or as_printed(number) != found[0] else str(meant)


class Settling:
    """Compares the three results of an expression: with the numbers themselves, with near ones, and with far ones.

    What the near and the far ones agree in depends on the order and the equality of the large ones alone, so it is
    exact. Otherwise it has to be the same with the near ones as with the numbers themselves.
    """

    def __init__(self, near: Code, far: Code) -> None:
        self._near = near
        self._far = far

    def settled(self, first: Any, near: Any, far: Any) -> Any:
        """The result. Raises ``Unclear``."""
        if near is not UNKNOWN and _alike(near, far):
            first = first if _alike(first, near) else UNKNOWN
        elif near is not UNKNOWN and _alike(first, near):
            far = UNKNOWN
        else:
            raise Unclear(UNCLEAR)
        if is_object(near):
            fields = zip(_inner(first, near), near.items(), _inner(far, near), strict=True)
            return {
                self._text(one[0], other[0], third[0]): self.settled(one[1], other[1], third[1])
                for one, other, third in fields
            }
        if is_array(near):
            return [self.settled(*each) for each in zip(_inner(first, near), near, _inner(far, near), strict=True)]
        if isinstance(near, str):
            return self._text(first, near, far)
        return self._number(first, near, far) if is_number(near) else near

    def _text(self, first: Any, near: str, far: Any) -> str:
        spelled = self._near.spelled(near)
        if isinstance(far, str) and spelled == self._far.spelled(far):
            return spelled
        if near == first:
            return near
        raise Unclear(UNCLEAR)

    def _number(self, first: Any, near: float, far: Any) -> float:
        meant = self._near.meant(near)
        if meant is not None and self._far.meant(far) == meant:
            return meant
        if near in (far, first):
            return near
        lost = meant is not None and first is not UNKNOWN and float(meant) == float(first)
        if lost or first is UNKNOWN or not math.isclose(first, near, rel_tol=CLOSE):
            raise Unclear(UNCLEAR)
        return float(first) if isinstance(first, float) else int(first)


def _alike(one: Any, other: Any) -> bool:
    """Whether two results have the same shape at this place."""
    if (is_object(one) and is_object(other)) or (is_array(one) and is_array(other)):
        return len(one) == len(other)
    texts = isinstance(one, str) and isinstance(other, str)
    return texts or one is other or (is_number(one) and is_number(other))


def _inner(value: Any, like: Any) -> Iterable[Any]:
    """What is in a list, or the fields of an object. Nothing is known of what has another shape."""
    if value is UNKNOWN:
        return [(UNKNOWN, UNKNOWN) if is_object(like) else UNKNOWN] * len(like)
    return value.items() if is_object(value) else value


def _decoded(result: str | None) -> Any:
    return NOTHING if result is None else msgspec.json.decode(result)


def as_printed(number: float) -> str:
    """The digits that the engine prints: the fewest that name the double, filled up with zeros.

    >>> as_printed(2.0**53 + 2), as_printed(1234567890123456789)
    ('9007199254740994', '1234567890123456800')
    """
    return str(int(Decimal(repr(float(number)))))
