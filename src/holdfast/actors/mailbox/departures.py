"""Departures: what an actor sends where writes are billed. They ride in its commit, and are delivered afterwards (G5).

A transaction over two partitions costs twice as much as single writes, and two of them that touch one receiver at the
same time refuse each other. So a commit there touches the actor's own partition only:

1. The commit puts an entry ``o#<stamp>`` for each item that it sends next to the state, under the actor's epoch like
   the rest. It says ``departing`` in the head, and leaves the actor due: if its owner dies, another one takes over.
2. The owner delivers each entry by a write of the receiver alone: the item, if its place is empty, and the wake-up.
   Entries for one receiver are delivered in their order, each after those before it are confirmed.
3. The next commit of the actor, or its release, deletes the entries whose delivery is confirmed. An owner does not
   release the actor before.
4. An owner that claims an actor which is ``departing`` reads the entries, and delivers them before any newer ones.

An entry is delivered more than once if the owner hears no answer, if it dies before 3, and if it was stopped and is no
owner any more: nothing fences a delivery. While the item is there, its place refuses it. Later the receiver recognises
it: an actor by its ``marks``, a consumer of events by the place of the event in its group, or by its id.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, TypeGuard

import msgspec
from msgspec import Struct

from holdfast.actors.mailbox.delivery import deliver
from holdfast.actors.mailbox.post import Backlogs, backlogs_of, some_head
from holdfast.actors.record import DEPARTURE_PREFIX, Departure, decode_departure
from holdfast.backoff import Pauses
from holdfast.errors import StoreUnavailable
from holdfast.items import ABSENT, Delete, Item, Put, Write
from holdfast.paging import items

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Store


def is_departure(write: Write, partition: str) -> TypeGuard[Put]:
    """Whether a write leaves behind something that this actor has sent."""
    return isinstance(write, Put) and write.item.partition == partition and write.item.sort.startswith(DEPARTURE_PREFIX)


async def departures_of(partition: str, store: Store) -> list[Item]:
    """The entries that an actor has in the store, in their order. Only its owner may take them to be all."""
    return [item async for item in items(store, partition, prefix=DEPARTURE_PREFIX)]


class Departures:
    """The entries of one actor that this process owns: those to be delivered, by receiver, and those that were."""

    __slots__ = ("_backlogs", "_delivered", "_partition", "_tasks", "_waiting")

    def __init__(self, partition: str) -> None:
        self._partition = partition
        self._waiting: dict[str, deque[tuple[str, Departure]]] = {}
        self._delivered: dict[str, None] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._backlogs = Backlogs()

    @property
    def under_way(self) -> bool:
        """Whether there are entries whose delivery is not confirmed."""
        return bool(self._waiting)

    def acknowledgements(self, most: int | None = None) -> list[Delete]:
        """The writes that delete the entries whose delivery is confirmed, at most a number of them."""
        return [Delete(self._partition, place) for place in list(self._delivered)[:most]]

    def waits_for(self, to: str) -> bool:
        """Whether there are entries for this receiver whose delivery is not confirmed."""
        return to in self._waiting

    def remains_without(self, deletes: Collection[Write]) -> bool:
        """Whether entries remain in the store when these are deleted."""
        return self.under_way or len(self._delivered) > len(deletes)

    def acknowledged(self, deletes: Iterable[Write]) -> None:
        """These entries are gone."""
        for each in deletes:
            if isinstance(each, Delete):
                self._delivered.pop(each.sort, None)

    def begin(self, entries: Iterable[Item], runtime: Runtime, ended: Callable[[Exception | None], None]) -> None:
        """Deliver entries that are durable, behind those that wait. ``ended`` is called when a receiver has all."""
        self._backlogs = backlogs_of(runtime)
        for entry in entries:
            departure = decode_departure(entry.body)
            self._backlogs.leave(departure.to, 1)
            self._waiting.setdefault(departure.to, deque()).append((entry.sort, departure))
        for to in self._waiting:
            if to not in self._tasks:
                work = self._deliver_all(to, runtime, ended)
                self._tasks[to] = asyncio.get_running_loop().create_task(work)

    async def settled(self, to: str | None = None) -> None:
        """Wait until all have been delivered, or all those for one receiver."""
        while tasks := [task for each, task in self._tasks.items() if to in (None, each)]:
            await asyncio.wait(tasks)

    def forget(self) -> None:
        """The store has the truth: another owner, or a later turn, delivers what is there."""
        for task in self._tasks.values():
            task.cancel()
        for to, waiting in self._waiting.items():
            self._backlogs.leave(to, -len(waiting))
        for each in (self._tasks, self._waiting, self._delivered):
            each.clear()

    async def _deliver_all(self, to: str, runtime: Runtime, ended: Callable[[Exception | None], None]) -> None:
        waiting, pauses = self._waiting[to], Pauses()
        try:
            while waiting:
                taken = list(waiting)
                try:
                    whole = not all(_is_never_forgotten(each) for _, each in taken)
                    await deliver(to, [_put(each) for _, each in taken], some_head(to), runtime, whole=whole)
                except StoreUnavailable:
                    await pauses.wait()
                    continue
                self._backlogs.leave(to, -len(taken))
                for place, _ in taken:
                    waiting.popleft()
                    self._delivered[place] = None
        except Exception as error:  # noqa: BLE001 - a mistake of ours: the turn must not wait for ever
            ended(error)
        finally:
            if self._waiting.get(to) is waiting:  # else all was forgotten
                del self._waiting[to], self._tasks[to]
                ended(None)


def _put(departure: Departure) -> Put:
    return Put(Item(departure.to, departure.sort, body=bytes(departure.body)), ABSENT)


class _Recognised(Struct, frozen=True):
    """What a message or an event says of how its receiver recognises it: by a mark, or by its place in its group."""

    numbered: bool = False
    place: int = 0


_recognised: Final = msgspec.json.Decoder(_Recognised).decode


def _is_never_forgotten(departure: Departure) -> bool:
    """Whether the receiver recognises a repeat however late it comes. It knows an event without a group by its id, for
    a time.
    """
    found = _recognised(departure.body)
    return found.numbered or found.place > 0
