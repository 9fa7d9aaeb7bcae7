"""An actor in memory: its state, what waits for it, and what has run and is not yet durable."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeGuard

from holdfast.actors.mailbox.queue import Answer, Delivery, Outcome, Queue
from holdfast.actors.record import Call, Reply, decode_call, key_of, timer_place
from holdfast.actors.turn.aftermath import Finished, Performed, Version
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.coordination.lease import Fenced
from holdfast.items import HEAD, Item, Put, Write
from holdfast.kernel.entity import Entity, Unowned
from holdfast.kernel.model import Model
from holdfast.kernel.ownership import ours

if TYPE_CHECKING:
    from holdfast.actors.kind import Instance, Kind
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime


class ActorEntity(Entity):
    """One actor that this process has in memory; a ``passing`` one is only there for a while.

    ``version`` is the actor after all that has run, ``committed`` as it is durable; ``instance`` is what methods run
    on, if it is as ``version`` says, and ``view`` what readers read. ``finished`` is what is still to be committed;
    until then ``promised`` are the heads that it puts, and ``replies`` what it answers.
    """

    __slots__ = (
        "committed",
        "committing",
        "finished",
        "gathers",
        "hot",
        "instance",
        "kind",
        "left_at",
        "passing",
        "promised",
        "queue",
        "redo",
        "replies",
        "running",
        "suspecting",
        "suspects",
        "version",
        "view",
        "waits_for",
        "writing",
    )

    def __init__(self, partition: str, model: Model, kind: Kind) -> None:
        super().__init__(partition, model)
        self.kind = kind
        self.passing = kind.passing(key_of(partition))
        self.queue = Queue()
        self.instance: Instance | None = None
        self.version: Version | None = None
        self.committed: Version | None = None
        self.view: tuple[bytes, Instance] | None = None
        self.finished: list[Finished] = []
        self.promised: dict[str, Item] = {}
        self.replies: dict[str, Reply] = {}
        self.running: Delivery | None = None
        self.waits_for: set[str] = set()
        self.committing: asyncio.Task[None] | None = None
        self.suspects: set[str] = set()
        self.redo = self.writing = self.hot = self.gathers = self.suspecting = False
        self.left_at = 0

    @property
    def place(self) -> tuple[str, str]:
        """Where its head is."""
        return self.partition, HEAD

    @property
    def loaded(self) -> bool:
        return self.version is not None

    @property
    def halting(self) -> bool:
        """Whether it has stopped at a message that fails."""
        return self.version is not None and self.version.record.halted_by is not None

    @property
    def has_news(self) -> bool:
        return self.unread or bool(self.queue.calls)

    @property
    def renewable(self) -> bool:
        return self.held and not self.writing  # a commit extends it too, and moves the epoch on

    @property
    def settled(self) -> bool:
        """Whether all that has run is durable."""
        return not self.finished and not self.writing

    # ── What waits ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def call(self, request: Call) -> Outcome:
        """Take in a call from this process, and wait for what becomes of it."""
        answer: Answer = asyncio.get_running_loop().create_future()
        delivery = Delivery(request, answer=answer)
        self.queue.add_call(delivery, unread=self.unread)
        self.wake()
        try:
            return await answer
        except asyncio.CancelledError:
            self.queue.withdraw(delivery)  # a worker that runs the caller again may be told that it was refused
            raise

    def next(self, now: int) -> Delivery | None:
        """What is to run now."""
        assert self.version is not None
        return self.queue.next(self.version.record, now, unread=self.unread)

    def next_due(self) -> int | None:
        """The earliest time something is to be done, in milliseconds."""
        assert self.version is not None
        return self.queue.next_due(self.version.record)

    def drop_delayed(self, now: int) -> tuple[str, ...]:
        """Drop the messages that were sent and wait for their time, or for another attempt; answers their places."""
        assert self.version is not None
        puts = (each.item for finished in self.finished for each in finished.writes if isinstance(each, Put))
        own = (each for each in puts if each.partition == self.partition and each.sort.startswith(INBOX_PREFIX))
        delayed = (each.sort for each in own if decode_call(each.body).not_before > now)
        return (*self.queue.drop_delayed(self.version.record), *delayed)

    def suspect(self, now: int) -> None:
        """The last owner has died, perhaps of one of the messages and timers that are there to be run."""
        assert self.version is not None
        due = (name for name, each in self.version.record.timers.items() if each.due_at <= now)
        self.suspecting = False
        self.suspects = {*(each.place for each in self.queue.mail), *map(timer_place, due)}

    # ── What has run ────────────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, performed: Performed) -> None:
        """Be as a delivery has left the actor, and keep what is to be committed for it."""
        self.version, self.instance = performed.version, performed.instance
        for finished in performed.finished:
            self.finished.append(finished)
            self.promised.update((each.item.partition, each.item) for each in finished.writes if _puts_head(each))
            if finished.reply is not None:
                self.replies[finished.delivery.call.id] = finished.reply
        if performed.again is not None:
            performed.again.prepared = False
            self.queue.put_back(performed.again)

    def kept(self, finished: Finished) -> None:
        """What was left behind is durable: what it puts is to be found in the store now."""
        self.replies.pop(finished.delivery.call.id, None)
        for each in finished.writes:
            if _puts_head(each):
                self.promised.pop(each.item.partition, None)
        if finished.delivery.sort is not None:
            self.queue.known.discard(finished.delivery.sort)

    def stopped(self) -> None:
        """No method runs any more."""
        self.running = None
        self.waits_for.clear()

    # ── Starting over ───────────────────────────────────────────────────────────────────────────────────────────────

    def reset(self) -> None:
        """Back to what is durable. Messages are read again; calls of this process begin again, in their order."""
        again = [each.delivery for each in self.finished]
        self.finished.clear()
        self.promised.clear()
        self.replies.clear()
        self.queue.start_over(again)
        self.version = self.committed
        self.instance = None
        self.unread = True
        self.redo = False

    def lose(self) -> None:
        super().lose()
        if self.running is not None and self.turn is not None:
            self.turn.cancel()

    def unload(self) -> None:
        self.committed = None
        self.reset()

    def forget(self) -> None:
        super().forget()
        if self.committing is not None:
            self.committing.cancel()
        self.unload()
        self.view = None
        self.unread = False
        self.queue.send_away(() if self.running is None else (self.running,))

    def interrupt(self) -> None:
        self.wake()


def actor_in_memory(partition: str, host: Host | None) -> ActorEntity | None:
    """The actor, if this process has it in memory."""
    entity = None if host is None else host.entities.get(partition)
    return entity if isinstance(entity, ActorEntity) else None


async def refuse_overtaken_caller(request: Call, runtime: Runtime) -> None:
    """Raise ``Fenced`` if the actor that calls has a newer owner: nothing leaves it any more (G3).

    The store is asked when its lease is over, and only then: what it calls may have been called, answered and
    forgotten since.
    """
    caller = actor_in_memory(request.chain[-1], runtime.host) if request.chain else None
    if caller is None or isinstance(caller.hold, Unowned):
        return  # what an optimistic one does depends on its version
    if runtime.clock.now_ms() < ours(caller).lease_until:
        return
    head = await runtime.home.store.get(caller.partition)
    if head is None or head.owner != runtime.home.owner:
        caller.lose()
        raise Fenced(f"{caller.partition} has a newer owner")


def _puts_head(write: Write) -> TypeGuard[Put]:
    return isinstance(write, Put) and write.item.sort == HEAD
