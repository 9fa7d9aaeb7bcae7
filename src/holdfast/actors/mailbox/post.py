"""A message to an actor: one write brings it in and wakes the actor, alone or with the sender's commit (G5)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from holdfast.actors import record
from holdfast.actors.record import Call, describe_partition, encode
from holdfast.bounded import Bounded
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import InvalidState, MailboxFull, Refused, StoreUnavailable
from holdfast.items import ABSENT, EXISTS, Delete, Item, Put, StatusIn, Update, Write
from holdfast.kernel.unit import Unit
from holdfast.kernel.wake import wake
from holdfast.paging import Pages
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.actors.kind import Kind
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Store


MOST_TRIES: Final = 10
MOST_BACKLOGS: Final = 10_000

COUNTED_PER_SECOND: Final = 4_000
LONGEST_REST_SECONDS: Final = 1.0
RESTS_PER_COUNT: Final = 4
"""To count what waits is to read all of it. So a thousand messages are counted four times a second at most, ten as
often as they are asked for, and messages that take long to count a fifth of the time.
"""


async def post(kind: Kind, partition: str, call: Call, runtime: Runtime) -> str:
    """Put a message into an actor's inbox, durably, at once; answers its place there."""
    await _refuse_if_full(kind, partition, runtime)
    sort = runtime.sender.next_sort()
    puts = [Put(Item(partition, sort, body=encode(call)), ABSENT)]
    head = await _expected_head(partition, runtime)
    for _ in range(MOST_TRIES):
        if call.replies and head is not None and head.status == record.HALTED:
            raise halted(partition)
        due = make_due(partition, head, runtime, whole=call.named)
        try:
            await write_for_caller(runtime.home.store, *puts, due, ours=lambda _there: False)
        except Refused as refused:
            if refused.index < len(puts):  # an attempt without an answer has put it there, perhaps without waking
                puts.clear()
            else:  # it was created, deleted or halted since we looked
                head = refused.item
            continue
        wake_actor(partition, runtime)
        return sort
    raise StoreUnavailable(
        f"{describe_partition(partition)} changed {MOST_TRIES} times while a message was sent to it: nothing was sent"
    )


async def _expected_head(partition: str, runtime: Runtime) -> Item | None:
    """The head of an actor as it is, for the first message of this process; for others as it is most of the time. A
    write that finds it otherwise is refused, and tells.
    """
    known = backlogs_of(runtime)
    if known.is_looked_at(partition) or known.seen.use(partition) is None:  # behind those that wait for the look (G6)
        async with known.looking(partition):
            if known.seen.use(partition) is None:  # no other call has looked meanwhile
                head = await runtime.home.store.get(partition)
                known.seen[partition] = True
                return head
    return some_head(partition)


def some_head(partition: str) -> Item:
    """The head of a receiver that has not been looked at. If it is not like this, the write is refused, and tells."""
    return Item(partition, status=record.READY)


async def post_with(unit: Unit, kind: Kind, partition: str, call: Call, runtime: Runtime) -> str:
    """Put a message into an actor's inbox with the commit of the handler that is running (G5, G6)."""
    unit.refuse_elsewhere(runtime.home, describe_partition(partition))
    await _refuse_if_full(kind, partition, runtime)
    sort = unit.next_sort(runtime.sender)
    if unit.departs(partition):
        unit.depart(partition, sort, encode(replace(call, numbered=True)))
        return sort
    put = Put(Item(partition, sort, body=encode(call)), ABSENT)
    head = await runtime.home.store.get(partition)
    unit.add(partition, put, make_due(partition, head, runtime))
    return sort


def make_due(partition: str, head: Item | None, runtime: Runtime, *, whole: bool = False) -> Write:
    """The write that makes an actor look into its inbox, given its head as it was found.

    A request that its sender may send again is put with it as a ``whole`` (``Update.whole``). Without a wake-up it
    could wait until the reply to its repeat is forgotten, and would be applied a second time then (G5).
    """
    now = runtime.clock.now_ms()
    if head is None:
        return Put(Item(partition=partition, status=record.READY, revision=1, due_at=now), ABSENT)
    match head.status:
        case record.DELETED:
            when = StatusIn((record.DELETED,))
            return Update(partition=partition, when=when, status=record.READY, due_at=now, add_revision=1)
        case record.HALTED:
            return Update(partition=partition, when=StatusIn((record.HALTED,)), add_revision=1)
        case _:
            when = StatusIn(record.CLAIMABLE)
            due = Update(partition=partition, when=when, due_at=now, expires_at=None, add_revision=1, wakes=True)
            return replace(due, whole=whole)


def halted(partition: str) -> InvalidState:
    """The error for the caller of an actor that has stopped at a message."""
    return InvalidState(
        f"{describe_partition(partition)} has halted at a message that fails; see `holdfast actor show`, then resume it"
    )


def wake_actor(partition: str, runtime: Runtime) -> None:
    """Make the worker of the actor look at it."""
    wake(partition, runtime.home, runtime.host)


async def withdraw(partition: str, sort: str, runtime: Runtime) -> bool:
    """Take a message back; false if it was applied, or is being applied."""
    try:
        await write_for_caller(runtime.home.store, Delete(partition, sort, EXISTS), ours=lambda _there: False)
    except Refused:
        return False
    return True


# ── Room in the mailbox ─────────────────────────────────────────────────────────────────────────────────────────────


async def _refuse_if_full(kind: Kind, partition: str, runtime: Runtime) -> None:
    backlogs = backlogs_of(runtime)
    if backlogs.take(partition):
        return
    async with backlogs.looking(partition):
        if backlogs.take(partition):  # another call has looked meanwhile
            return
        bound = kind.policy.mailbox
        now = asyncio.get_running_loop().time()
        room = 0
        if not backlogs.rests(partition, now):
            leaving = backlogs.leaving(partition)  # before: what arrives meanwhile is counted
            waiting = await _count(partition, bound, runtime.home.store)
            room = bound - waiting - leaving
            backlogs.rest(partition, _rest_until(waiting, now))
        if room <= 0:
            raise MailboxFull(
                f"{describe_partition(partition)} has {bound} messages waiting and takes no more: send again later, or "
                "give its class a larger mailbox"
            )
        backlogs.learn(partition, room - 1)


def _rest_until(waiting: int, began: float) -> float:
    """Until when messages are not counted again that were counted since ``began``."""
    now = asyncio.get_running_loop().time()
    return now + max(min(waiting / COUNTED_PER_SECOND, LONGEST_REST_SECONDS), RESTS_PER_COUNT * (now - began))


async def _count(partition: str, bound: int, store: Store) -> int:
    """How many messages wait; the ``bound`` if they are more."""
    waiting = 0
    async for page in Pages(lambda after: store.query(partition, prefix=INBOX_PREFIX, after=after, limit=bound)):
        waiting += len(page.items)
        if waiting + page.behind >= bound:
            return bound
    return waiting


class Backlogs:
    """How many more messages this process may send to an actor before it has to count those that wait there, and how
    many are on their way there. ``seen`` are the actors to which it has sent.
    """

    __slots__ = ("_leaving", "_looking", "_rests_until", "_room", "seen")

    def __init__(self) -> None:
        self.seen = Bounded[str, bool](MOST_BACKLOGS)
        self._looking = WeakValueDictionary[str, asyncio.Lock]()
        self._room = Bounded[str, int](MOST_BACKLOGS)
        self._rests_until = Bounded[str, float](MOST_BACKLOGS)
        self._leaving: Counter[str] = Counter()

    def looking(self, partition: str) -> asyncio.Lock:
        """What one call holds that looks at an actor: others wait, and know then what it has seen."""
        lock = self._looking.get(partition)
        if lock is None:
            lock = self._looking[partition] = asyncio.Lock()
        return lock

    def is_looked_at(self, partition: str) -> bool:
        """Whether a call looks at an actor, or waits for its turn to."""
        return partition in self._looking

    def leaving(self, partition: str) -> int:
        """How many messages are durable with their senders, and are still to be delivered by this process."""
        return self._leaving[partition]

    def leave(self, partition: str, change: int) -> None:
        """There are more of them, or fewer."""
        self._leaving[partition] += change
        if not self._leaving[partition]:
            del self._leaving[partition]

    def rest(self, partition: str, until: float) -> None:
        """It was just counted what waits there: it is not counted again until then, in the loop's time."""
        self._rests_until[partition] = until

    def rests(self, partition: str, now: float) -> bool:
        """Whether what waits there was counted so shortly before that it is not to be counted now."""
        return now < self._rests_until.get(partition, 0)

    def take(self, partition: str) -> bool:
        """Use up one place; false if it is not known whether there is one."""
        room = self._room.get(partition, 0)
        if room <= 0:
            return False
        self._room[partition] = room - 1
        return True

    def learn(self, partition: str, room: int) -> None:
        """There is room for this number of messages."""
        self._room[partition] = room


def backlogs_of(runtime: Runtime) -> Backlogs:
    """Those of an open app."""
    return runtime.kept.get(Backlogs, Backlogs)
