"""A simulated world: one database, one virtual loop, and processes that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from msgspec.structs import replace

from holdfast.app import App
from holdfast.backends.memory import open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.items import HEAD, Item
from holdfast.kernel.limits import Limits
from holdfast.ports import Home
from holdfast.telemetry import Telemetry
from holdfast.testing.actor_oracles import ActorWatch, let_go
from holdfast.testing.called import Environment, Exchange, FaultyCalls
from holdfast.testing.faults import NO_FAULTS, FaultCounts, FaultPlan
from holdfast.testing.faulty import on_wire
from holdfast.testing.ledger import Allowed, Ledger
from holdfast.testing.oracles import WatchedData, WatchedStore, is_quiet
from holdfast.testing.process import Process
from holdfast.testing.virtual_time import Timeline, VirtualClock, VirtualTimeLoop
from holdfast.workflows.record import PARTITION_PREFIX

User = Callable[[], Coroutine[Any, Any, Any]]
"""What a user does with an app from outside: starts, signals, waits. Returns the result."""

Build = Callable[[App, Ledger], User]
"""Registers workflows and steps with an app, and returns what its user does.

It is called once for each simulated process, so that processes share nothing in memory. The user starts again after a
crash: its actions must be safe to repeat, with fixed ids for executions and signals.
"""

LOOK_SECONDS: Final = 0.5

STORE_ANSWERED: Final = "turn_failed although the store answered"
"""Counted, next to ``turn_failed``, for turns that failed by anything but ``StoreUnavailable``."""


class Database(Protocol):
    """What the processes of a world share."""

    async def open(self, owner: str) -> Home:
        """A home on it for one process."""
        ...

    async def items(self) -> list[Item]:
        """All its items."""
        ...

    def attempted(self, key: str, process: str, *, excused: bool) -> None:
        """A process performs the operation with this idempotency key. See ``WatchedData.attempted``."""
        ...

    def watch_queues(self, allowed: Mapping[str, Allowed]) -> None:
        """Complain when more executions of a queue have begun than these numbers allow, if it sees every write."""

    def violations(self) -> list[str]:
        """The writes that must not have happened."""
        ...

    def forget(self, owner: str) -> None:
        """The process of this name is gone, and all others can see that."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...


class MemoryDatabase(Database):
    """A shared ``MemoryData`` that watches every change. With ``billed`` its homes say that each write is paid for."""

    def __init__(self, timeline: Timeline | None = None, *, billed: bool = False) -> None:
        self.data = WatchedData(timeline)
        self.billed = billed
        self._actors = ActorWatch()

    async def open(self, owner: str) -> Home:
        self._actors.posted = self.billed
        store = WatchedStore(self.data, self._actors)
        home = replace(open_memory_home(data=self.data, owner=owner), store=store, purges=store, sequencer=store)
        return replace(home, writes_are_paid=self.billed)

    async def items(self) -> list[Item]:
        now = VirtualClock().now_ms()
        items = [item for entity in self.data.partitions.values() for item in entity.values()]
        known = (item for item in items if not self._actors.is_unannounced(item))
        return [let_go(self.data.whole(item), now) for item in known]

    def attempted(self, key: str, process: str, *, excused: bool) -> None:
        self.data.attempted(key, process, excused=excused)

    def watch_queues(self, allowed: Mapping[str, Allowed]) -> None:
        self.data.queues.allowed = allowed

    def violations(self) -> list[str]:
        return self.data.violations

    def forget(self, owner: str) -> None:
        self.data.listeners.pop(owner, None)

    async def close(self) -> None:
        pass


class World:
    """The place of a simulation. Create it, and use it, inside ``run_virtual``.

    With ``calls`` wake-ups are messages, as on AWS, in an order that it draws.
    """

    def __init__(
        self,
        build: Build,
        *,
        limits: Limits,
        database: Database | None = None,
        timeline: Timeline | None = None,
        calls: Random | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop), "a simulation needs virtual time: run_virtual(...)"
        self.loop = loop
        self.database: Database = database or MemoryDatabase(timeline)
        self.ledger = Ledger(self._attempted)
        self.database.watch_queues(self.ledger.allowed)
        self.counts = FaultCounts()
        self.processes: list[Process] = []
        self.clients: list[Process] = []
        self.exchange = None if calls is None else Exchange(calls)
        self._build = build
        self._limits = limits
        self._timeline = timeline

    def _attempted(self, key: str, process: str, *, excused: bool) -> None:
        if self._timeline is not None:
            self._timeline(process, f"attempts {key}")
        self.database.attempted(key, process, excused=excused)

    async def boot(self, plan: FaultPlan = NO_FAULTS, *, offset_ms: int = 0) -> Process:
        """Start a process with a new app on the shared database. It may die while it starts."""
        process = self.admit(plan, offset_ms=offset_ms)
        await process.start()
        return process

    async def client(self) -> Process:
        """Start a process that works on nothing. It is not in ``processes``."""
        process = self.admit()
        self.processes.remove(process)
        self.clients.append(process)
        process.is_client = True
        await process.start()
        return process

    def admit(self, plan: FaultPlan = NO_FAULTS, *, offset_ms: int = 0, called: bool = False) -> Process:
        """A process that has not started yet, with a new app on the shared database. A ``called`` one does nothing by
        itself.
        """
        name = f"p{len(self.processes) + len(self.clients) + 1}"
        process = Process(name, self.loop, plan, self.counts, offset_ms=offset_ms, timeline=self._timeline)
        self.processes.append(process)

        async def open_home() -> Home:
            home = on_wire(await self.database.open(process.name), process.wire)
            if self.exchange is None:
                return home
            calls = FaultyCalls(self.exchange, process.wire, process.clock)
            return replace(
                home,
                doorbell=calls,
                invoker=calls,
                writes_are_paid=True,
                reads_are_paid=True,
                pages_tear=True,
                heads_go_first=True,
                hears_peers=False,
            )

        process.app = App("simulation", home=open_home, clock=process.clock, limits=self._limits)
        process.app.telemetry = _CausesApart()
        if called:
            assert self.exchange is not None, "this world has no exchange"
            process.enter = partial(Environment, process.app, process, self.exchange)
        if self._timeline is not None:
            process.app.telemetry.subscribe(lambda event, fields: process.wire.tell(f"emits {event} {fields}"))
        process.user = self._build(process.app, self.ledger)
        process.died.add_done_callback(lambda _died: self.database.forget(process.name))
        return process

    async def quiet(self) -> None:
        """Wait until every execution has ended, no actor has anything to do, and all events have been sent."""
        while any(not is_quiet(item) for item in await self.database.items() if item.sort == HEAD):
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(LOOK_SECONDS)

    async def close(self) -> None:
        """End all processes, dead or alive."""
        if self.exchange is not None:
            self.exchange.close()
        for process in (*self.processes, *self.clients):
            process.bury()
        await self.database.close()

    def violations(self) -> list[str]:
        """The violations so far."""
        return [*self.database.violations(), *self.ledger.violations, *self._unhandled()]

    def _unhandled(self) -> list[str]:
        return [f"not handled: {each.get('message')}: {each.get('exception')!r}" for each in self.loop.unhandled]


class _CausesApart(Telemetry):
    """Counts apart the turns that failed for another reason than a store that did not answer. It is no subscriber: for
    one, sweeps would count what is due.
    """

    def emit(self, event: str, **fields: object) -> None:
        super().emit(event, **fields)
        if event == "turn_failed" and not str(fields["error"]).startswith(f"{StoreUnavailable.__name__}("):
            self.counts[STORE_ANSWERED] += 1


def is_execution(item: Item) -> bool:
    """Whether an item is the head of an execution."""
    return item.sort == HEAD and item.partition.startswith(PARTITION_PREFIX)


def swift(limits: Limits | None = None) -> Limits:
    """Limits for simulations: the real ones, except that code may take any time of the machine."""
    return replace(limits or Limits(), stalled_seconds=60.0, slice_seconds=60.0)
