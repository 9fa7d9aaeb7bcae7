"""What the writes of actors say was handled, read from the database as they are applied: what their spans must tell.

An actor keeps no journal. That it has handled something is seen by what a commit leaves: a reply, a message that is
gone from the inbox, one that is parked, a failure that was counted, a timer that was moved on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from holdfast.actors.record import (
    DELETED,
    HIDDEN_MARK,
    NOT_BEGUN,
    PARKED_PREFIX,
    PARTITION_PREFIX,
    REPLY_PREFIX,
    ActorRecord,
    Call,
    Parked,
    Reply,
    TimerRecord,
    actor_of,
    decode_call,
    decode_parked,
    decode_record,
    decode_reply,
    key_of,
    timer_call,
    timer_of,
    timer_place,
)
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.items import HEAD, Item, Write, place
from holdfast.ports import Home
from holdfast.testing.actor_oracles import ActorWatch, Change
from holdfast.testing.oracles import WatchedData, WatchedStore
from holdfast.testing.world import Database, MemoryDatabase

NOTHING = ""
"""The outcome of what did not run: a repeat, or what was skipped, or ended with its actor."""
TICKS = 6
"""The steps of the loop from a write to its answer in the code that waits for it, and a few more."""
FROM_MEMORY: tuple[tuple[str, str | None], ...] = (("", None),)
"""The origin of a call that came by no message: what it carried is not stored."""


@dataclass(frozen=True)
class Fact:
    """A call, message, tick or event that was handled with one of ``outcomes``, among which may be ``NOTHING``.

    ``origins`` are the places that it may have come from, each with the context that it carried, if that is known: of
    messages of one id that leave the inbox together, any may be the first.
    """

    partition: str
    id: str
    outcomes: frozenset[str]
    origins: tuple[tuple[str, str | None], ...]


@dataclass
class Applied:
    """A write that was applied for a process. ``heard``: it lived long enough to know."""

    process: str
    partitions: frozenset[str]
    facts: tuple[Fact, ...]
    heard: bool = False


@dataclass
class Log:
    """The writes of a run in their order, and which processes are gone."""

    writes: list[Applied] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)

    def note(self, write: Applied) -> None:
        """It was applied just now."""
        self.writes.append(write)
        self._wait(write, TICKS)

    def _wait(self, write: Applied, ticks: int) -> None:
        if ticks:
            asyncio.get_running_loop().call_soon(self._wait, write, ticks - 1)
        else:
            write.heard = write.process not in self.gone


class NotingDatabase(MemoryDatabase):
    """A database that keeps a log, with what another one holds."""

    def __init__(self, other: Database) -> None:
        super().__init__()
        assert isinstance(other, MemoryDatabase)
        self.data: WatchedData = other.data
        self.log = Log()
        self.last: list[Item] = []

    async def open(self, owner: str) -> Home:
        store = _Store(self.data, self._actors, owner, self.log)
        return replace(await super().open(owner), store=store, purges=store, sequencer=store)

    async def close(self) -> None:
        self.last = await self.items()
        await super().close()

    def forget(self, owner: str) -> None:
        self.log.gone.add(owner)
        super().forget(owner)


class _Store(WatchedStore):
    def __init__(self, data: WatchedData, actors: ActorWatch, owner: str, log: Log) -> None:
        super().__init__(data, actors)
        self._owner, self._log = owner, log

    def _apply(self, writes: Sequence[Write]) -> list[Item | None]:
        places = [place(write) for write in writes]
        before = [self._whole(*each) for each in places]
        waiting = {partition: self._waiting(partition) for partition, _ in places}
        answers = super()._apply(writes)
        after = [self._whole(*each) for each in places]
        changes = [Change(*each) for each in zip(before, after, strict=True) if each != (None, None)]
        heads = [each for each in changes if _commits(each)]
        facts = [fact for head in heads for fact in facts_of(head, changes, waiting[head.item.partition])]
        touched = frozenset(partition for partition, _ in places)
        self._log.note(Applied(self._owner, touched, tuple(facts)))
        return answers


def _commits(change: Change) -> bool:
    """Whether this moves the state of an actor on."""
    head, before = change.after, change.before
    if change.item.sort != HEAD or head is None or not head.partition.startswith(PARTITION_PREFIX):
        return False
    return head.epoch > (0 if before is None else before.epoch)


def facts_of(head: Change, changes: Sequence[Change], waiting: Sequence[Item]) -> Iterator[Fact]:
    """What this commit says was handled."""
    at = head.item.partition
    others = [each for each in changes if each.item.partition == at and each.item.sort != HEAD]
    before, after = _record(head.before), _record(head.after)
    parked = {each.call.id: each for each in _parked(others)}
    answers = dict(_answers(others))
    taken = _taken(others)
    for id, each in parked.items():
        place = each.sort.removesuffix(f":{id}")  # a timer's has its firing behind it
        yield Fact(at, id, frozenset({"parked"}), ((place, each.call.trace),))
    for id, reply in answers.items():
        origins = tuple((place, call.trace) for place, call in taken.items() if call.id == id)
        yield Fact(at, id, frozenset({"done" if reply.error is None else "failed"}), origins or FROM_MEMORY)
    for place, call in taken.items():
        if call.id not in parked and call.id not in answers:
            yield Fact(at, call.id, _of_taken(head, call), ((place, call.trace),))
    yield from _of_failures(at, before, after, waiting)
    yield from _of_timers(at, before, after, parked)


def _record(head: Item | None) -> ActorRecord:
    return ActorRecord(schema=1, state=NOT_BEGUN) if head is None or not head.body else decode_record(head.body)


def _parked(changes: Sequence[Change]) -> Iterator[Parked]:
    for each in changes:
        if each.item.sort.startswith(PARKED_PREFIX) and each.before is None:
            yield decode_parked(each.item.body)


def _answers(changes: Sequence[Change]) -> Iterator[tuple[str, Reply]]:
    """The replies that are new, by the ids of their calls."""
    for each in changes:
        is_new = each.before is None or (each.after is not None and each.before.body != each.after.body)
        if each.item.sort.startswith(REPLY_PREFIX) and is_new:
            reply = decode_reply(each.item.body)
            if not reply.parked:
                yield each.item.sort.removeprefix(REPLY_PREFIX), reply


def _taken(changes: Sequence[Change]) -> dict[str, Call]:
    """The messages that are gone from the inbox, by their places."""
    gone = [each.item for each in changes if each.item.sort.startswith(INBOX_PREFIX) and each.after is None]
    return {item.sort: decode_call(item.body) for item in gone}


def _of_taken(head: Change, call: Call) -> frozenset[str]:
    """What became of a message that has left no reply: its sender sends it once, and relays may deliver again."""
    actor = actor_of(head.item.partition)
    once = not call.known and not actor.startswith(HIDDEN_MARK) and head.item.status != DELETED
    return frozenset({"done"}) if once else frozenset({"done", "failed", NOTHING})


def _of_failures(at: str, before: ActorRecord, after: ActorRecord, waiting: Sequence[Item]) -> Iterator[Fact]:
    for at_place, failure in after.failures.items():
        earlier = before.failures.get(at_place)
        if failure.failed <= (0 if earlier is None else earlier.failed):
            continue
        outcomes = frozenset({"halted" if after.halted_by == at_place else "retrying"})
        if (name := timer_of(at_place)) is not None:
            yield Fact(at, _firing(name, before.timers[name]), outcomes, ((at_place, ""),))
        for call in (decode_call(item.body) for item in waiting if item.sort == at_place):
            yield Fact(at, call.id, outcomes, ((at_place, call.trace),))


def _of_timers(at: str, before: ActorRecord, after: ActorRecord, parked: Container[str]) -> Iterator[Fact]:
    for name, timer in before.timers.items():
        now, id = after.timers.get(name), _firing(name, timer)
        if now == timer or id in parked:
            continue
        is_next_tick = now is not None and now.set_count == timer.set_count
        outcomes = frozenset({"done"} if is_next_tick else {"done", NOTHING})
        yield Fact(at, id, outcomes, ((timer_place(name), ""),))


def _firing(name: str, timer: TimerRecord) -> str:
    return timer_call(name, timer, timer.due_at).id


def described(fact: Fact) -> str:
    """A fact for people."""
    return f"{actor_of(fact.partition)} {key_of(fact.partition)} {fact.id} {sorted(fact.outcomes)}"
