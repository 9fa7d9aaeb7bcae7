"""What ``Cart.at("u1")`` answers: an address with the methods of the class. Calling one of them calls the actor."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.actors.address import Address, Pointer
from holdfast.actors.calling.call import call
from holdfast.duration import Duration
from holdfast.errors import UnknownName
from holdfast.functions import told

if TYPE_CHECKING:
    from holdfast.actors.kind import Kind, Method


class Reference(Address):
    """An actor's address whose attributes are the actor's methods."""

    __slots__ = ()

    def __getattr__(self, name: str) -> BoundMethod:
        if name in Address.__slots__ or name.startswith("__"):  # Python itself asks, perhaps before __init__ has run
            raise AttributeError(name)
        method = self.kind.methods.get(name)
        if method is None:
            raise AttributeError(_no_method(self.kind, name))
        return BoundMethod(self, method)


class BoundMethod(Pointer):
    """One method of one actor. Awaiting a call of it answers the reply."""

    __slots__ = ("method", "reference")

    def __init__(self, reference: Reference, method: Method) -> None:
        self.reference = reference
        self.method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        return call(self.reference, self.method, args, kwargs)

    def __repr__(self) -> str:
        return f"{self.reference!r}.{self.method.name}"


def method_named(
    kind: Kind, key: str, method: str, *, request_id: str | None = None, timeout: Duration | None = None
) -> BoundMethod:
    """A method of one actor. Raises ``UnknownName`` that names those there are."""
    found = kind.methods.get(method)
    if found is None:
        raise UnknownName(f"{kind.name} has no method {method!r}; it has: {', '.join(kind.methods) or 'none'}")
    return BoundMethod(Reference(kind, key, request_id=request_id, timeout=timeout), found)


def _no_method(kind: Kind, name: str) -> str:
    made = inspect.getattr_static(kind.cls, name, None)
    what = f"{name!r} is none of them" if made is None or name in kind.timers else f"{name!r} is {told(made)}"
    return f"{kind.name} answers to its public async methods only, and {what}: {', '.join(kind.methods) or 'none'}"
