"""A process's side of all the entities it works on: who is in memory, who is looked at, whose lease is extended."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from contextvars import Context
from typing import Final

from msgspec import UNSET

from holdfast.bounded import Bounded
from holdfast.clock import Clock
from holdfast.containment import is_asked_for
from holdfast.errors import StoreError
from holdfast.items import Item, Write
from holdfast.kernel.crash_queue import CrashQueue
from holdfast.kernel.creations import Creations
from holdfast.kernel.entity import Entity
from holdfast.kernel.limits import Limits
from holdfast.kernel.listeners import Watchers
from holdfast.kernel.model import Model
from holdfast.kernel.outcomes import Conclusion, Ended, Left, LeftBehind, Rest
from holdfast.kernel.pace import Pace
from holdfast.kernel.wake import notify, wake
from holdfast.kernel.wakeups import LocalAlarms, Wakeups
from holdfast.ports import Home
from holdfast.telemetry import Telemetry
from holdfast.texts import frames_of

MOST_UNANSWERED: Final = 10_000
"""Of how many entities it is remembered that the store did not take a claim."""

UNLOADED_AT_ONCE: Final = 100
"""The number that leaves memory in a turn of the loop when a process stops: what a body does then may take a tenth of a
millisecond.
"""


class Host:
    """Takes hints and turns them into turns. One per open worker."""

    def __init__(
        self,
        home: Home,
        models: Sequence[Model],
        clock: Clock,
        telemetry: Telemetry,
        limits: Limits,
        wakeups: Wakeups | None = None,
    ) -> None:
        self.home = home
        self.models = models
        self.clock = clock
        self.telemetry = telemetry
        self.limits = limits
        self.draining = False
        self.ends_at: int | None = None
        """When this process is stopped, if that is known (milliseconds): at the end of an invocation."""
        self.watchers = Watchers()
        self.creations = Creations()
        self.crash_queue = CrashQueue()
        self.entities: dict[str, Entity] = {}
        self.awake: dict[str, Entity] = {}
        """Those of them that are not suspended, which may be few of many. No other one has a lease of ours."""
        self.pace = Pace(limits.lease_ms, one_by_one=home.writes_are_paid)
        self.unanswered = Bounded[str, bool](MOST_UNANSWERED)
        """The entities that could not be claimed because the store did not take the write: see ``ownership.claim``."""
        self._suspended: OrderedDict[str, None] = OrderedDict()
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self.wakeups = wakeups or LocalAlarms(limits.sweep_seconds)
        self._turns: set[asyncio.Task[None]] = set()
        self._counted: set[asyncio.Task[None]] = set()
        """The turns that count for ``limits.running``."""
        self._posts: set[asyncio.Task[None]] = set()
        self._left_behind: set[asyncio.Task[None]] = set()

    # ── Hints in ────────────────────────────────────────────────────────────────────────────────────────────────────

    def check(self, partition: str) -> bool:
        """Something may have happened to this entity. Answers whether it is looked at here, now or soon."""
        self.wakeups.cancel(partition)
        entity = self.entities.get(partition)
        if entity is not None and entity.turn is not None:
            entity.notify()
        elif self.creations.postpones(partition):
            return True
        elif self.draining or (model := serving(self, partition)) is None:
            return False
        elif len(self._counted) < self.limits.running or (entity is not None and entity.has_callers):
            self.begin_turn(entity or self._admit(partition, model))
        elif not self.wakeups.passed_on(partition):
            self._waiting[partition] = None
        return True

    def open_entity(self, partition: str) -> Entity | None:
        """The entity, with its turn begun, for a caller that has something for it; ``None`` if it has no place here."""
        entity = self.entities.get(partition)
        if self.draining:
            return None
        if entity is None:
            if (model := serving(self, partition)) is None:
                return None
            entity = self._admit(partition, model)
        if entity.turn is None:  # beyond the limit too: the caller may itself fill a place until it is answered
            self._waiting.pop(partition, None)
            self.begin_turn(entity)
        return entity

    def wake(self, partitions: Sequence[str]) -> None:
        """Something was written for these entities: wake the workers that own them."""
        for partition in partitions:
            wake(partition, self.home, self)

    def check_at(self, partition: str, due_at: int) -> None:
        """Look at an entity at a time (milliseconds), or a little later, never earlier."""
        self.wakeups.check_at(self, partition, due_at)

    def adopt(self, head: Item, *, created: bool = True) -> None:
        """Work on a head that has our lease already: one that was ``created`` with it, or claimed without a turn.

        A turn that was under way, for a wake-up from before, takes it up: a second one would take the lease from it.
        """
        entity = self.entities.get(head.partition)
        if entity is not None and entity.turn is not None:
            entity.notify()
            return
        if entity is None:
            model = self.model_of(head.partition)
            assert model is not None, "only what is served here is created here"
            entity = self._admit(head.partition, model)
        entity.own(head, created=created)
        entity.unread = not created
        self.begin_turn(entity)

    @property
    def has_room(self) -> bool:
        """Whether a new entity can be worked on at once."""
        begun = len(self._counted) + len(self.creations.kept)
        return not self.draining and self.pace.is_kept and begun < self.limits.running

    def patience_seconds(self, near_seconds: float | None) -> float:
        """How long an idle entity keeps its lease: longer if it knows that it goes on soon and there is room."""
        if (
            near_seconds is not None
            and near_seconds <= self.limits.near_seconds
            and len(self._counted) < self.limits.running * 3 / 4
        ):
            return self.limits.near_seconds
        return self.limits.linger_seconds

    def model_of(self, partition: str) -> Model | None:
        """The programming model with code for the entity here, if there is one."""
        for model in self.models:
            if model.serves(partition):
                return model
        return None

    # ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _admit(self, partition: str, model: Model) -> Entity:
        entity = self.entities[partition] = model.admit(partition)
        return entity

    def begin_turn(self, entity: Entity) -> None:
        """Begin a turn of an entity in memory that has none."""
        self._suspended.pop(entity.partition, None)
        self.awake[entity.partition] = entity
        # An empty context: nothing of the task that woke the entity may reach its body, for replay would not have it.
        loop = asyncio.get_running_loop()
        entity.turn = loop.create_task(self._take_turn(entity), name=entity.partition, context=Context())
        self._turns.add(entity.turn)
        if entity.counts:
            self._counted.add(entity.turn)

    async def _take_turn(self, entity: Entity) -> None:
        try:
            await entity.model.turn(entity, self)
        except LeftBehind:
            return
        except BaseException as error:  # one broken entity must not take the others down
            if is_asked_for(error, entity.turn):
                raise
            self.failed(entity, error)
        finally:
            turn = asyncio.current_task()
            if turn is not None and entity.turn is turn:
                self._turn_ended(entity, turn)

    def leave_behind(self, entity: Entity) -> None:
        """The turn of an entity is stuck in code of users that does not end: another one goes on in its place."""
        stuck = entity.turn
        assert stuck is not None
        self._left_behind.add(stuck)
        stuck.add_done_callback(self._left_behind.discard)
        self._turns.discard(stuck)
        self._counted.discard(stuck)
        self.begin_turn(entity)

    def _turn_ended(self, entity: Entity, turn: asyncio.Task[None]) -> None:
        self._turns.discard(turn)
        self._counted.discard(turn)
        entity.turn = None
        entity.wait_no_more()
        self.crash_queue.leave(entity.partition)
        in_memory = self.entities.get(entity.partition) is entity
        if not entity.held and (entity.missed or (in_memory and entity.has_news)):
            entity.missed = entity.unread = False
            self._check_again(entity.partition)
        if self._waiting and len(self._counted) < self.limits.running:
            self.check(self._waiting.popitem(last=False)[0])

    def _check_again(self, partition: str) -> None:
        if not self.check(partition):  # we are about to stop, and the one that woke us may have called no other process
            self.check_at(partition, self.clock.now_ms())

    # ── How a turn ends ─────────────────────────────────────────────────────────────────────────────────────────────

    def suspended(self, entity: Entity, due_at: int | None) -> None:
        """The entity waits; it stays in memory while there is room."""
        self.telemetry.emit("suspended", partition=entity.partition, due_at=due_at)
        self._suspended[entity.partition] = None
        _remove(entity, self.awake)
        self.watchers.notify(entity.partition, None)
        if due_at is not None:
            self.check_at(entity.partition, due_at)
        while len(self._suspended) > self.limits.resident:
            oldest, _ = self._suspended.popitem(last=False)
            self.telemetry.emit("evicted", partition=oldest)
            evicted = self.entities[oldest]
            evicted.missed = evicted.missed or evicted.has_news  # for the end of its turn, if this is its turn
            self.forget(evicted)

    def concluded(self, entity: Entity, conclusion: Conclusion) -> None:
        """The entity ended, or goes on as a new run."""
        self._drop(entity)
        for partition, message in conclusion.posts:
            if conclusion.expires_at is not None:  # it was told with the end
                wake(partition, self.home, self)
            elif not holds(self, partition):  # a copy in memory may be stale: another worker may hold it now
                self._post(partition, message())
        if conclusion.due_at is None:
            self.telemetry.emit("ended", partition=entity.partition, status=conclusion.status)
        if conclusion.report is not None:
            conclusion.report()
        if conclusion.due_at is not None:
            wake(entity.partition, self.home, self)
            return
        notify(entity.partition, self.home)
        self.watchers.notify(entity.partition, conclusion)

    def _post(self, partition: str, writes: Sequence[Write]) -> None:
        async def post() -> None:
            with contextlib.suppress(StoreError):  # only a hint: the receiver also looks by itself
                await self.home.store.write(*writes)
                wake(partition, self.home, self)

        task = asyncio.get_running_loop().create_task(post())
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    def forget(self, entity: Entity) -> None:
        """Drop an entity from memory, and let those who wait for it look elsewhere. If its turn has missed a wake-up,
        it is checked again at the end of the turn.
        """
        self._drop(entity)
        self.watchers.notify(entity.partition, None)

    def _drop(self, entity: Entity) -> None:
        entity.forget()
        self._suspended.pop(entity.partition, None)
        _remove(entity, self.entities, self.awake)

    def failed(self, entity: Entity, error: BaseException, *, again_at: int | None = None) -> None:
        """A turn could not be finished: forget the entity and look again soon, or at a time (milliseconds)."""
        told = repr(error) if isinstance(error, StoreError) else frames_of(error)
        self.telemetry.emit("turn_failed", partition=entity.partition, error=told)
        self.forget(entity)
        entity.missed = False  # no earlier than the next try
        if not self.draining:
            soon = self.clock.now_ms() + int(self.limits.retry_turn_seconds * 1000)
            self.wakeups.failed(self, entity.partition, soon if again_at is None else again_at)

    # ── Shutdown ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def drain(self, grace_seconds: float) -> None:
        """Start no more effects, let running ones finish within the grace period, and hand everything over."""
        self.draining = True
        self.crash_queue.close()
        self.wakeups.cancel_all()
        self.watchers.hurry()
        if turns := self._wake_all():
            await asyncio.wait(turns, timeout=grace_seconds)
        for entity in list(self.entities.values()):
            entity.interrupt()
        if turns := self._wake_all():
            await asyncio.wait(turns, timeout=grace_seconds)
        if self._posts:
            await asyncio.wait(self._posts, timeout=grace_seconds)
        await self._unload_suspended()
        self.abandon()

    async def _unload_suspended(self) -> None:
        """Forget those that wait, which may be a hundred thousand: little by little, for others are on the loop."""
        for place, partition in enumerate(list(self._suspended)):
            if (entity := self.entities.get(partition)) is not None and entity.turn is None:
                self.forget(entity)
            if place % UNLOADED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _wake_all(self) -> list[asyncio.Task[None]]:
        for entity in self.entities.values():
            if entity.turn is not None:
                entity.wake()
        return list(self._turns)  # those too that have released their entity and still write

    def abandon(self) -> None:
        """Stop at once. Leases stay behind; the next worker takes them over."""
        self.draining = True
        for partition in self._waiting:
            self.wakeups.failed(self, partition, 0)
        self._waiting.clear()
        for entity in list(self.entities.values()):
            if entity.turn is not None:
                self.wakeups.failed(self, entity.partition, 0)
            self.forget(entity)
            entity.missed = False
        self.watchers.notify_all()  # of entities that were to go on here, and are not in memory, too
        self.wakeups.cancel_all()
        for task in (*self._turns, *self._posts, *self._left_behind):
            task.cancel()

    @property
    def running(self) -> int:
        """How many entities are worked on here."""
        return len(self._turns)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is worked on here, and nothing waits for its turn."""
        return not (self._turns or self._waiting or self._posts or self.wakeups.waiting)

    @property
    def under_way(self) -> Sequence[asyncio.Task[None]]:
        """The turns that are being taken, and the messages on their way to others."""
        return [*self._turns, *self._posts]


def _remove(entity: Entity, *where: dict[str, Entity]) -> None:
    """It is none of those any more. Another one may have its place."""
    for those in where:
        if those.get(entity.partition) is entity:
            del those[entity.partition]


async def quiet(host: Host) -> None:
    """Wait until nothing is worked on here, and nothing waits for its turn."""
    while not host.is_quiet:
        if under_way := host.under_way:
            await asyncio.wait(under_way)
        else:
            await asyncio.sleep(0)  # something is on its way into a turn, or out of one


def settled(entity: Entity, left: Left, host: Host) -> None:
    """A turn has released the entity, as ``left`` says: it waits, or has ended."""
    match left:
        case Rest(due_at=due_at):
            host.suspended(entity, None if due_at is UNSET else due_at)
        case Ended(conclusion=conclusion):
            host.concluded(entity, conclusion)


def serving(host: Host, partition: str) -> Model | None:
    """The programming model by which an entity is worked on here: none without its code, or if the home leaves it to
    other processes.
    """
    return host.model_of(partition) if host.home.serves(partition) else None


def holds(host: Host, partition: str) -> bool:
    """Whether this process owns the entity's lease now."""
    entity = host.entities.get(partition)
    return entity is not None and entity.held
