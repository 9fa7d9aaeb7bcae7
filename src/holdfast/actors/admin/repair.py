"""Repairing actors from outside: what was parked goes back or is dropped, and what has halted goes on.

Nothing here runs an actor's code, and nothing needs its lease: each change is one write, under a condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from holdfast.actors.mailbox.marks import with_mark
from holdfast.actors.mailbox.parked import parking, removing
from holdfast.actors.mailbox.post import make_due, wake_actor
from holdfast.actors.record import (
    CLAIMABLE,
    HALTED,
    HIDDEN_MARK,
    PARKED_PREFIX,
    READY,
    TAKEN,
    ActorRecord,
    Call,
    FailureRecord,
    Parked,
    actor_of,
    decode_call,
    decode_parked,
    decode_record,
    describe_partition,
    encode,
    encode_record,
    timer_call,
    timer_of,
)
from holdfast.actors.timers import after_firing
from holdfast.actors.turn.applied import RESEND_WINDOW_MS
from holdfast.actors.turn.replies import let_go_now
from holdfast.errors import InvalidInput, InvalidState, NotFound, Refused, UnknownName
from holdfast.items import ABSENT, EXISTS, AllOf, Delete, EpochIs, Item, Put, StatusIn, Update, Write
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


async def unpark(partition: str, place: str, args: Any, runtime: Runtime) -> None:
    """Put a parked message back into the inbox, with other arguments unless they are ``None``."""
    item, parked = await _find(partition, place, runtime)
    call = parked.call if args is None else replace(parked.call, args=_checked(args, parked.call, partition, runtime))
    body = encode(replace(call, not_before=0, numbered=False))
    message = Item(partition=partition, sort=runtime.sender.next_sort(), body=body)
    head, removed = await runtime.home.store.get(partition), await removing(item, parked, runtime.home.store)
    while True:
        writes = (Put(message, ABSENT), *removed, make_due(partition, head, runtime))
        try:
            await write_for_caller(runtime.home.store, *writes, ours=lambda there: there == message)
            break
        except Refused as refused:
            if refused.index != len(writes) - 1:
                raise _gone(partition, place) from None
            head = refused.item  # it was deleted, halted or resumed since we looked
    wake_actor(partition, runtime)


async def discard(partition: str, place: str, runtime: Runtime) -> None:
    """Drop a parked message, for good. The actor looks: without it, it may be one to be forgotten."""
    item, parked = await _find(partition, place, runtime)
    head, removed = await runtime.home.store.get(partition), await removing(item, parked, runtime.home.store)
    while True:
        there = head is not None and head.status in CLAIMABLE
        writes = (*removed, *((make_due(partition, head, runtime),) if there else ()))
        try:
            await write_for_caller(runtime.home.store, *writes, ours=lambda _there: False)
            break
        except Refused as refused:
            if refused.index < len(removed):
                raise _gone(partition, place) from None
            head = refused.item
    wake_actor(partition, runtime)
    await let_go_now(parked.failure.called, runtime.clock.now_ms() + RESEND_WINDOW_MS, runtime.home.store)


async def resume(partition: str, runtime: Runtime) -> None:
    """Let an actor that has halted try its message again."""
    head, record = await _halted(partition, runtime)
    failures = {place: each for place, each in record.failures.items() if place != record.halted_by}
    update = Update(
        partition=partition,
        when=AllOf((StatusIn((HALTED,)), EpochIs(head.epoch))),
        status=READY,
        body=encode_record(replace(record, halted_by=None, failures=failures)),
        due_at=runtime.clock.now_ms(),
        add_revision=1,
        add_epoch=1,
    )
    await write_for_caller(runtime.home.store, update, ours=lambda _there: True)  # another process has resumed it
    wake_actor(partition, runtime)


async def park(partition: str, runtime: Runtime) -> None:
    """Park the message that an actor has halted at, and let it go on with the next."""
    head, record = await _halted(partition, runtime)
    place, now = record.halted_by or "", runtime.clock.now_ms()
    failure = record.failures.get(place, FailureRecord())
    others = {name: each for name, each in record.failures.items() if name != place}
    record = replace(record, halted_by=None, failures=others)
    writes: tuple[Write, ...] = ()
    if (name := timer_of(place)) is not None:
        timer = record.timers[name]
        writes = parking(partition, place, timer_call(name, timer, timer.due_at), failure, now)
        record = replace(record, timers=after_firing(name, record.timers, record.timers, now))
    elif (message := await runtime.home.store.get(partition, place)) is not None:  # else it was withdrawn
        call = decode_call(message.body)
        writes = (*parking(partition, place, call, failure, now), Delete(partition, place, EXISTS))
        record = replace(record, parked_up_to=max(record.parked_up_to, place))
        if call.numbered and not place.endswith(TAKEN):
            record, moved = with_mark(record, partition, place)
            writes = (*writes, *moved)
        record = _told_of_parking(call, record, partition, runtime)
    body = encode_record(record)
    update = Update(
        partition=partition,
        when=AllOf((StatusIn((HALTED,)), EpochIs(head.epoch))),
        status=READY,
        body=body,
        due_at=now,
        add_revision=1,
        add_epoch=1,
    )
    try:
        await write_for_caller(
            runtime.home.store, update, *writes, ours=lambda there: there is not None and there.body == body
        )
    except Refused:
        raise InvalidState(f"{describe_partition(partition)} has changed meanwhile: look at it again") from None
    wake_actor(partition, runtime)


def _told_of_parking(call: Call, record: ActorRecord, partition: str, runtime: Runtime) -> ActorRecord:
    """The record of an actor when it knows that a message was parked. Hidden ones want to: it takes their code."""
    kind = runtime.registry.actors.get(actor_of(partition))
    if kind is None and actor_of(partition).startswith(HIDDEN_MARK):
        raise UnknownName(f"{describe_partition(partition)} has to note what is set aside, and its code is not here")
    if kind is None or kind.note_parked is None:
        return record
    actor = kind.load(record.state, record.schema)
    kind.note_parked(actor, call)
    return replace(record, state=Raw(kind.encode(actor)), schema=kind.schema)


async def _halted(partition: str, runtime: Runtime) -> tuple[Item, ActorRecord]:
    head = await runtime.home.store.get(partition)
    if head is None:
        raise NotFound(f"there is no {describe_partition(partition)}")
    if head.status != HALTED:
        raise InvalidState(f"{describe_partition(partition)} is {head.status}, not halted")
    return head, decode_record(head.body)


async def _find(partition: str, place: str, runtime: Runtime) -> tuple[Item, Parked]:
    item = await runtime.home.store.get(partition, place) if place.startswith(PARKED_PREFIX) else None
    if item is None:
        raise NotFound(f"{describe_partition(partition)} has no parked message {place!r}")
    return item, decode_parked(item.body)


def _gone(partition: str, place: str) -> NotFound:
    return NotFound(f"{describe_partition(partition)} has no parked message {place!r} any more")


def _checked(args: Any, call: Call, partition: str, runtime: Runtime) -> Raw:
    """New arguments for a call, as they are stored."""
    name = actor_of(partition)
    kind = runtime.registry.actors.get(name)
    if kind is None:
        known = ", ".join(runtime.registry.actors) or "none"
        raise UnknownName(
            f"no actor is called {name!r} here, so arguments for it cannot be checked; there are: {known}"
        )
    made = kind.methods.get(call.method) or kind.timers.get(call.method)
    if made is None:
        raise InvalidInput(f"{name} has no method {call.method!r} here: its arguments cannot be checked")
    return Raw(made.signature.parse(msgspec.json.encode(args), limit_bytes=runtime.limit_bytes))
