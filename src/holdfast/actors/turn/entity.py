"""An actor in memory: its state, what waits for it, what runs, and what has run and is not yet durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeGuard

from msgspec import Struct

from holdfast.actors.mailbox.departures import Departures, is_departure
from holdfast.actors.mailbox.queue import Answer, Delivery, Outcome, Queue, Replied, Series
from holdfast.actors.record import Call, Reply, decode_call, decode_departure, key_of
from holdfast.actors.turn.aftermath import Deletion
from holdfast.actors.turn.performed import Finished, Performed, Version, writes_of
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


class Loaded(Struct, eq=False):
    """An actor's state in memory. ``version`` is the actor after all that has run, ``committed`` as it is durable;
    ``instance`` is what methods run on, if it is as ``version`` says, and ``view`` what readers read.
    ``taken_over``: its last owner may have died of what is to be read from the inbox now. ``unanswered`` are ids of
    messages to which the store has no answer (``look_ahead``).
    """

    version: Version
    committed: Version
    instance: Instance | None
    view: tuple[bytes, Instance] | None = None
    taken_over: bool = False
    unanswered: set[str] = set()

    def roll_back(self) -> None:
        """Be as what is durable says."""
        self.version, self.instance = self.committed, None


class Gathering(Struct, eq=False):
    """What has run waits a moment for what comes next, to share its write."""


class Writing(Struct, frozen=True, eq=False):
    """What has run is being written: by a ``task`` concurrent with the turn, or by the turn itself."""

    task: asyncio.Task[None] | None = None


class Refusal(Struct, frozen=True, eq=False):
    """What a call sends does not fit any more, so that nothing was written: all that has run is to run again."""


REFUSED: Final = Refusal()


class Uncommitted(Struct, eq=False):
    """What has run and is not durable. ``finished`` is what is still to be committed; until then ``pending_heads`` are
    the heads that it puts, and ``replies`` what it answers. ``phase`` is what is under way with it.
    """

    finished: list[Finished] = []
    pending_heads: dict[str, Item] = {}
    replies: dict[str, Reply] = {}
    phase: Gathering | Writing | Refusal | None = None

    def is_durable(self, finished: Finished) -> None:
        """What was left behind is to be found in the store now."""
        self.replies.pop(finished.delivery.call.id, None)
        for each in finished.writes:
            if _puts_head(each):
                self.pending_heads.pop(each.item.partition, None)


class Running(Struct, eq=False):
    """The delivery that runs, and the actors that it waits for."""

    delivery: Delivery
    waits_for: set[str] = set()


class ActorEntity(Entity):
    """One actor that this process has in memory; a ``passing`` one is only there for a while.

    A ``hot`` one was claimed a moment after this process had left it, at ``left_at`` (milliseconds). ``departures`` is
    what it has sent that is durable and not deleted.
    """

    __slots__ = ("departures", "hot", "kind", "left_at", "passing", "queue", "running", "state", "uncommitted")

    def __init__(self, partition: str, model: Model, kind: Kind) -> None:
        super().__init__(partition, model)
        self.kind = kind
        self.passing = kind.passing(key_of(partition))
        self.queue = Queue()
        self.state: Loaded | None = None
        self.uncommitted = Uncommitted()
        self.departures = Departures(partition)
        self.running: Running | None = None
        self.hot = False
        self.left_at = 0

    @property
    def place(self) -> tuple[str, str]:
        """Where its head is."""
        return self.partition, HEAD

    @property
    def loaded(self) -> bool:
        return self.state is not None

    @property
    def halting(self) -> bool:
        """Whether it has stopped at a message that fails."""
        return self.state is not None and self.state.version.record.halted_by is not None

    @property
    def has_news(self) -> bool:
        return self.unread or self.has_callers

    @property
    def has_callers(self) -> bool:
        return bool(self.queue.calls)

    @property
    def renewable(self) -> bool:
        return self.held and not isinstance(self.uncommitted.phase, Writing)  # a commit extends it too

    @property
    def settled(self) -> bool:
        """Whether all that has run is durable."""
        return not self.uncommitted.finished and not isinstance(self.uncommitted.phase, Writing)

    # ── What waits ──────────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, request: Call) -> Awaitable[Outcome]:
        """Take in a call from this process; to be awaited until it is known what becomes of it."""
        return self._taken(self._take_in(request))

    async def call_in_series(self, requests: Sequence[Call]) -> list[Outcome | BaseException]:
        """Take in calls that are applied in their order, none behind one that was not; answers for each of them."""
        series = Series()
        taken = [self._take_in(each, series) for each in requests]
        return await asyncio.gather(*map(self._taken, taken), return_exceptions=True)

    def _take_in(self, request: Call, series: Series | None = None) -> Delivery:
        answer: Answer = asyncio.get_running_loop().create_future()
        delivery = Delivery(request, answer=answer, series=series)
        self.queue.add_call(delivery, unread=self.unread)
        self.wake()
        return delivery

    async def _taken(self, delivery: Delivery) -> Outcome:
        assert delivery.answer is not None
        try:
            return await delivery.answer
        except asyncio.CancelledError:
            self.queue.withdraw(delivery)  # a worker that runs the caller again may be told that it was refused
            raise

    def next(self, now: int) -> Delivery | None:
        """What is to run now."""
        assert self.state is not None
        return self.queue.next(self.state.version.record, now, unread=self.unread)

    def next_due(self) -> int | None:
        """The earliest time something is to be done, in milliseconds."""
        assert self.state is not None
        return self.queue.next_due(self.state.version.record)

    def drop_delayed(self, now: int) -> Deletion:
        """Drop the messages that were sent and wait for their time, or for another attempt: the actor ends."""
        assert self.state is not None
        puts = (
            each.item for finished in self.uncommitted.finished for each in finished.writes if isinstance(each, Put)
        )
        own = (each for each in puts if each.partition == self.partition and each.sort.startswith(INBOX_PREFIX))
        delayed = (each.sort for each in own if decode_call(each.body).not_before > now)
        dropped = self.queue.drop_delayed(self.state.version.record)
        numbered = tuple(each.place for each in dropped if each.numbered)
        return Deletion((*(each.place for each in dropped), *delayed), numbered)

    # ── What has run ────────────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, performed: Performed) -> None:
        """Be as a delivery has left the actor, and keep what is to be committed for it."""
        assert self.state is not None
        self.state.version, self.state.instance = performed.version, performed.instance
        left = self.uncommitted
        for finished in performed.finished:
            left.finished.append(finished)
            left.pending_heads.update((each.item.partition, each.item) for each in finished.writes if _puts_head(each))
            if not isinstance(finished.outcome, Replied) or finished.outcome.error is not None:
                finished.delivery.hold_up_others()
            if finished.reply is not None:
                left.replies[finished.delivery.call.id] = finished.reply
        if performed.again is not None:
            performed.again.prepared = False
            self.queue.put_back(performed.again)
        if performed.later is not None:
            self.queue.add_later(performed.later)

    def depart(self, entries: Iterable[Item], runtime: Runtime) -> None:
        """Deliver what it has sent, now that it is durable; its turn is woken when a receiver has all."""
        self.departures.begin(entries, runtime, self._departed)

    def sends_to(self, partition: str) -> bool:
        """Whether something that it has sent there, and that is durable or will be, is not delivered."""
        if self.departures.waits_for(partition):
            return True
        sent = (each.item for each in writes_of(self.uncommitted.finished) if is_departure(each, self.partition))
        return any(decode_departure(each.body).to == partition for each in sent)

    def _departed(self, error: Exception | None) -> None:
        self.broken = error or self.broken
        self.wake()

    # ── Starting over ───────────────────────────────────────────────────────────────────────────────────────────────

    def reset(self) -> None:
        """Back to what is durable. Messages are read again; calls of this process begin again, in their order."""
        self.queue.start_over([each.delivery for each in self.uncommitted.finished])
        self.uncommitted = Uncommitted()
        if self.state is not None:
            self.state.roll_back()
        self.unread = True

    def lose(self) -> None:
        super().lose()
        if self.lost and self.running is not None and self.turn is not None:
            self.turn.cancel()

    def unload(self) -> None:
        self.state = None
        self.departures.forget()
        self.reset()

    def forget(self) -> None:
        super().forget()
        match self.uncommitted.phase:
            case Writing(asyncio.Task() as task):
                task.cancel()
            case _:
                pass
        self.unload()
        self.unread = False
        self.queue.send_away(() if self.running is None else (self.running.delivery,))

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
        return  # it holds no lease that it could have lost
    if runtime.clock.now_ms() < ours(caller).lease_until:
        return
    head = await runtime.home.store.get(caller.partition)
    if head is None or head.owner != runtime.home.owner:
        caller.lose()
        raise Fenced(f"{caller.partition} has a newer owner")


def _puts_head(write: Write) -> TypeGuard[Put]:
    return isinstance(write, Put) and write.item.sort == HEAD
