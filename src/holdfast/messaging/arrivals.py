"""Events from a bus into an app: those of other apps of Holdfast, and what others say there if it is declared.

A bus delivers at least once and in no order. So each event stands alone, under an id of its own: that of whoever
published it, with his source, or the one that EventBridge gave it; and a mark of how far a sender has come would lose
what it overtook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct

from holdfast import ids
from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS
from holdfast.errors import InvalidInput, UnknownName
from holdfast.keys import LONGEST_ID_BYTES
from holdfast.messaging.bus_queue import SOURCE_PREFIX, announced_of
from holdfast.messaging.outbox import check_id, nests_too_deep

if TYPE_CHECKING:
    from holdfast.messaging.publishing import Outbox


ORIGIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What an origin looks like. It becomes part of a key in the store, and whoever may use the bus may have made it up."""


class IncomingEvent(Struct, frozen=True):
    """An event as EventBridge delivers it ("Event structure", EventBridge user guide); the rest is not looked at."""

    id: str
    source: str
    detail: Raw
    type: str = msgspec.field(name="detail-type")


async def take(
    incoming: IncomingEvent, outbox: Outbox, consumed: Mapping[str, type], declared: Mapping[tuple[str, str], str]
) -> None:
    """Put an event into the outbox of this app, for its consumers; what this app has announced itself is left out.

    Raises ``UnknownName`` if no consumer here is for it, and ``InvalidInput`` if it is not what its source says.
    """
    if not incoming.source.startswith(SOURCE_PREFIX):
        name = declared.get((incoming.source, incoming.type))
        if name is None or name not in consumed:
            raise UnknownName(
                f"nobody here takes {incoming.type!r} from {incoming.source!r}: declare it with app.from_bus(...) and "
                "@app.consumer(...), or narrow the rule that sends it"
            )
        await _accept(incoming, outbox, name, incoming.detail, check_id(f"{incoming.source}/{incoming.id}"))
        return
    try:
        said = announced_of(incoming.detail)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"event {incoming.id} of {incoming.source} says nothing that Holdfast would: {error}"
        ) from None
    if not ORIGIN.fullmatch(said.origin):
        raise InvalidInput(f"event {incoming.id} of {incoming.source} has no origin that Holdfast would give it")
    if said.origin == await outbox.origin():
        return  # its consumers here have had it from the outbox
    if said.event not in consumed:
        raise UnknownName(f"no consumer here is for {said.event} of {incoming.source}: narrow the rule that sends it")
    # The source, too: who may put events on a bus can be held by IAM to sources of his own, and to nothing in a detail.
    id = _id_here(check_id(incoming.source), said.origin, check_id(said.id))
    await _accept(incoming, outbox, said.event, said.data, id)


async def _accept(incoming: IncomingEvent, outbox: Outbox, event: str, said: Raw, id: str) -> None:
    data = bytes(said)
    if nests_too_deep(data):
        raise InvalidInput(
            f"event {incoming.id} of {incoming.source} nests more than {NESTING_LIMIT_LEVELS} levels deep, together "
            "with what consumers are given it in"
        )
    await outbox.accept(event, data, id)


def _id_here(source: str, origin: str, id: str) -> str:
    """The id under which an event from another app is handled; a digest where the parts are too long for a key."""
    whole = f"{source}/{origin}/{id}"
    return whole if len(whole.encode()) <= LONGEST_ID_BYTES else f"{origin}/{ids.derive(source, id)}"
