"""The address of an actor: what ``Cart.at("u1")`` answers. Its methods are those of the class; calling one sends it."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, Self

from holdfast.actors.calling.call import call
from holdfast.actors.record import partition_of
from holdfast.duration import Duration, seconds
from holdfast.functions import told
from holdfast.keys import check_id

if TYPE_CHECKING:
    from holdfast.actors.definition import Kind, Method


def check_request_id(request_id: str) -> None:
    """Raise ``InvalidInput`` if this cannot be the id of a request."""
    check_id("a request_id", request_id)


class Address:
    """What stands for something in the store. It is its own copy, and is no data: its key is."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is an address, and cannot be pickled or sent: send its key, and make it anew there")


class Reference(Address):
    """One actor's address, with how to call it. Holds nothing of the actor."""

    __slots__ = ("key", "kind", "partition", "request_id", "timeout_seconds")

    def __init__(self, kind: Kind, key: str, request_id: str | None, timeout: Duration | None) -> None:
        check_id("an actor's key", key)
        if request_id is not None:
            check_request_id(request_id)
        self.kind = kind
        self.key = key
        self.partition = partition_of(kind.name, key)
        self.request_id = request_id
        self.timeout_seconds = None if timeout is None else seconds(timeout)

    def __getattr__(self, name: str) -> BoundMethod:
        if name in Reference.__slots__ or name.startswith("__"):  # Python itself asks, perhaps before __init__ has run
            raise AttributeError(name)
        method = self.kind.methods.get(name)
        if method is None:
            raise AttributeError(_no_method(self.kind, name))
        return BoundMethod(self, method)

    def __repr__(self) -> str:
        return f"{self.kind.name}.at({self.key!r})"


class BoundMethod(Address):
    """One method of one actor. Awaiting a call of it answers the reply."""

    __slots__ = ("method", "reference")

    def __init__(self, reference: Reference, method: Method) -> None:
        self.reference = reference
        self.method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        return call(self, args, kwargs)

    def __repr__(self) -> str:
        return f"{self.reference!r}.{self.method.name}"


def _no_method(kind: Kind, name: str) -> str:
    made = inspect.getattr_static(kind.cls, name, None)
    what = f"{name!r} is none of them" if made is None or name in kind.timers else f"{name!r} is {told(made)}"
    return f"{kind.name} answers to its public async methods only, and {what}: {', '.join(kind.methods) or 'none'}"
