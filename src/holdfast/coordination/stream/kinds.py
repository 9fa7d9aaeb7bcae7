"""The kinds of events of a stream: classes of the running program, distinguished in the store by their names (G12)."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin

from holdfast.codec.typed import codec_for
from holdfast.codec.upcasting import Schema, Upcaster, check_upcasters
from holdfast.errors import ConfigurationError, InvalidInput, SerializationError

Upcasters = Mapping[Any, Mapping[int, Upcaster]]
"""For each class of events: from a schema version to the function that makes the next."""


class Kinds:
    """What a stream may hold: one type, or a union of classes.

    >>> Kinds(int | str, {}).of(5)
    'int'
    """

    __slots__ = ("_by_name", "_only")

    def __init__(self, hint: Any, upcasters: Upcasters) -> None:
        members = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
        self._by_name: dict[str, Schema[Any]] = {}
        for each in members:
            name = _name_of(each, alone=len(members) == 1)
            if name in self._by_name:
                raise ConfigurationError(f"two classes of events have the name {name!r}: rename one")
            forms = check_upcasters(upcasters.get(each, {}), f"an event {name}")
            self._by_name[name] = Schema(codec_for(each), forms)
        if unknown := [each for each in upcasters if each not in members]:
            raise ConfigurationError(f"there are upcasters for {unknown}, which are not events of this stream")
        self._only = next(iter(self._by_name)) if len(members) == 1 else None

    def of(self, event: Any) -> str:
        """The name of an event's kind. Raises ``InvalidInput``."""
        name = type(event).__name__ if self._only is None else self._only
        schema = self._by_name.get(name)
        if schema is None or (self._only is None and type(event) is not schema.codec.hint):
            raise InvalidInput(
                f"{type(event).__name__} is not an event of this stream, which holds {', '.join(self._by_name)}"
            )
        return name

    def encode(self, event: Any, what: str, limit_bytes: int) -> tuple[str, int, bytes, Any]:
        """An event's kind, schema version and JSON, and a copy that was decoded from it."""
        name = self.of(event)
        schema = self._by_name[name]
        data, copy = schema.codec.copy(event, what, limit_bytes)
        return name, schema.version, data, copy

    def decode(self, name: str, version: int, data: bytes, what: str) -> Any:
        """An event, from what was stored. Raises ``SerializationError``."""
        if (schema := self._by_name.get(name)) is None:
            raise SerializationError(
                f"{what} is a {name!r}, which this code does not know: it knows {', '.join(self._by_name)}. Keep the "
                "classes of events that were ever stored"
            )
        return schema.decode(data, version, what)


def _name_of(hint: Any, *, alone: bool) -> str:
    if isinstance(hint, type) and not get_args(hint):
        return cast("type[Any]", hint).__name__
    if alone:
        return ""
    raise ConfigurationError(f"a union of events must consist of classes with different names, got {hint!r}")
