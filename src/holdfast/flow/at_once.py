"""Beginning by the very write of the start: this process decides for the queue, a slot is free, and nothing waits.

The head of the queue has the slot in the same write, under the fence of its owner (G3), so it is as if it were decided
before. Only where a write of several items costs nothing more.

| it stops | what is there | what continues it |
|---|---|---|
| before the write, or it is refused | nothing | the start goes on as any other, or finds the execution that is there |
| at the write, and the answer is lost | all of it, or nothing | it is sent again; nothing is decided meanwhile |
| after the write | an execution that runs, with its slot | the next owner of either |
| an hour, and then it writes | a newer owner of the queue | its epoch refuses it |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.errors import Refused, StoreError
from holdfast.flow.beginning import moved_on, next_head, watch
from holdfast.flow.gate import Gate
from holdfast.flow.record import QUEUED, Slot, place_put, queueing_in, waiting_of
from holdfast.kernel.room import keep_room, leave_room
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.flow.choose import Waiting
    from holdfast.flow.declarations import Queue
    from holdfast.flow.gate import Books
    from holdfast.flow.record import Queueing
    from holdfast.items import Item, Put
    from holdfast.kernel.host import Host

OF_THE_QUEUE: Final = 0
"""Which of the writes is refused if another process decides."""


MOST_HELD: Final = 100
"""With more slots in the head of the queue, a write of it for each start would be too large."""


class AtOnce(Struct, frozen=True):
    """An execution that may begin by its start, as far as this process knows: ``close`` it in any case."""

    gate: Gate
    books: Books
    queue: Queue
    waiting: Waiting
    host: Host

    async def write(self, put: Put, ours: Callable[[Item | None], bool]) -> bool:
        """Create it with its slot. False if another process decides now: nothing was written. Raises ``Refused`` if
        its head is, and ``StoreUnavailable``: the slot is kept then until it is known to be free.
        """
        books, partition = self.books, self.waiting.partition
        async with books.writing:
            if self.gate.books is not books:
                return False
            before = books.told()
            books.held[partition] = Slot(self.waiting.key, put.item.epoch - 1, self.host.clock.now_ms())
            books.starting.add(partition)
            try:
                head = next_head(self.gate, self.queue, self.host, awake=False)
                await write_for_caller(self.host.home.store, head, put, ours=ours)
            except StoreError as error:
                books.tell_again(before)
                if isinstance(error, Refused) and not self._may_have_begun(error):
                    self._give_back()
                    if error.index == OF_THE_QUEUE:
                        return False
                else:
                    books.suspects.add(partition)
                self.gate.wake()
                raise
            finally:
                books.starting.discard(partition)
        moved_on(self.gate, head)
        watch(partition, self.gate, self.host)
        self.host.telemetry.emit("queue_admitted", partition=self.gate.partition, count=1)
        return True

    def _may_have_begun(self, refused: Refused) -> bool:
        """Whether the head that is in the way may be ours, and has changed since: a try without an answer has written
        it. Others of this queue that have begun have slots, and are not tried.
        """
        there = refused.item
        if refused.index == OF_THE_QUEUE or there is None or there.status == QUEUED:
            return False
        waits = queueing_in(there)
        return waits is not None and waits.gate == self.gate.partition

    def _give_back(self) -> None:
        del self.books.held[self.waiting.partition]
        self.books.chooser.give_back(self.waiting)

    def close(self) -> None:
        """It is created, or is not."""
        leave_room(self.waiting.partition, self.host)


def at_once(partition: str, queued: Queueing, queue: Queue, host: Host | None) -> AtOnce | None:
    """Keep a slot, its tokens and room for an execution that is about to be created, if it may begin at once.

    The caller does not wait for anything before ``AtOnce.write``.
    """
    if host is None or host.home.writes_are_paid:
        return None
    gate = host.entities.get(queued.gate)
    if not isinstance(gate, Gate) or not gate.held or gate.books is None:
        return None
    if not _is_calm(gate.books) or partition in gate.books.held:
        return None
    waiting = waiting_of(place_put(partition, queued).item)
    if not keep_room(partition, host):
        return None
    if not gate.books.chooser.take_at_once(waiting, host.clock.now_ms() * 1000):
        leave_room(partition, host)
        return None
    return AtOnce(gate, gate.books, queue, waiting, host)


def _is_calm(books: Books) -> bool:
    """Whether nothing waits, as far as is known here, the numbers are known, and nothing is being written."""
    waits = books.lookup or books.came or books.purges or books.waiting or books.is_stale
    return not (waits or books.rests or books.writing.locked()) and len(books.held) < MOST_HELD
