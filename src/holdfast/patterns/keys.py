"""What distinguishes calls: the key that a call names, and the fingerprint of its payload (G11).

A key is given as a path from a parameter into its value (``"order_id"``, ``"order.id"``, ``"event.Records[0].id"``), as
a function of the call's arguments, or as a tuple of these. A path goes through keys of mappings, indexes of lists and
fields of objects.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import Enum
from typing import Any, Final, cast
from uuid import UUID

from msgspec import Struct

from holdfast import ids
from holdfast.codec import jsontext
from holdfast.coordination.idempotency import LONGEST_KEY_BYTES
from holdfast.errors import ConfigurationError, InvalidInput, SerializationError

Part = str | Callable[..., Any]
Parts = Part | tuple[Part, ...]

SCALARS: Final = (str, int, UUID, date, Enum)
"""The types of a key's parts. Floats are not exact enough, and a bool distinguishes only two calls."""

_PATH: Final = re.compile(r"(?P<parameter>\w+)(?P<rest>(\.[^.\[\]]+|\[-?\d+\])*)")
_STEP: Final = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>-?\d+)\]")

REMAINING_TIME: Final = "get_remaining_time_in_millis"
"""The attributes of the context object of AWS Lambda ("AWS Lambda context object in Python")."""


class _Path(Struct, frozen=True):
    text: str
    parameter: str
    steps: tuple[str | int, ...]


_Reader = _Path | Callable[..., Any]


class Call(Struct, frozen=True):
    """One call: its arguments as given and by name, and the context of AWS Lambda if there is one among them."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    named: Mapping[str, Any]
    lambda_context: Any


class CallReader:
    """Reads the keys and fingerprints of the calls of one function. ``what`` names it in messages.

    Raises ``ConfigurationError`` if a path begins at no parameter of the function.
    """

    def __init__(self, function: Callable[..., Any], what: str, key: Parts, payload: Parts | None) -> None:
        self.what = what
        self._signature = inspect.signature(function)
        names = list(self._signature.parameters)
        self._unseen = {name for name in names[:1] if name in {"self", "cls"}}
        if len(names) == 2 and names[1] == "context":  # a handler of AWS Lambda: each delivery has another context
            self._unseen.add("context")
        self._composite = isinstance(key, tuple)
        self._key = self._readers(key, "key")
        self._payload = None if payload is None else self._readers(payload, "payload")
        if not self._key:
            raise ConfigurationError(f"{what}: a key of no parts would be the same for every call")

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """The arguments by name. Raises ``TypeError`` as the function itself would."""
        bound = self._signature.bind(*args, **kwargs)
        context = next((each for each in bound.arguments.values() if hasattr(each, REMAINING_TIME)), None)
        bound.apply_defaults()
        return Call(args, kwargs, bound.arguments, context)

    def key(self, call: Call) -> str:
        """The key of a call, as text. Raises ``InvalidInput`` if a part is missing, empty or not a plain value."""
        parts: list[Any] = []
        for reader in self._key:
            value = self._read(reader, call, "the key")
            if isinstance(value, tuple) and not self._composite:
                parts.extend(cast("tuple[Any, ...]", value))
            else:
                parts.append(value)
        return key_text(parts, self.what)

    def fingerprints(self, call: Call) -> tuple[str, str]:
        """A digest of the payload, and the digest that older versions made of it; empty texts if there is none to
        compare.

        ``1`` and ``1.0`` are one payload, as JSON sees it. Older versions distinguished them.

        Without ``payload`` it is every argument that is not its default. Raises ``SerializationError`` if one has no
        JSON form.
        """
        if self._payload is None:
            data = self._encoded(self._arguments(call))
        elif self._payload:
            data = self._encoded([self._read(each, call, "the payload") for each in self._payload])
        else:
            return "", ""
        return ids.fingerprint(jsontext.with_one_form_of_numbers(data)), ids.fingerprint(data)

    def _arguments(self, call: Call) -> dict[str, Any]:
        """A new optional parameter leaves the fingerprints of older records valid."""
        return {
            name: value
            for name, value in call.named.items()
            if name not in self._unseen and value is not call.lambda_context and not self._is_default(name, value)
        }

    def _is_default(self, name: str, value: Any) -> bool:
        parameter = self._signature.parameters[name]
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD:
                return not value
            case _:
                default = parameter.default
        if default is parameter.empty:
            return False
        if value is default:
            return True
        comparable = type(value) is type(default) or {type(value), type(default)} == {int, float}
        return comparable and self._form(value) == self._form(default)

    def _form(self, value: Any) -> bytes:
        return jsontext.with_one_form_of_numbers(self._encoded(value))

    def _encoded(self, value: Any) -> bytes:
        try:
            return jsontext.canonical(value)
        except Exception as error:
            raise SerializationError(
                f"the payload of {self.what} has no JSON form: {error}. Choose what counts: payload=..."
            ) from error

    def _readers(self, parts: Parts, option: str) -> tuple[_Reader, ...]:
        listed = cast("tuple[Part, ...]", parts if isinstance(parts, tuple) else (parts,))
        return tuple(self._reader(each, option) for each in listed)

    def _reader(self, part: Any, option: str) -> _Reader:
        if callable(part):
            return cast("Callable[..., Any]", part)
        found = _PATH.fullmatch(part) if isinstance(part, str) else None
        if found is None:
            raise ConfigurationError(
                f"{self.what}: {option}={part!r} is neither a path such as 'order.id' or 'event.Records[0].id', nor a "
                "function of the call's arguments"
            )
        if found["parameter"] not in self._signature.parameters:
            named = ", ".join(self._signature.parameters) or "none"
            raise ConfigurationError(
                f"{self.what}: {option}={part!r} begins at no parameter; there are: {named}. A path into the argument "
                "begins with its name"
            )
        steps = [step["name"] or int(step["index"]) for step in _STEP.finditer(found["rest"])]
        return _Path(found[0], found["parameter"], tuple(steps))

    def _read(self, reader: _Reader, call: Call, role: str) -> Any:
        try:
            if not isinstance(reader, _Path):
                return reader(*call.args, **call.kwargs)
            value = call.named[reader.parameter]
            for step in reader.steps:
                value = _inside(value, step)
            return value
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            told = repr(reader.text) if isinstance(reader, _Path) else getattr(reader, "__name__", repr(reader))
            raise InvalidInput(
                f"{role} of {self.what} could not be read by {told}: {type(error).__name__}: {error}"
            ) from error


def key_text(parts: Sequence[Any], what: str) -> str:
    """The parts of a key as text: two keys have one text only if they are the same, part for part.

    Raises ``InvalidInput`` if a part is missing, empty or not a plain value, or the whole is too long.

    >>> key_text(["eu", 17], "this")
    '["eu",17]'
    """
    if not parts:
        raise InvalidInput(f"the key of {what} is missing")
    for part in parts:
        if part is None or (isinstance(part, str) and not part.strip()):
            raise InvalidInput(f"the key of {what} is {'missing' if part is None else 'empty'}: {list(parts)!r}")
        if not isinstance(part, SCALARS) or isinstance(part, bool):
            raise InvalidInput(
                f"the key of {what} must consist of text, whole numbers, UUIDs and dates, got {type(part).__qualname__}"
            )
    try:
        data = jsontext.encode(list(parts))
    except Exception as error:
        raise InvalidInput(f"the key of {what} is not valid text: {error}") from error
    if len(data) > LONGEST_KEY_BYTES:
        raise InvalidInput(
            f"the key of {what} must have at most {LONGEST_KEY_BYTES} bytes, got {len(data)}; use a digest"
        )
    return data.decode()


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        if isinstance(value, str):
            raise TypeError("text has no parts")
        return value[step]
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)[step]
    if step.startswith("_"):
        raise AttributeError(f"{step} is private")
    return getattr(value, step)
