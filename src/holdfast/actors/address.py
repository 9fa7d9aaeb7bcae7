"""The address of an actor as data: which one, and how to call it. Holds nothing of the actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from holdfast.actors.record import partition_of
from holdfast.duration import Duration, seconds
from holdfast.keys import check_id

if TYPE_CHECKING:
    from holdfast.actors.kind import Kind


def check_request_id(request_id: str) -> None:
    """Raise ``InvalidInput`` if this cannot be the id of a request."""
    check_id("a request_id", request_id)


class Pointer:
    """What stands for something in the store. It is its own copy, and is no data: its key is."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is an address, and cannot be pickled or sent: send its key, and make it anew there")


class Address(Pointer):
    """One actor's address, with how to call it."""

    __slots__ = ("key", "kind", "partition", "request_id", "timeout_seconds")

    def __init__(self, kind: Kind, key: str, *, request_id: str | None = None, timeout: Duration | None = None) -> None:
        check_id("an actor's key", key)
        if request_id is not None:
            check_request_id(request_id)
        self.kind = kind
        self.key = key
        self.partition = partition_of(kind.name, key)
        self.request_id = request_id
        self.timeout_seconds = None if timeout is None else seconds(timeout)

    def __repr__(self) -> str:
        return f"{self.kind.name}.at({self.key!r})"
