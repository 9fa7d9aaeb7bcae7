"""Holdfast's own records, read from the store: an unreadable one is the store's fault, and the error says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from msgspec import json

from holdfast.codec.faults import complaint_of
from holdfast.codec.jsontext import UNREADABLE
from holdfast.errors import StoreUnusable

T = TypeVar("T")

Reader = Callable[[bytes], T]


@overload
def stored(kind: type[T], what: str) -> Reader[T]: ...
@overload
def stored(kind: Any, what: str) -> Reader[Any]: ...
def stored(kind: Any, what: str) -> Reader[Any]:
    """The reader for records of a kind. It raises ``StoreUnusable`` for wrong bytes, an empty body included.

    >>> stored(list[int], "a list")(b"[1]")
    [1]
    """
    decode = json.Decoder(kind).decode

    def read(data: bytes) -> Any:
        try:
            return decode(data)
        except UNREADABLE as error:
            found = complaint_of(error).text if data else "it is empty"
            raise StoreUnusable(
                f"{what} in the store cannot be read: {found}. It was damaged or changed, or newer code has "
                "written it: run that code, or restore the home from a backup"
            ) from error

    return read
