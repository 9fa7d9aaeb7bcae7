"""Actors as people name them: found in an app's code, or an error that says what is there instead."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.actors.definition import Kind
from holdfast.actors.record import HIDDEN_MARK
from holdfast.actors.reference import BoundMethod, Reference
from holdfast.duration import Duration
from holdfast.errors import UnknownName


def kind_named(kinds: Mapping[str, Kind], actor: str) -> Kind:
    """A class of actors. Raises ``UnknownName`` that names those there are."""
    kind = kinds.get(actor)
    if kind is None:
        names = sorted(name for name in kinds if not name.startswith(HIDDEN_MARK))
        raise UnknownName(f"the app has no actor {actor!r}; it has: {', '.join(names) or 'none'}")
    return kind


def shown_kind_named(kinds: Mapping[str, Kind], actor: str) -> Kind:
    """A class of actors that may be called from outside: consumers are actors, too, and are called by events alone.

    Raises ``UnknownName`` that names those there are.
    """
    if actor.startswith(HIDDEN_MARK):
        raise UnknownName(f"the app has no actor {actor!r}")
    return kind_named(kinds, actor)


def method_named(
    kind: Kind, key: str, method: str, *, request_id: str | None = None, timeout: Duration | None = None
) -> BoundMethod:
    """A method of one actor. Raises ``UnknownName`` that names those there are."""
    found = kind.methods.get(method)
    if found is None:
        raise UnknownName(f"{kind.name} has no method {method!r}; it has: {', '.join(kind.methods) or 'none'}")
    return BoundMethod(Reference(kind, key, request_id, timeout), found)
