"""Methods that only read: beside the writer, on what is durable, without a lease or a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.actors.record import NO_VALUE, ActorRecord, decode_record
from holdfast.actors.resident import Resident
from holdfast.actors.scope import Turn
from holdfast.errors import InvalidState

if TYPE_CHECKING:
    from holdfast.actors.access import ActorAccess
    from holdfast.actors.definition import Actor, Kind, Method
    from holdfast.actors.reference import Reference


async def read_now(
    reference: Reference, method: Method, args: bytes, chain: tuple[str, ...], access: ActorAccess
) -> bytes:
    """Run a reading method on the actor as it was last committed; answers its encoded result."""
    kind = reference.kind
    actor, record = await _view(reference, access)
    before = kind.encode(actor)
    turn = Turn(reference.partition, access.clock, record, chain, None, reads=True)
    with turn:
        result: Any = await kind.run(method, actor, turn, args)
    if kind.encode(actor) != before or turn.writes or turn.timers != record.timers:
        _forget_view(reference.partition, access)
        raise InvalidState(
            f"{kind.name}.{method.name} is declared to read, and has changed the actor or sent something: none of it "
            "was kept. Remove @hf.read from it"
        )
    data, _ = method.signature.result.copy(result, f"the result of {kind.name}.{method.name}", access.limit_bytes)
    return data


async def _view(reference: Reference, access: ActorAccess) -> tuple[Actor, ActorRecord]:
    """The actor as it was last committed, for readers alone, and its record with the timers."""
    kind, partition = reference.kind, reference.partition
    entity = None if access.host is None else access.host.entities.get(partition)
    if isinstance(entity, Resident) and entity.held and not entity.lost and entity.committed is not None:
        return _shared_view(entity, kind), entity.committed.record
    head = await access.home.store.get(partition)
    if head is None or not head.body:
        return kind.fresh(), ActorRecord(schema=kind.schema, state=NO_VALUE)
    record = decode_record(head.body)
    return kind.load(record.state, record.schema), record


def _shared_view(entity: Resident, kind: Kind) -> Actor:
    assert entity.committed is not None
    state = entity.committed.state
    if entity.view is None or entity.view[0] != state:
        entity.view = (state, kind.restore(kind.state.decode(state)))
    return entity.view[1]


def _forget_view(partition: str, access: ActorAccess) -> None:
    entity = None if access.host is None else access.host.entities.get(partition)
    if isinstance(entity, Resident):
        entity.view = None
