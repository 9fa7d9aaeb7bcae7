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
    return isinstance(value, str) and isinstance(wanted, str) and _pattern(wanted).fullmatch(value) is not None


@lru_cache(PATTERNS_REMEMBERED)
def _pattern(text: str) -> re.Pattern[str]:
    r"""``*`` stands for any text; ``\*`` and ``\\`` for themselves."""
    parts: list[str] = re.findall(r"\\[*\\]|\*|[^*\\]+|\\", text)
    return re.compile("".join(map(_part_of_pattern, parts)), re.DOTALL)


def _part_of_pattern(part: str) -> str:
    return ".*" if part == "*" else re.escape(part[1:] if part in (r"\*", r"\\") else part)


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
