"""The rules of Choice states in JSONPath: 39 operators, and ``And``, ``Or`` and ``Not`` over them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from operator import eq, ge, gt, le, lt
from typing import Any, Final

from holdfast.asl.environment import Environment
from holdfast.asl.errors import RUNTIME, EvaluationError
from holdfast.asl.jsontext import is_number
from holdfast.asl.paths import PathNotFound, compiled
from holdfast.asl.timestamps import parse_timestamp

PATTERNS_REMEMBERED: Final = 512


def holds(test: dict[str, Any], environment: Environment) -> bool:
    """Whether a rule holds. A value of another type than the operator's never does; one that is not there is an error.

    Raises ``EvaluationError``.
    """
    if "And" in test:
        return all(holds(each, environment) for each in test["And"])
    if "Or" in test:
        return any(holds(each, environment) for each in test["Or"])
    if "Not" in test:
        return not holds(test["Not"], environment)
    return _compare(test, environment)


def _compare(test: dict[str, Any], environment: Environment) -> bool:
    variable: str = test["Variable"]
    operator, wanted = next((name, value) for name, value in test.items() if name in OPERATORS or name == "IsPresent")
    try:
        value = compiled(variable).read(environment)
    except PathNotFound as missing:
        if operator == "IsPresent":
            return wanted is False
        raise _invalid(variable) from missing
    if operator == "IsPresent":
        return wanted is True
    if operator.endswith("Path") and isinstance(wanted, str):
        try:
            wanted = compiled(wanted).read(environment)
        except PathNotFound as missing:
            raise _invalid(wanted) from missing
    return OPERATORS[operator](value, wanted)


def _invalid(path: str) -> EvaluationError:
    return EvaluationError(
        RUNTIME, f"Invalid path '{path}': The choice state's condition path references an invalid value."
    )


Compare = Callable[[Any, Any], bool]


def _texts(compare: Compare) -> Compare:
    return lambda value, wanted: isinstance(value, str) and isinstance(wanted, str) and compare(value, wanted)


def _numbers(compare: Compare) -> Compare:
    return lambda value, wanted: is_number(value) and is_number(wanted) and compare(value, wanted)


def _times(compare: Compare) -> Compare:
    def compared(value: Any, wanted: Any) -> bool:
        one, other = _time(value), _time(wanted)
        return one is not None and other is not None and compare(one, other)

    return compared


def _time(value: Any) -> datetime | None:
    return parse_timestamp(value) if isinstance(value, str) else None


def _booleans(value: Any, wanted: Any) -> bool:
    return isinstance(value, bool) and isinstance(wanted, bool) and value is wanted


def _is(check: Callable[[Any], bool]) -> Compare:
    return lambda value, wanted: check(value) is wanted


def _matches(value: Any, wanted: Any) -> bool:
    return isinstance(value, str) and isinstance(wanted, str) and _follow(_parts(wanted), value)


def _follow(parts: tuple[str, ...], value: str) -> bool:
    """Whether a text is these parts with any text between them. The first place for each part is as good as any later
    one, so the text is read once: a regular expression would try all places of all parts.
    """
    if len(parts) == 1:
        return value == parts[0]
    first, *between, last = parts
    at, end = len(first), len(value) - len(last)
    if at > end or not (value.startswith(first) and value.endswith(last)):
        return False
    for part in between:
        found = value.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


@lru_cache(PATTERNS_REMEMBERED)
def _parts(pattern: str) -> tuple[str, ...]:
    r"""What stands between the ``*`` of a pattern. A ``\*`` and a ``\\`` stand for themselves."""
    parts = [""]
    for each in re.findall(r"\\[*\\]|\*|[^*\\]+|\\", pattern):
        if each == "*":
            parts.append("")
        else:
            parts[-1] += each[1:] if each in (r"\*", r"\\") else each
    return tuple(parts)


_COMPARISONS: Final[dict[str, Compare]] = {
    "Equals": eq,
    "LessThan": lt,
    "GreaterThan": gt,
    "LessThanEquals": le,
    "GreaterThanEquals": ge,
}

_DIRECT: Final[dict[str, Compare]] = {
    "StringMatches": _matches,
    "BooleanEquals": _booleans,
    **{f"String{name}": _texts(compare) for name, compare in _COMPARISONS.items()},
    **{f"Numeric{name}": _numbers(compare) for name, compare in _COMPARISONS.items()},
    **{f"Timestamp{name}": _times(compare) for name, compare in _COMPARISONS.items()},
}

OPERATORS: Final[dict[str, Compare]] = {
    **_DIRECT,
    **{f"{name}Path": compare for name, compare in _DIRECT.items() if name != "StringMatches"},
    "IsNull": _is(lambda value: value is None),
    "IsNumeric": _is(is_number),
    "IsString": _is(lambda value: isinstance(value, str)),
    "IsBoolean": _is(lambda value: isinstance(value, bool)),
    "IsTimestamp": _is(lambda value: _time(value) is not None),
}
"""All operators but ``IsPresent``, which looks at the path and not at the value."""
