"""Sending to an execution: a message in its inbox, and its head made due, in one write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from holdfast import ids
from holdfast.codec.jsontext import canonical
from holdfast.coordination.inbox import MARKED, USED, Sender
from holdfast.errors import NotFound, Refused, StoreUnavailable
from holdfast.flow.record import QUEUED
from holdfast.items import ABSENT, AllOf, EpochIs, Item, Put, StatusIn, Update
from holdfast.kernel.wake import wake
from holdfast.persist import write_for_caller, write_fresh
from holdfast.replay.entries import Cancelled, Received
from holdfast.workflows.history import load
from holdfast.workflows.queueing import is_waiting
from holdfast.workflows.record import (
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
    answered_sort,
    callback_sort,
    decode_message,
    encode_message,
    make_due,
    post,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.kernel.host import Host
    from holdfast.ports import Home, Store
    from holdfast.workflows.callback_tokens import TokenScope


AT_WORK: Final = tuple(status for status in OPEN if status != PAUSED)


async def send(
    partition: str,
    message: Message,
    home: Home,
    host: Host | None,
    sender: Sender,
    now: int,
    guards: Sequence[Update] = (),
) -> bool:
    """Put a message into an open execution's inbox, durably; false if the execution is not there or has ended, or one
    of the ``guards``, which change nothing, is refused.

    A paused one that is asked to stop goes on, to clean up.
    """
    sort = sender.next_sort()
    put, due = post(partition, sort, message, now)
    way = due if not isinstance(message, CancelRequest) else replace(due, when=StatusIn(AT_WORK))
    while True:
        try:
            await write_for_caller(home.store, put, way, *guards, ours=partial(_is_at, sort))
        except Refused as refused:
            if way is due or refused.item is None or refused.item.status not in OPEN:
                return False
            way = (
                replace(due, when=StatusIn(AT_WORK)) if refused.item.status != PAUSED else _resuming(due, refused.item)
            )
            continue
        wake(partition, home, host)
        return True


def _is_at(sort: str, there: Item | None) -> bool:
    return there is not None and there.sort == sort


def _resuming(due: Update, paused: Item) -> Update:
    """One that waits for a slot does so again; any other goes on."""
    as_seen = AllOf((StatusIn((PAUSED,)), EpochIs(paused.epoch)))
    return replace(due, when=as_seen, status=QUEUED if is_waiting(paused) else READY)


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


def answer_writes(partition: str, answer: CallbackAnswer, now: int) -> tuple[Put, Put, Update]:
    """The writes that answer a callback: all of them, or none if it was answered or has timed out.

    The message and the mark are in two places; files of the old format have a mark in the message's place.
    """
    body = encode_message(answer)
    place, mark = callback_sort(answer.run, answer.op), answered_sort(answer.run, answer.op)
    message = Item(partition=partition, sort=place, status=MARKED, body=body)
    answered = Item(partition=partition, sort=mark, status=USED, body=ids.fingerprint(body).encode())
    return Put(message, ABSENT), Put(answered, ABSENT), make_due(partition, now)


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
