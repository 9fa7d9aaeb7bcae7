"""Actors as commands name them: found in the home or in the code. An error names what exists instead."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from holdfast.actors.admin.handle import ActorStatus, Message
from holdfast.actors.kind import kind_named
from holdfast.actors.reference import BoundMethod, method_named
from holdfast.app import App
from holdfast.errors import InvalidInput, NotFound

NAMED: Final = 5
"""How many of the existing names an error lists."""

LOOKED_AT: Final = 100


async def status_of(app: App, actor: str, key: str) -> ActorStatus:
    """An actor as the home holds it. Raises ``NotFound`` that names others."""
    try:
        return await app.actor(actor, key).status()
    except NotFound as error:
        raise NotFound(f"{error}; {await _what_there_is(app, actor)}") from None


async def _what_there_is(app: App, actor: str) -> str:
    try:
        same = await app.list_actors(actor, limit=LOOKED_AT)
    except InvalidInput:  # to look would be to read the whole table
        return "holdfast actor ls --scan lists those that there are"
    if same.items:
        return f"{actor} has: {_some(repr(each.key) for each in same.items)}"
    others = await app.list_actors(limit=LOOKED_AT)
    names = sorted({each.actor for each in others.items})
    return f"there are actors of: {_some(names)}" if names else "there are no actors in this home"


async def check_parked(app: App, actor: str, key: str, place: str) -> Message:
    """A parked message of an actor. Raises ``NotFound``, which names the existing ones."""
    await status_of(app, actor, key)
    parked = await app.actor(actor, key).parked()
    for message in parked:
        if message.place == place:
            return message
    there_are = f"there are: {_some(each.place for each in parked)}" if parked else "none is parked there"
    raise NotFound(f"{actor} {key!r} has no parked message {place!r}; {there_are}")


def method_of(app: App, actor: str, key: str, method: str) -> BoundMethod:
    """A method of an actor, from the app's code. Raises ``UnknownName``, which names the existing ones."""
    return method_named(kind_named(app.registry.actors, actor), key, method)


def _some(names: Iterable[str]) -> str:
    rest = iter(names)
    first = list(islice(rest, NAMED))
    return ", ".join(first) + (" and more" if next(rest, None) is not None else "")
