"""Rules for single values: types, numbers, times, paths and resources."""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.asl.paths import compiled, reference_keys
from holdfast.asl.timestamps import parse_timestamp
from holdfast.asl.validation.diagnostic import Path
from holdfast.asl.validation.kinds import is_list
from holdfast.asl.validation.visit import Check, Visit

NOT_A_PATH: Final = "Value must be a valid JSONPath."
NOT_A_REFERENCE: Final = "Value is not a Reference Path"

ARN = re.compile(r"arn:[\w-]+:(?P<service>[\w-]+):[^:]*:[^:]*:.+")
LAMBDA = re.compile(r"arn:[^:]+:lambda:[^:]*:[^:]*:function:(?P<name>[^:]+)(?::(?P<version>\$LATEST|[A-Za-z0-9_-]+))?")
URI = re.compile(r"[A-Za-z][\w+.-]*:\S+")


def text(visit: Visit, at: Path, value: Any) -> None:
    """A string."""
    if not isinstance(value, str):
        visit.report(at, "Expected value of type [STRING]")


def boolean(visit: Visit, at: Path, value: Any) -> None:
    """``true`` or ``false``."""
    if not isinstance(value, bool):
        visit.report(at, "Expected value of type [BOOLEAN]")


def number(visit: Visit, at: Path, value: Any) -> None:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        visit.report(at, "Expected value of type [NUMBER]")


def integer(least: int, most: int) -> Check:
    """A whole number in a range."""

    def check(visit: Visit, at: Path, value: Any) -> None:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole:
            visit.report(at, "Expected value of type [INTEGER]")
        else:
            within(visit, at, value, least, most)

    return check


def real(least: float, most: float) -> Check:
    """A number in a range."""

    def check(visit: Visit, at: Path, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            visit.report(at, "Expected value of type [NUMBER]")
        else:
            within(visit, at, value, least, most)

    return check


def within(visit: Visit, at: Path, value: float, least: float, most: float) -> None:
    """Report a number that is out of its range."""
    if value < least:
        visit.report(at, f"Value should be at least {least}")
    elif value > most:
        visit.report(at, f"Value should be at most {most}")


def one_of(*values: str) -> Check:
    """One of these strings."""

    def check(visit: Visit, at: Path, value: Any) -> None:
        if not isinstance(value, str):
            visit.report(at, "Expected value of type [STRING]")
        elif value not in values:
            visit.report(at, f"Value should be one of the following: [{', '.join(values)}]")

    return check


def list_of(item: Check, *, empty: bool = True) -> Check:
    """A list whose items follow a rule."""

    def check(visit: Visit, at: Path, value: Any) -> None:
        if not is_list(value):
            visit.report(at, "Expected value of type [ARRAY]")
        elif not value and not empty:
            visit.report(at, "Value cannot be empty")
        else:
            for place, each in enumerate(value):
                item(visit, (*at, place), each)

    return check


def timestamp(visit: Visit, at: Path, value: Any) -> None:
    """A time as RFC 3339 has it, with ``T`` and ``Z`` or an offset."""
    if not isinstance(value, str) or parse_timestamp(value) is None:
        visit.report(at, "String does not match RFC3339 timestamp")


def path(visit: Visit, at: Path, value: Any) -> None:
    """A path of JSONPath."""
    if not isinstance(value, str):
        visit.report(at, "Expected value of type [STRING]")
    elif not is_path(value):
        visit.report(at, NOT_A_PATH)


def path_or_null(visit: Visit, at: Path, value: Any) -> None:
    """A path, or ``null`` for nothing at all."""
    if value is not None:
        path(visit, at, value)


def compared_path(visit: Visit, at: Path, value: Any) -> None:
    """A path in a comparison of a Choice."""
    if not isinstance(value, str):
        visit.report(at, "Expected value of type [STRING]")
    elif not value.startswith("$"):
        visit.report(at, f"{NOT_A_REFERENCE}: Reference path didn't start with '$'")
    elif not is_path(value):
        visit.report(at, NOT_A_REFERENCE)


def result_path(visit: Visit, at: Path, value: Any) -> None:
    """A place in the state's input, or ``null``: no variable, no context, nothing that may select several values."""
    if value is None:
        return
    if not isinstance(value, str):
        visit.report(at, "Expected value of type [STRING]")
    elif not value.startswith("$"):
        visit.report(at, f"{NOT_A_REFERENCE}: Reference path didn't start with '$'")
    elif not is_place(value):
        visit.report(at, NOT_A_REFERENCE)


def is_path(value: str) -> bool:
    """Whether a text can be read as a path."""
    try:
        compiled(value)
    except (ValueError, RecursionError):
        return False
    return True


def is_place(value: str) -> bool:
    """Whether a text is a reference path that begins at the state's input."""
    try:
        reference_keys(value)
    except (ValueError, RecursionError):
        return False
    return compiled(value).root == "$"
