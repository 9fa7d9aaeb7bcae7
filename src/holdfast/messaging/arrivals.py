"""Events that an app receives from a bus: those of other Holdfast apps, and those of other systems that it declares.

A bus delivers at least once and in no order. So each event stands alone under an id: the publisher's id together with
its source, or the id that EventBridge gave it. A mark of the last event of a sender would lose those that arrive late.
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
from holdfast.tracing import checked

if TYPE_CHECKING:
    from holdfast.messaging.publishing import Outbox, Publishes


ORIGIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of an origin. It becomes part of a key in the store, and any system that may use the bus can forge one."""


class IncomingEvent(Struct, frozen=True):
    """An event as EventBridge delivers it ("Event structure", EventBridge user guide). Other fields are ignored."""

    id: str
    source: str
    detail: Raw
    type: str = msgspec.field(name="detail-type")


async def take(
    incoming: IncomingEvent, outbox: Outbox, consumed: Mapping[str, type], declared: Mapping[tuple[str, str], str]
) -> None:
    """Put an event into this app's outbox, for its consumers. An event that this app published itself is ignored.

    Raises ``UnknownName`` if no consumer handles it, and ``InvalidInput`` if it is malformed.
    """
    if not incoming.source.startswith(SOURCE_PREFIX):
        name = declared.get((incoming.source, incoming.type))
        if name is None or name not in consumed:
            raise UnknownName(
                f"no consumer takes {incoming.type!r} from {incoming.source!r}: declare it with app.from_bus(...) and "
                "@app.consumer(...), or narrow the rule that sends it"
            )
        await _accept(incoming, outbox, name, incoming.detail, check_id(f"{incoming.source}/{incoming.id}"))
        return
    try:
        said = announced_of(incoming.detail)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"event {incoming.id} of {incoming.source} is not in the format of Holdfast: {error}"
        ) from None
    if not ORIGIN.fullmatch(said.origin):
        raise InvalidInput(f"event {incoming.id} of {incoming.source} has no valid origin")
    if said.origin == await outbox.origin():
        return  # its consumers have already received it from the outbox
    if said.event not in consumed:
        raise UnknownName(f"no consumer takes {said.event} of {incoming.source}: narrow the rule that sends it")
    # The source is part of the id: IAM can restrict a publisher to its own sources, but not to anything in a detail.
    id = _id_here(check_id(incoming.source), said.origin, check_id(said.id))
    trace = checked(said.traceparent) if isinstance(said.traceparent, str) else ""
    await _accept(incoming, outbox, said.event, said.data, id, trace)


async def _accept(incoming: IncomingEvent, outbox: Outbox, event: str, said: Raw, id: str, trace: str = "") -> None:
    data = bytes(said)
    if nests_too_deep(data):
        raise InvalidInput(
            f"event {incoming.id} of {incoming.source} nests more than {NESTING_LIMIT_LEVELS} levels deep, counting "
            "the argument that wraps it"
        )
    await outbox.accept(event, data, id, trace)


def _id_here(source: str, origin: str, id: str) -> str:
    """The id under which an event from another app is handled; a digest where the parts are too long for a key."""
    whole = f"{source}/{origin}/{id}"
    return whole if len(whole.encode()) <= LONGEST_ID_BYTES else f"{origin}/{ids.derive(source, id)}"


async def take_from_bus(app: Publishes, incoming: IncomingEvent) -> None:
    """Accept an event from a bus. It is durable when this returns. Raises ``UnknownName`` if no consumer handles it."""
    await take(incoming, app.outbox, app.registry.events, app.registry.from_bus)
