"""Sending to an execution: a message in its inbox, and its head made due, in one write."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from holdfast.codec.jsontext import canonical
from holdfast.coordination.inbox import USED, Sender
from holdfast.errors import NotFound, Refused, StoreUnavailable
from holdfast.items import StatusIn, Update
from holdfast.kernel.wake import wake
from holdfast.persist import write_for_caller, write_fresh
from holdfast.replay.entries import Cancelled, Received
from holdfast.workflows.history import load
from holdfast.workflows.record import (
    CLAIMABLE,
    NO_VALUE,
    OPEN,
    PAUSED,
    READY,
    CallbackAnswer,
    CancelRequest,
    ChildEnded,
    Message,
    Parent,
    Signal,
    answer_writes,
    callback_sort,
    decode_message,
    post,
)

if TYPE_CHECKING:
    from holdfast.items import Item, Put
    from holdfast.kernel.host import Host
    from holdfast.ports import Home, Store
    from holdfast.workflows.callback_tokens import TokenScope


async def send(partition: str, message: Message, home: Home, host: Host | None, sender: Sender, now: int) -> bool:
    """Put a message into an open execution's inbox, durably; false if the execution is not there or has ended.

    A paused one that is asked to stop goes on, to clean up.
    """
    sort = sender.next_sort()
    put, due = post(partition, sort, message, now)
    ways = (due,) if not isinstance(message, CancelRequest) else (_to_claimable(due), _to_paused(due))
    for way in cycle(ways):
        try:
            await write_for_caller(home.store, put, way, ours=lambda there: there is not None and there.sort == sort)
        except Refused as refused:
            if len(ways) == 1 or refused.item is None or refused.item.status not in OPEN:
                return False
            continue
        wake(partition, home, host)
        break
    return True


def _to_claimable(due: Update) -> Update:
    return replace(due, when=StatusIn(CLAIMABLE))


def _to_paused(due: Update) -> Update:
    return replace(due, when=StatusIn((PAUSED,)), status=READY)


async def was_received(store: Store, partition: str, message: Signal | CancelRequest) -> bool:
    """Whether an execution that takes no messages any more has received this one before: a repeat after a crash then
    succeeds all the same.
    """
    try:
        recorded = await load(store, partition)
    except NotFound:
        return False
    match message:
        case CancelRequest():
            return any(isinstance(entry, Cancelled) and not entry.timed_out for entry in recorded.entries)
        case Signal(id=id):
            ids_here = (entry.id for entry in recorded.entries if isinstance(entry, Received))
            return id in recorded.record.seen or id in ids_here


async def answer_once(scope: TokenScope, answer: CallbackAnswer, home: Home, host: Host | None, now: int) -> bool:
    """Answer a callback of an open execution, durably, once; false if it has another answer or has timed out (G11)."""
    message, mark, due = answer_writes(scope.partition, answer, now)
    try:
        await write_fresh(home.store, message, mark, due, ours=lambda there: _is_answer(there, message))
    except Refused:
        return await was_answered(home.store, scope, answer)
    wake(scope.partition, home, host)
    return True


def _is_answer(there: Item | None, answer: Put) -> bool:
    """Whether an answer to which the store said nothing has been applied, given what is in its way now."""
    if there is None or (there.sort == answer.item.sort and there.status != USED):
        return there == answer.item
    raise StoreUnavailable(
        "the store did not say whether it took this answer of a callback. The execution has gone on since: with this "
        "answer, or with another that came before it; see its history"
    )


async def was_answered(store: Store, scope: TokenScope, answer: CallbackAnswer) -> bool:
    """Whether a callback was answered with just this before: a repeat is answered like the first time."""
    sort = callback_sort(scope.run, scope.op)
    there = await store.get(scope.partition, sort)
    if there is not None and there.status != USED:
        return _says_the_same(there.body, answer)
    try:
        recorded = await load(store, scope.partition)
    except NotFound:
        return False
    taken = (entry for entry in recorded.entries if isinstance(entry, Received) and entry.id == sort)
    return any(_says_the_same(bytes(entry.value), answer) for entry in taken)


def was_started(id: str, starter: Parent) -> ChildEnded:
    """What a starter must know before nothing is left of what it started: if it died before it had noted the start, it
    would start it again.
    """
    return ChildEnded(starter.run, starter.op, Raw(msgspec.json.encode(id)), nonce=starter.nonce)


def _says_the_same(recorded: bytes, answer: CallbackAnswer) -> bool:
    there = decode_message(recorded)
    if not isinstance(there, CallbackAnswer) or there.error != answer.error:
        return False
    if NO_VALUE in (there.value, answer.value):
        return there.value == answer.value
    return canonical(msgspec.json.decode(there.value)) == canonical(msgspec.json.decode(answer.value))
