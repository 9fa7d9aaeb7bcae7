"""Methods that only read: concurrently with the writer, on what is durable, without a lease or a write."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from holdfast import ids
from holdfast.actors.record import HIDDEN_MARK, ActorRecord, decode_record
from holdfast.actors.scope import Turn
from holdfast.actors.turn.entity import Loaded, actor_in_memory
from holdfast.actors.turn.handling import Handled, Handling, surrounding, tell
from holdfast.errors import InvalidState
from holdfast.failure import describe
from holdfast.kernel.entity import Owned
from holdfast.tracing import here

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.actors.kind import Instance, Kind, Method
    from holdfast.kernel.runtime import Runtime


async def read_now(address: Address, method: Method, args: bytes, chain: tuple[str, ...], runtime: Runtime) -> bytes:
    """Run a reading method on the actor as it was last committed; answers its encoded result."""
    kind = address.kind
    loaded = _in_memory(address, runtime)
    actor, record = await _load(address, runtime) if loaded is None else _view(loaded, kind)
    before = kind.encode(actor)
    turn = Turn(address.partition, runtime, record, chain, None, reads=True)
    handling = _handling(address, method, runtime)
    try:
        with turn, nullcontext() if handling is None else surrounding(handling.trace, handling, runtime):
            result: Any = await kind.run(method, actor, turn, args, runtime)
    except Exception as error:
        if handling is not None:
            tell(Handled(handling, runtime.clock.now_ms(), "failed", describe(error).type), runtime)
        raise
    if handling is not None:
        tell(Handled(handling, runtime.clock.now_ms(), "done"), runtime)
    data, _ = method.signature.result.copy(result, f"the result of {kind.name}.{method.name}", runtime.limit_bytes)
    if kind.encode(actor) != before:
        raise InvalidState(
            f"{kind.name}.{method.name} is declared to read, and has changed the actor: none of it was kept. Remove "
            "@hf.read from it"
        )
    view = kind.after(actor)
    if loaded is not None:
        loaded.view = (before, view)
    return data


def _handling(address: Address, method: Method, runtime: Runtime) -> Handling | None:
    """A read that begins, if it is traced. It leaves nothing behind, so nothing but this run has its id.

    What a worker reads for itself, as whether a schedule is armed, is of no interest to users.
    """
    if runtime.telemetry.tracer is None or address.kind.name.startswith(HIDDEN_MARK):
        return None
    now = runtime.clock.now_ms()
    return Handling(
        partition=address.partition,
        method=method.name,
        id=ids.new_id(),
        trace=here(),
        attempt=1,
        began=now,
        reads=True,
    )


def _in_memory(address: Address, runtime: Runtime) -> Loaded | None:
    """The actor, if this process owns it: then it knows what was last committed."""
    entity = actor_in_memory(address.partition, runtime.host)
    if entity is None or not isinstance(entity.hold, Owned):
        return None
    return entity.state if entity.hold.lease_until >= runtime.clock.now_ms() else None


def _view(loaded: Loaded, kind: Kind) -> tuple[Instance, ActorRecord]:
    """The actor as it was last committed, for one reader at a time: one that spoils it spoils it for no other."""
    committed = loaded.committed
    view, loaded.view = loaded.view, None
    if view is not None and view[0] == committed.state:
        return view[1], committed.record
    return kind.decoded(committed.state), committed.record


async def _load(address: Address, runtime: Runtime) -> tuple[Instance, ActorRecord]:
    kind = address.kind
    head = await runtime.home.store.get(address.partition)
    if head is None or not head.body:
        return kind.fresh(), ActorRecord(schema=kind.schema, state=Raw(b"{}"))
    record = decode_record(head.body)
    return kind.load(record.state, record.schema), record
