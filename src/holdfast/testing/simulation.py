"""Scenarios, and the outcome of one run, so that runs with and without faults can be compared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from msgspec import Struct

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.items import Item
from holdfast.kernel.limits import Limits
from holdfast.replay.entries import Cancelled, Done, Entry, Failed, Received
from holdfast.testing.actor_oracles import described, is_actor
from holdfast.testing.faults import NO_FAULTS, FailBefore, FailRead, FaultCounts, FaultPlan, LoseAnswer
from holdfast.testing.ledger import Ledger
from holdfast.testing.oracles import operations_of, unrest
from holdfast.testing.process import Process, ProcessDied
from holdfast.testing.virtual_time import run_virtual
from holdfast.testing.world import STORE_ANSWERED, Build, Database, MemoryDatabase, User, World, is_execution, swift
from holdfast.workflows.record import workflow_of

MOST_INCARNATIONS: Final = 10
MOST_TRIES: Final = 100
PAUSE_SECONDS: Final = 0.1
UNAVAILABLE: Final = "the store is unavailable"


class Histories(StrEnum):
    """How the histories of two runs of a scenario compare."""

    SAME = "the same operations in the same order"
    REORDERED = "the same operations, in any order"
    FREE = "other operations may happen if there are faults"


@dataclass(frozen=True, slots=True)
class Scenario:
    """The actions of users, to be repeated under faults.

    ``check`` gets the ledger of each run and returns what is wrong with it. ``database`` makes the shared database of
    one run. ``effects_depend_on_time`` says that in a slow world other effects take place. ``has_client``: the user is
    in a process of its own, without faults, and does not start again. ``alone``: it does not mix with others in a
    swarm, because it needs its client, or its database, or a user that does not come again much later. ``ends_vary``:
    its users decide how its executions end, and with which effects; only ``check`` can judge. ``later`` builds the code
    of processes of a swarm that start later; the last of it fits whatever any other has begun. ``unsteady``: its
    database refuses requests and loses answers by itself, so that a turn may fail by that, and runs differ in their
    writes.
    """

    name: str
    build: Build
    limits: Limits = field(default_factory=swift)
    histories: Histories = Histories.SAME
    patience_seconds: float = 3_600.0
    check: Callable[[Ledger], list[str]] = lambda _ledger: []
    database: Callable[[], Database] = MemoryDatabase
    effects_depend_on_time: bool = False
    has_client: bool = False
    alone: bool = False
    ends_vary: bool = False
    later: Sequence[Build] = ()
    unsteady: bool = False

    def __str__(self) -> str:
        return self.name


class Observation(Struct, frozen=True):
    """The outcome of a run: the user's result, how each execution ended, its history, its effects, and the end of each
    actor.
    """

    result: str
    statuses: dict[str, str]
    operations: dict[str, list[str]]
    accepted: dict[str, Any]
    actors: dict[str, str]

    def differences(self, other: Observation, histories: Histories) -> list[str]:
        """The differences of ``other`` from this one, in words."""
        found: list[str] = []
        if self.result != other.result:
            found.append(f"the user got {other.result}, not {self.result}")
        if self.statuses != other.statuses:
            found.append(f"statuses are {other.statuses}, not {self.statuses}")
        if self.accepted != other.accepted:
            found.append(f"effects are {other.accepted}, not {self.accepted}")
        if self.actors != other.actors:
            found.append(f"actors are {other.actors}, not {self.actors}")
        for partition, operations in self.operations.items():
            others = other.operations.get(partition, [])
            if histories is Histories.REORDERED:
                operations, others = sorted(operations), sorted(others)  # noqa: PLW2901 - compared like this
            if operations != others and histories is not Histories.FREE:
                found.append(f"the history of {partition} is {others}, not {operations}")
        return found


class Run(Struct, frozen=True):
    """One run: its outcome, its violations, and how many writes each process made."""

    observation: Observation
    violations: list[str]
    writes: list[int]
    faults: FaultCounts
    events: Counter[str]
    """How often each event of telemetry was emitted, by all processes together."""


def run_scenario(scenario: Scenario, plans: Sequence[FaultPlan] = (), *, seed: int | None = None) -> Run:
    """Run a scenario in one process after another, each with its plan, until one brings it to its end."""
    return run_virtual(lambda: _run(scenario, plans), seed=seed)


async def _run(scenario: Scenario, plans: Sequence[FaultPlan]) -> Run:
    world = World(scenario.build, limits=scenario.limits, database=scenario.database())
    violations: list[str] = []
    result = "nothing"
    try:
        async with asyncio.timeout(scenario.patience_seconds):
            user = await Visitor.of(world) if scenario.has_client else None
            for number in range(MOST_INCARNATIONS):
                try:
                    process = await world.boot(plans[number] if number < len(plans) else NO_FAULTS)
                    result = await (told(process) if user is None else user.told(process))
                    await alive(process, world)
                    await process.stop()
                    break
                except ProcessDied:
                    continue
            if user is not None:
                await user.leave()
    except TimeoutError:
        violations.append(f"it had not ended after {scenario.patience_seconds:,.0f} virtual seconds (G1)")
    return await conclude(world, scenario, result, violations)


async def told(process: Process, user: User | None = None) -> str:
    """The user's answer from the process: a result or an error, as text. The user tries again while the store is
    unavailable.
    """
    for _ in range(MOST_TRIES):
        try:
            return repr(await process.call(user or process.user))
        except StoreUnavailable:
            await asyncio.sleep(PAUSE_SECONDS)
        except HoldfastError as error:
            return f"{type(error).__name__}: {error}"
    return UNAVAILABLE


class Visitor:
    """A user in a process of its own. It asks once, and waits for any worker."""

    def __init__(self, client: Process) -> None:
        self._client = client
        self._answer = asyncio.create_task(told(client))

    @classmethod
    async def of(cls, world: World) -> Self:
        """A new user."""
        return cls(await world.client())

    async def told(self, worker: Process) -> str:
        """The user's result; raises ``ProcessDied`` if the worker dies first."""
        both: set[asyncio.Future[Any]] = {self._answer, worker.died}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not self._answer.done():
            raise ProcessDied(f"process {worker} died")
        return await self._answer

    async def leave(self) -> None:
        await self._client.stop()


async def alive(process: Process, world: World) -> None:
    """Wait until everything has ended, or the process dies."""
    await process.call(world.quiet)


async def conclude(world: World, scenario: Scenario, result: str, violations: list[str]) -> Run:
    """Check what is left, and close the world."""
    items = await world.database.items()
    everybody = (*world.processes, *world.clients)
    lasting = [item for item in items if not any(_has_retention(item, each) for each in everybody[:1])]
    events = sum((process.app.telemetry.counts for process in everybody), Counter[str]())
    violations = [
        *violations,
        *world.violations(),
        *unrest(items),
        *scenario.check(world.ledger),
        *_complaints(events, world.counts, scenario),
        *(f"{process} left {task} behind" for process in everybody for task in process.unfinished()),
    ]
    run = Run(
        observation=Observation(
            result=result,
            statuses={item.partition: item.status for item in lasting if is_execution(item) or is_actor(item)},
            operations=_histories(lasting),
            accepted=dict(world.ledger.accepted),
            actors=described(items),
        ),
        violations=violations,
        writes=[process.wire.writes for process in world.processes],
        faults=world.counts,
        events=events,
    )
    await world.close()
    return run


def expires(item: Item) -> bool:
    """Whether this is an execution that has ended and is deleted soon; the time depends on the length of a run."""
    return is_execution(item) and item.expires_at is not None


def _has_retention(item: Item, process: Process) -> bool:
    """Whether this is an execution that is deleted some time after its end, perhaps before a run is checked."""
    workflow = process.app.registry.workflows.get(workflow_of(item.partition)) if is_execution(item) else None
    return workflow is not None and workflow.policy.retention_ms is not None


def _complaints(events: Counter[str], faults: FaultCounts, scenario: Scenario) -> list[str]:
    """What the engine itself reports, without a cause in the scenario."""
    reasons = sum(faults.counts[each.__name__] for each in (FailBefore, LoseAnswer, FailRead))
    alarming = ["beat_failed", "unhandled", STORE_ANSWERED]
    if not scenario.later:
        alarming.append("blocked")
    if not (reasons or scenario.unsteady):
        alarming.append("turn_failed")
    return [f"telemetry had {events[each]} times: {each}" for each in alarming if events[each]]


def _histories(items: Sequence[Item]) -> dict[str, list[str]]:
    entities: dict[str, list[Item]] = {}
    for item in items:
        entities.setdefault(item.partition, []).append(item)
    return {
        head.partition: [line for entry in operations_of(entities[head.partition], head) if (line := _line(entry))]
        for head in items
        if is_execution(head)
    }


def _line(entry: Entry) -> str:
    match entry:
        case Done(op=op, kind=kind):
            return f"{kind} {op} done"
        case Failed(op=op, kind=kind, error=error):
            return f"{kind} {op} failed: {error.type}"
        case Received(name=name):
            return f"received {name}"
        case Cancelled(timed_out=timed_out):
            return "timed out" if timed_out else "cancelled"
        case _:
            return ""  # attempts, intents and heartbeats may differ: they are events, not outcomes
