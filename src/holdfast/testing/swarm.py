"""A swarm: scenarios that run concurrently in a few processes, under faults drawn from a seed.

Each seed draws how many processes share the store, their limits and clocks, which scenarios run and when their users
start, which faults are on and how strong. While the chaos lasts, processes crash, are stopped and resumed, and the
store and the doorbell misbehave. Then the world heals, and everything must end as in an undisturbed run (G1).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final

from msgspec import Struct

from holdfast import ids
from holdfast.app import App
from holdfast.kernel.limits import Limits
from holdfast.testing import happenings
from holdfast.testing.chaos import LONGEST_DELAY_LEASES, Chaos
from holdfast.testing.deploys import Deploys
from holdfast.testing.faults import EVERY_FAULT, FaultCounts
from holdfast.testing.happenings import Happening
from holdfast.testing.ledger import Ledger
from holdfast.testing.process import ProcessDied
from holdfast.testing.simulation import UNAVAILABLE, Histories, Run, Scenario, conclude, run_scenario, told
from holdfast.testing.virtual_time import Timeline, run_virtual
from holdfast.testing.world import Build, Database, MemoryDatabase, User, World, swift
from holdfast.workflows.record import PARTITION_PREFIX, workflow_of

CHAOS_SECONDS: Final = 90.0
HEALING_SECONDS: Final = 3_600.0
LEASE_SECONDS: Final = 5.0
LATEST_WRITE_SECONDS: Final = 2 * LONGEST_DELAY_LEASES * LEASE_SECONDS
"""How long a write, and its answer, may be under way."""

MOST_SCENARIOS: Final = 5
TWIN_SHARE: Final = 0.3
"""How often two users do the same at the same time, in two processes."""

CALLS_SHARE: Final = 0.3
"""How often wake-ups are messages, and some processes exist only when they are invoked."""

MOST_FAILURES_TOLD: Final = 5


class SwarmRun(Struct, frozen=True):
    """The result of one seed."""

    seed: int
    scenarios: tuple[str, ...]
    processes: int
    violations: list[str]
    faults: FaultCounts
    events: Counter[str]
    happened: Counter[Happening]
    schedule: str
    """A digest of all attempts, with process and time: two seeds with the same digest have tested the same thing."""

    def __str__(self) -> str:
        what = f"seed {self.seed} ({', '.join(self.scenarios)}; {self.faults})"
        return "\n    ".join((what, *self.violations))


class SwarmReport(Struct, frozen=True):
    """The results of many seeds."""

    seeds: int
    schedules: frozenset[str]
    processes: int
    faults: FaultCounts
    events: Counter[str]
    happened: Counter[Happening]
    failures: list[SwarmRun]

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {len(self.schedules)} different schedules, {self.processes} processes; "
            f"{self.faults}; {self.events['claimed']} claims, {self.events['fenced']} fenced; "
            f"{happenings.told(self.happened)}; {len(self.failures)} seeds failed"
        )

    def require_success(self) -> None:
        """Fail with the first few seeds that failed, if there are any."""
        if self.failures:
            told = "\n  ".join(map(str, self.failures[:MOST_FAILURES_TOLD]))
            raise AssertionError(
                f"{self}\n  {told}\nTo see what happened: run_swarm(scenarios, [seed], timeline=print)"
            )

    def require_every_fault(self, minimum: int = 1) -> None:
        """Fail unless each class of fault has happened at least ``minimum`` times: else nothing was proven."""
        self.faults.require(minimum, *EVERY_FAULT)

    def require_every_happening(self, minimum: int = 1) -> None:
        """Fail unless users and operators have done each of their actions at least ``minimum`` times."""
        happenings.require(minimum, self.happened)


def run_swarm(scenarios: Sequence[Scenario], seeds: Iterable[int], *, timeline: Timeline | None = None) -> SwarmReport:
    """Run the seeds. Each draws some of the scenarios and their faults. Prints what it covered.

    Fails if a user got another result than without faults, if an execution or an effect differs, if a guarantee that
    ``oracles`` watches was broken, or if anything had not ended long after the faults did. The same seed gives the same
    run; ``timeline`` gets its events.
    """
    report = run_seeds(expectations(scenarios), seeds, timeline)
    print(report)
    report.require_success()
    return report


class Expectation(Struct, frozen=True):
    """The outcome of a scenario without faults."""

    scenario: Scenario
    names: frozenset[str]
    result: str
    statuses: dict[str, str]
    accepted: dict[str, Any]
    actors: dict[str, str]


def expectations(scenarios: Sequence[Scenario]) -> tuple[Expectation, ...]:
    """Run each scenario that mixes with others undisturbed, once for all seeds."""
    found: list[Expectation] = []
    for scenario in (each for each in scenarios if not each.alone):
        names = frozenset[str]().union(*(_names(build) for build in (scenario.build, *scenario.later)))
        seen = run_scenario(scenario).observation
        found.append(Expectation(scenario, names, seen.result, seen.statuses, seen.accepted, seen.actors))
    return tuple(found)


def _names(build: Build) -> frozenset[str]:
    app = App("names")
    build(app, Ledger())
    known = app.registry
    return frozenset({*known.workflows, *known.steps, *known.actors, *(event for event, _ in known.consumers)})


def run_seeds(
    pool: Sequence[Expectation],
    seeds: Iterable[int],
    timeline: Timeline | None = None,
    *,
    billed: bool = False,
    database: Callable[[], Database] | None = None,
) -> SwarmReport:
    """``run_swarm``, without output, for scenarios that have been run undisturbed. ``billed``: each write is paid for
    in every seed, and not only in some. ``database`` makes the shared database of one seed, which may be
    ``unsteady``; left out: one in memory.
    """
    return together(_report_of(run_seed(pool, seed, timeline, billed=billed, database=database)) for seed in seeds)


def _report_of(run: SwarmRun) -> SwarmReport:
    failures = [run] if run.violations else []
    schedules = frozenset((run.schedule,))
    return SwarmReport(1, schedules, run.processes, run.faults, run.events, run.happened, failures)


def together(reports: Iterable[SwarmReport]) -> SwarmReport:
    """One report of many."""
    faults, events, happened = FaultCounts(), Counter[str](), Counter[Happening]()
    schedules = set[str]()
    failures: list[SwarmRun] = []
    seeds = processes = 0
    for each in reports:
        seeds += each.seeds
        processes += each.processes
        faults.add(each.faults)
        events.update(each.events)
        happened.update(each.happened)
        schedules |= each.schedules
        failures += each.failures
    return SwarmReport(seeds, frozenset(schedules), processes, faults, events, happened, failures)


def run_seed(
    pool: Sequence[Expectation],
    seed: int,
    timeline: Timeline | None = None,
    *,
    billed: bool = False,
    database: Callable[[], Database] | None = None,
) -> SwarmRun:
    """Run one seed. A run that cannot continue at all has failed."""

    async def run() -> SwarmRun:
        shared = MemoryDatabase(timeline, billed=billed) if database is None else database()
        return await _Swarm(pool, seed, timeline, shared, unsteady=database is not None).run()

    try:
        return run_virtual(run, seed=seed)
    except AssertionError as error:
        return SwarmRun(seed, (), 0, [f"{type(error).__name__}: {error}"], FaultCounts(), Counter(), Counter(), "")


def calls_of(seed: int) -> Random | None:
    """The generator for the order of messages and the invoked process, in worlds where wake-ups are messages."""
    drawn = Random(f"calls of {seed}")
    return drawn if drawn.random() < CALLS_SHARE else None


class _Swarm:
    def __init__(
        self,
        pool: Sequence[Expectation],
        seed: int,
        timeline: Timeline | None,
        database: Database,
        *,
        unsteady: bool,
    ) -> None:
        self._unsteady = unsteady
        self._seed = seed
        self._random = random = Random(seed)
        fitting = _disjoint(random.sample(pool, k=len(pool)))
        self._chosen = fitting[: random.randint(min(2, len(fitting)), MOST_SCENARIOS)]
        limits = Limits(
            lease_ms=int(LEASE_SECONDS * 1000),
            called_lease_ms=int(LEASE_SECONDS * 1000),
            sweep_seconds=LEASE_SECONDS / 2,
            linger_seconds=random.choice((0.0, 0.2)),
            resident=random.choice((0, 20_000)),
            running=random.choice((3, 2_000)),
            most_deaths=1_000,  # chaos ends processes, not the code
        )
        self._begin_within_seconds = random.choice((5.0, 40.0))
        self._users: dict[App, dict[str, User]] = {}
        self._deploys = Deploys([each.scenario for each in self._chosen], seed)
        calls = calls_of(seed)
        self._world = World(self._build, limits=swift(limits), database=database, timeline=timeline, calls=calls)
        self._chaos = Chaos(random, self._world, LEASE_SECONDS, calls)

    def _build(self, app: App, ledger: Ledger) -> User:
        self._users[app] = self._deploys.build(app, ledger)

        async def nobody() -> None:
            raise AssertionError("each scenario has a user of its own")

        return nobody

    async def run(self) -> SwarmRun:
        violations: list[str] = []
        self._chaos.begin()
        doing = [each for each in self._chosen for _ in range(1 + (self._random.random() < TWIN_SHARE))]
        users = [asyncio.create_task(self._use(each)) for each in doing]
        try:
            await asyncio.wait(users, timeout=CHAOS_SECONDS)
            self._chaos.heal(self._deploys.finish(self._world.processes))
            async with asyncio.timeout(HEALING_SECONDS):
                for user, expected in zip(users, doing, strict=True):
                    violations += _wrong(await user, expected)
                await self._world.quiet()
                await asyncio.sleep(LATEST_WRITE_SECONDS)  # writes of dead processes may still be on their way
                await self._world.quiet()
                await self._chaos.end()
        except TimeoutError:
            violations.append(f"it had not ended {HEALING_SECONDS:,.0f} virtual seconds after the faults (G1)")
        self._chaos.abandon()
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        later = self._deploys.later
        name, unsteady = f"seed {self._seed}", self._unsteady
        mixture = Scenario(name, self._build, histories=Histories.FREE, later=later, unsteady=unsteady)
        run = await conclude(self._world, mixture, "", [*violations, *self._chaos.violations])
        if self._world.exchange is not None:
            run.events["invoked"] = self._world.exchange.invocations
        return SwarmRun(
            seed=self._seed,
            scenarios=tuple(each.scenario.name for each in doing),
            processes=len(self._world.processes),
            violations=[*run.violations, *self._differences(run)],
            faults=run.faults,
            events=run.events,
            happened=self._happened(run),
            schedule=ids.fingerprint(repr(self._world.ledger.log).encode()),
        )

    def _happened(self, run: Run) -> Counter[Happening]:
        return self._world.ledger.happened + Counter({Happening.BLOCKED: run.events["blocked"]})

    def _differences(self, run: Run) -> list[str]:
        found: list[str] = []
        unexpected = dict(run.observation.accepted)
        for expected in self._chosen:
            scenario = expected.scenario
            statuses = _of(expected, run.observation.statuses, expected.statuses)
            if statuses != expected.statuses and not scenario.ends_vary:
                found.append(f"{scenario}: statuses are {statuses}, not {expected.statuses}")
            accepted = _of(expected, run.observation.accepted, expected.accepted)
            unexpected = {key: value for key, value in unexpected.items() if key not in accepted}
            if accepted != expected.accepted and not (scenario.effects_depend_on_time or scenario.ends_vary):
                found.append(f"{scenario}: effects are {accepted}, not {expected.accepted}")
            actors = {name: run.observation.actors.get(name) for name in expected.actors}
            if actors != expected.actors:
                found.append(f"{scenario}: actors are {actors}, not {expected.actors}")
            if self._chaos.clocks_are_right:
                found += scenario.check(self._world.ledger.part(scenario.name))
        if unexpected:
            found.append(f"these effects were not expected: {unexpected}")
        return found

    async def _use(self, expected: Expectation) -> str:
        """A user that calls any running process, and another one when that is gone."""
        await asyncio.sleep(self._random.uniform(0, self._begin_within_seconds))
        while True:
            able = [process for process in self._world.processes if process.is_open]
            if not able:
                await asyncio.sleep(0.5)
                continue
            process = self._random.choice(able)
            try:
                answer = await told(process, self._users[process.app][expected.scenario.name])
            except ProcessDied:
                continue
            if not process.leaving and answer != UNAVAILABLE:
                return answer


def _of(expected: Expectation, found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """What belongs to a scenario: its expected outcome, and everything else that its workflows did."""
    return {
        key: value
        for key, value in found.items()
        if key in wanted or (key.startswith(PARTITION_PREFIX) and workflow_of(key) in expected.names)
    }


def _disjoint(pool: Sequence[Expectation]) -> list[Expectation]:
    """The scenarios that fit into one app: no two of them use one name for different things."""
    chosen: list[Expectation] = []
    taken: set[str] = set()
    for each in pool:
        if not taken & each.names:
            chosen.append(each)
            taken |= each.names
    return chosen


def _wrong(result: str, expected: Expectation) -> list[str]:
    if result == expected.result:
        return []
    return [f"{expected.scenario}: the user got {result}, not {expected.result}"]
