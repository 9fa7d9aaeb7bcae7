"""Faults: why a value could not be carried as typed JSON, in words. All of it is slow and leads to an exception.

Messages never show text or the inside of values, which may be secret; they show where, what type, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import Any, Final

from msgspec import UNSET

from holdfast.codec.exactness import Difference, describe
from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS, encode
from holdfast.codec.shapes import parts_of
from holdfast.errors import PayloadTooLarge, SerializationError

NESTS_TOO_DEEP: Final = f"nests more than {NESTING_LIMIT_LEVELS} levels deep"

_PLACE: Final = re.compile(r"(?P<complaint>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Complaint:
    """The error of msgspec, and its place inside the value (``.items[2].price``, or ``""`` for the whole)."""

    text: str
    path: str


def complaint_of(error: BaseException) -> Complaint:
    """Read the message of msgspec (or of a class's own ``__post_init__``).

    >>> complaint_of(ValueError("Expected `int`, got `str` - at `$.items[2]`"))
    Complaint(text='expected int, got str', path='.items[2]')
    """
    if isinstance(error, RecursionError):
        return Complaint(f"it {NESTS_TOO_DEEP}", "")
    found = _PLACE.fullmatch(str(error))
    assert found is not None, "the pattern matches any text"
    text = found["complaint"].replace("`", "").rstrip(".") or type(error).__name__
    if text.startswith("Invalid enum value"):
        text = "not one of the allowed values"  # msgspec quotes the value, which may be secret
    return Complaint(text[0].lower() + text[1:], (found["path"] or "") + (" (a key)" if found["key"] else ""))


def too_large(size_bytes: int, limit_bytes: int, what: str) -> PayloadTooLarge:
    """The error for an encoded value over its limit."""
    return PayloadTooLarge(
        f"{what} takes {size_bytes:,} bytes as JSON, over the limit of {limit_bytes:,} bytes. "
        f"Store it elsewhere (in a blob, a document, your own storage) and pass a reference to it"
    )


def too_deep(what: str) -> SerializationError:
    """The error for a value that nests deeper than ``NESTING_LIMIT_LEVELS``, or without end."""
    return SerializationError(
        f"{what} {NESTS_TOO_DEEP}, or contains itself. Make it flatter: "
        f"for example a list of nodes that refer to each other by id"
    )


def unencodable(value: Any, what: str, error: Exception) -> SerializationError:
    """The error for a value that has no JSON form, naming the part of it that has none."""
    if isinstance(error, RecursionError):
        return too_deep(what)
    path, culprit = _innermost(value, _fails_to_encode)
    at = f" at {path}" if path else ""
    has = "holds" if path else "is"
    if isinstance(error, UnicodeEncodeError):
        return SerializationError(
            f"{what} holds text{at} with lone surrogates, which is not Unicode. Decode it correctly"
        )
    if isinstance(culprit, dict):
        return SerializationError(
            f"{what} {has} a dict{at} whose keys cannot be text in JSON: {complaint_of(error).text}. "
            f"Use str, int, Enum or UUID keys, or a list of pairs"
        )
    return SerializationError(
        f"{what} {has} {describe(culprit)}{at}, which cannot be carried as typed JSON: {complaint_of(error).text}. "
        f"Make {type(culprit).__qualname__} a dataclass, msgspec.Struct or pydantic model, or pass plain data instead"
    )


def mismatch(value: Any, hint: str, what: str, complaint: Complaint) -> str:
    """The message for a value whose JSON form its own type hint refuses."""
    if (not_finite := _not_finite(value)) is not None:
        return _not_a_json_number(*not_finite, what)
    if complaint.path:
        text = f"{what} does not fit its type {hint} at {complaint.path.strip()}: {complaint.text}"
    elif complaint.text.startswith("expected"):
        text = f"{what} should be {hint}, not {describe(value)} ({complaint.text})"
    else:
        text = f"{what} does not fit its type {hint}: {complaint.text}"
    return f"{text}. Give what the type hint says, or correct the type hint"


def not_exact(found: Difference, value: Any, hint: str, what: str) -> SerializationError:
    """The error for a value that JSON and its type hint bring back changed."""
    if (not_finite := _not_finite(value)) is not None:
        return SerializationError(_not_a_json_number(*not_finite, what))
    if not found.path and isinstance(found.value, int) and isinstance(found.copy, float):
        return SerializationError(
            f"{what} should be {hint}, not {describe(found.value)}, which no float holds exactly. Annotate it as int"
        )
    at = f"at {found.path.strip()}, " if found.path else ""
    copy = "changed" if type(found.value) is type(found.copy) else f"as {describe(found.copy)}"
    return SerializationError(
        f"{what} does not come back from JSON as it was: {at}{describe(found.value)} came back {copy}. "
        f"{_advice(found, hint)}"
    )


def _not_a_json_number(path: str, number: float, what: str) -> str:
    has, at = ("holds", f" at {path}") if path else ("is", "")
    return f"{what} {has} {number}{at}, and JSON has no such number. Use None or a text for it"


def _advice(found: Difference, hint: str) -> str:
    value, copy = found.value, found.copy
    name, copied = type(value).__qualname__, type(copy).__qualname__
    if value is UNSET or copy is UNSET:
        return f"The type hint {hint} has no place for it, or two keys became one as text"
    if type(value) is type(copy):
        return (
            "Every field must come back by itself: check for a __post_init__ or validator that changes it, fields left "
            "out of JSON, an offset from UTC with seconds, or fold=1"
        )
    if isinstance(value, type(copy)) and not isinstance(value, bool | Enum):
        return (
            f"JSON keeps the declared class ({copied}), not its subclass ({name}): convert it, or declare a union of "
            f"msgspec.Struct classes with tag=True"
        )
    return f"The type hint is {hint}: annotate this part with its own type, {name}, or convert it to {copied} yourself"


def _innermost(value: Any, has_fault: Callable[[Any], bool]) -> tuple[str, Any]:
    """The path to the innermost part with the fault, and that part."""
    path = ""
    for _ in range(NESTING_LIMIT_LEVELS):
        faulty = next(((step, part) for step, part in parts_of(value) if has_fault(part)), None)
        if faulty is None:
            break
        path, value = path + faulty[0], faulty[1]
    return path, value


def _fails_to_encode(value: Any) -> bool:
    try:
        encode(value)
    except Exception:  # noqa: BLE001 - whatever it raises, it is the part to name
        return True
    return False


def _not_finite(value: Any) -> tuple[str, float] | None:
    """Where in the value there is a nan or infinity, if anywhere. The value has been encoded, so it has an end."""
    if isinstance(value, float):
        return None if isfinite(value) else ("", value)
    for step, part in parts_of(value):
        if (found := _not_finite(part)) is not None:
            return step + found[0], found[1]
    return None
