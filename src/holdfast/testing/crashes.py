"""Every place at which a process can die, be stopped, or lose its store's answers, one after the other.

A scenario runs once undisturbed, to count its writes and to record its outcome. Then it runs again for every write and
every fault: the outcome must be the same. The places are enumerated, not sampled.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.record import PARTITION_PREFIX, REPLY_PREFIX, decode_record, encode_record
from holdfast.coordination.stream.record import PARTITION_PREFIX as STREAM_PREFIX
from holdfast.coordination.stream.record import SNAPSHOT_PREFIX
from holdfast.flow.record import PREFIX as QUEUE_PREFIX
from holdfast.items import HEAD, Item
from holdfast.keys import EXECUTIONS, LIMITS
from holdfast.messaging.bus_queue import PARTITION_PREFIX as BUS_PREFIX
from holdfast.messaging.outbox import PARTITION_PREFIX as OUTBOX_PREFIX
from holdfast.references import reference_in
from holdfast.replay.entries import TakenOver, decode_entries
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.testing.faults import (
    CrashAfter,
    CrashBefore,
    Delay,
    DelayRead,
    FailBefore,
    FaultCounts,
    FaultsAt,
    LoseAnswer,
    PauseAfter,
    PauseBefore,
    ReadFault,
    WriteFault,
)
from holdfast.testing.process import Process
from holdfast.testing.simulation import Run, Scenario, Visitor, conclude, expires, run_scenario, told
from holdfast.testing.virtual_time import run_virtual
from holdfast.testing.world import World
from holdfast.workflows.record import decode_record as decode_execution

FAULTS: Final[tuple[WriteFault, ...]] = (CrashBefore(), CrashAfter(), LoseAnswer(), FailBefore())
CRASHES: Final[tuple[WriteFault, ...]] = (CrashBefore(), CrashAfter())
PAUSES: Final[tuple[WriteFault, ...]] = (PauseBefore(), PauseAfter())

DELAYS: Final[tuple[WriteFault, ...]] = (
    Delay(before_seconds=20.0),
    Delay(after_seconds=12.0),
    Delay(after_seconds=20.0),
)
"""Long ones: by default one within a lease, so that the sweep runs meanwhile, the others beyond it."""

LAG_LEASES: Final = 3
LAG_OF_READS_SECONDS: Final = 0.05
AFTERLIFE_LEASES: Final = 3
"""For how many leases a zombie may try to do harm after it was resumed."""

MOST_FAILURES_TOLD: Final = 5


class Report(Struct, frozen=True):
    """What an enumeration covered, and what went wrong."""

    scenario: str
    what: str
    writes: int
    points: int
    faults: FaultCounts
    events: Counter[str]
    failures: list[str]

    def __str__(self) -> str:
        told = f"{self.scenario}: {self.what} at each of {self.writes} writes: {self.points} points"
        return f"{told}, {self.events['fenced']} fenced, {len(self.failures)} divergent"

    def require_success(self) -> None:
        """Fail with the first few failures, if there are any."""
        if self.failures:
            told = "\n  ".join(self.failures[:MOST_FAILURES_TOLD])
            raise AssertionError(f"{self}\n  {told}")


def crash_at_every_write(
    scenario: Scenario,
    faults: Sequence[WriteFault] = FAULTS,
    *,
    most_points: int | None = None,
    in_turn: bool = False,
) -> Report:
    """Apply each of ``faults`` at each write of the first process, and compare with the undisturbed run.

    ``most_points`` is for homes so slow that all points would take too long: of more points it plays a sample, always
    the same one. ``in_turn`` is for what is played in other ways too: one of the faults at each write, and the next one
    at the next write.

    Prints what it covered. Fails if any run differs in its result, statuses, histories or accepted effects, breaks a
    guarantee that ``oracles`` watches, or does not end; at the fifth of them at once.
    """
    return _told(_enumerate(scenario, faults, most_points, in_turn=in_turn))


def crash_twice(scenario: Scenario) -> Report:
    """Crash at each write, and again at each write of the recovery: all pairs."""
    base = undisturbed(scenario)
    tally = _Tally(scenario, base, "two crashes")
    for number in range(1, base.writes[0] + 1):
        for first in CRASHES:
            recovery = run_scenario(scenario, (FaultsAt({number: first}),))
            writes = recovery.writes[1] if len(recovery.writes) > 1 else 0
            for again in range(1, writes + 1):
                for second in CRASHES:
                    plans = (FaultsAt({number: first}), FaultsAt({again: second}))
                    place = f"{_name(first)} {number}, then {_name(second)} {again} of the recovery"
                    tally.add(run_scenario(scenario, plans), place, expected=2)
    return _told(tally.report())


def pause_at_every_write(scenario: Scenario, *, in_turn: bool = False) -> Report:
    """Stop the first process at each write until its leases have lapsed and a second process has finished everything.

    Then it continues, with its memory as it was: it must not change anything any more (G3, G9). It is stopped before
    the write and after it; ``in_turn`` before one, and after the next.
    """
    base = undisturbed(scenario)
    tally = _Tally(scenario, base, "a zombie")
    for number, fault in _points(scenario, base, PAUSES, in_turn=in_turn):
        run = run_virtual(lambda: _run_with_zombie(scenario, FaultsAt({number: fault})))  # noqa: B023 - it runs here and now
        tally.add(run, f"{_name(fault)} {number}", expected=1)
    return _told(tally.report())


def lag_at_every_write(scenario: Scenario) -> Report:
    """Delay the store's answers to the first process, from each of its writes on, until its leases have lapsed.

    A second one finishes everything meanwhile. The first was never stopped, and its last write was applied: it must
    find out before it does anything more, in the store or outside (G2, G3).
    """
    base = undisturbed(scenario)
    tally = _Tally(scenario, base, "a lag from")
    for number in range(1, base.writes[0] + 1):
        run = run_virtual(lambda: _run_with_laggard(scenario, number))  # noqa: B023 - it runs here and now
        tally.add(run, f"lag from write {number}", expected=None)
    return _told(tally.report())


def undisturbed(scenario: Scenario) -> Run:
    """The run with which all others are compared. It must itself be without error."""
    base = run_scenario(scenario)
    if base.violations:
        raise AssertionError(f"{scenario}: even undisturbed: {'; '.join(base.violations)}")
    return base


def _points(
    scenario: Scenario, base: Run, faults: Sequence[WriteFault], *, in_turn: bool
) -> list[tuple[int, WriteFault]]:
    """Each write with each fault, or with one of them: which one the first write has depends on the scenario."""
    numbers = range(1, base.writes[0] + 1)
    if in_turn:
        first = crc32(scenario.name.encode())
        return [(number, faults[(first + number) % len(faults)]) for number in numbers]
    return [(number, fault) for number in numbers for fault in faults]


def _enumerate(scenario: Scenario, faults: Sequence[WriteFault], most_points: int | None, *, in_turn: bool) -> Report:
    base = undisturbed(scenario)
    tally = _Tally(scenario, base, "/".join(type(fault).__name__ for fault in faults))
    points = _points(scenario, base, faults, in_turn=in_turn)
    if most_points is not None and most_points < len(points):
        points = Random(scenario.name).sample(points, most_points)
    for number, fault in points:
        tally.add(run_scenario(scenario, (FaultsAt({number: fault}),)), f"{_name(fault)} {number}", expected=1)
    return tally.report()


class _Tally:
    def __init__(self, scenario: Scenario, base: Run, what: str) -> None:
        self._scenario = scenario
        self._base = base
        self._what = what
        self._points = 0
        self._faults = FaultCounts()
        self._events = Counter[str]()
        self._failures: list[str] = []

    def add(self, run: Run, place: str, *, expected: int | None) -> None:
        self._points += 1
        self._events += run.events
        self._faults.add(run.faults)
        wrong = [*run.violations]
        if not self._scenario.ends_vary:
            wrong += self._base.observation.differences(run.observation, self._scenario.histories)
        happened = run.faults.counts.total()
        if expected is not None and happened != expected and not (self._scenario.unsteady and happened < expected):
            wrong.append(f"{happened} faults happened, not {expected}: the runs are not alike")
        if wrong:
            self._failures.append(f"{place}: {'; '.join(wrong)}")
        if len(self._failures) == MOST_FAILURES_TOLD:  # more would not be told
            _told(self.report())

    def report(self) -> Report:
        return Report(
            self._scenario.name,
            self._what,
            self._base.writes[0],
            self._points,
            self._faults,
            self._events,
            self._failures,
        )


def _told(report: Report) -> Report:
    print(report)
    report.require_success()
    return report


def _name(fault: WriteFault) -> str:
    return f"{type(fault).__name__} write"


# ── Zombies and laggards ────────────────────────────────────────────────────────────────────────────────────────────


async def _run_with_zombie(scenario: Scenario, plan: FaultsAt) -> Run:
    world = World(scenario.build, limits=scenario.limits, database=scenario.database())
    zombie = world.admit(plan)
    return await _overtake(world, scenario, zombie, zombie.stopped, zombie.resume)


async def _run_with_laggard(scenario: Scenario, number: int) -> Run:
    lag = _Lag(number, LAG_LEASES * scenario.limits.lease_ms / 1000)
    world = World(scenario.build, limits=scenario.limits, database=scenario.database())
    return await _overtake(world, scenario, world.admit(lag), lag.began, lag.end)


class _Lag(FaultsAt):
    """From one write on, everything that a process sends takes ``seconds``, or its answer does.

    Its reads take a moment, so that it starts its work before it finds out.
    """

    def __init__(self, number: int, seconds: float) -> None:
        super().__init__()
        self.began = asyncio.Event()
        self._number = number
        self._seconds = seconds
        self._ended = False

    def end(self) -> None:
        self._ended = True

    def on_write(self, number: int) -> WriteFault | None:
        if self._ended or number < self._number:
            return None
        self.began.set()
        return Delay(after_seconds=self._seconds) if number == self._number else Delay(before_seconds=self._seconds)

    def on_read(self) -> ReadFault | None:
        return DelayRead(LAG_OF_READS_SECONDS) if self.began.is_set() else None


async def _overtake(
    world: World, scenario: Scenario, late: Process, begun: asyncio.Event, end: Callable[[], None]
) -> Run:
    """Let another process finish everything once the fault of ``late`` has begun; then it ends."""
    violations: list[str] = []
    result = "nothing"
    try:
        async with asyncio.timeout(scenario.patience_seconds):
            user = await Visitor.of(world) if scenario.has_client else None
            living = asyncio.create_task(_live(late, world, user))
            await _first_of(begun.wait(), living)
            with suppress(TimeoutError):  # or it writes once there is nothing left to do
                async with asyncio.timeout(scenario.limits.lease_ms / 1000):
                    await begun.wait()
            heir = await world.boot()
            result = await (told(heir) if user is None else user.told(heir))
            await heir.call(world.quiet)
            before = await world.database.items()
            end()
            await asyncio.sleep(AFTERLIFE_LEASES * scenario.limits.lease_ms / 1000)
            if changed := _changes(before, await world.database.items()):
                violations.append(f"the resumed process changed what the other had finished: {changed} (G3)")
            if (its_result := await living) != result:
                violations.append(f"the resumed process gave its user {its_result}, not {result}")
            await late.stop()
            await heir.stop()
            if user is not None:
                await user.leave()
    except TimeoutError:
        violations.append(f"it had not ended after {scenario.patience_seconds:,.0f} virtual seconds (G1)")
    return await conclude(world, scenario, result, violations)


async def _live(process: Process, world: World, user: Visitor | None) -> str:
    await process.start()
    result = await (told(process) if user is None else user.told(process))
    await process.call(world.quiet)
    return result


async def _first_of(waiting: Coroutine[Any, Any, object], living: asyncio.Task[str]) -> None:
    stopped = asyncio.create_task(waiting)
    await asyncio.wait({stopped, living}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


def _changes(before: Sequence[Item], after: Sequence[Item]) -> list[str]:
    """The changes in substance. Expired items may be gone meanwhile, and what earlier runs have left; that is none."""
    expiring = {item.partition for item in before if expires(item)}
    left_over = set(_left_over(before))
    old, new = _substance(before), _substance(after)
    gone = {
        item for item in old - new if item.partition not in expiring and (item.partition, item.sort) not in left_over
    }
    return sorted(f"{item.partition} {item.sort}" for item in gone | (new - old))


def _left_over(items: Iterable[Item]) -> Iterator[tuple[str, str]]:
    """The places that the next run of an execution may empty, and one that is stopped meanwhile later: the segments of
    earlier runs behind the last fence there.
    """
    runs: dict[str, int] = {}
    fenced: dict[tuple[str, int], str] = {}
    segments: list[tuple[str, int, str]] = []
    for item in items:
        if item.sort == HEAD and item.partition.startswith(EXECUTIONS) and reference_in(item.body) is None:
            runs[item.partition] = decode_execution(item.body).run
        elif item.sort.startswith(SEGMENT_PREFIX):
            run = int(item.sort.removeprefix(SEGMENT_PREFIX).partition("#")[0])
            segments.append((item.partition, run, item.sort))
            if all(isinstance(entry, TakenOver) for entry in decode_entries(item.body)):
                fenced[item.partition, run] = max(item.sort, fenced.get((item.partition, run), ""))
    for partition, run, sort in segments:
        if run < runs.get(partition, 0) and sort > fenced.get((partition, run), ""):
            yield partition, sort


def _substance(items: Iterable[Item]) -> frozenset[Item]:
    """The items, without segments that only fence off others: a late terminate() may still write one. Also without the
    leases and versions of actors, outboxes and queues, and replies: a late call or delivery is answered or recognised,
    and changes nothing else. Also without snapshots of streams, which any process may make at any time, and without
    loans of limits: a process that was stopped looks what it may use.
    """
    versioned = (PARTITION_PREFIX, OUTBOX_PREFIX, BUS_PREFIX, QUEUE_PREFIX)
    return frozenset(
        _without_hold(item) if item.partition.startswith(versioned) else item
        for item in items
        if not (item.sort.startswith(SEGMENT_PREFIX) and _only_fences(item))
        if not (item.sort.startswith(REPLY_PREFIX) and item.partition.startswith(PARTITION_PREFIX))
        if not item.partition.startswith(LIMITS)
        if not (item.sort.startswith(SNAPSHOT_PREFIX) and item.partition.startswith(STREAM_PREFIX))
    )


def _only_fences(segment: Item) -> bool:
    return all(isinstance(entry, TakenOver) for entry in decode_entries(segment.body))


def _without_hold(item: Item) -> Item:
    if item.sort != HEAD:
        return replace(item, expires_at=None)
    body = item.body
    if item.partition.startswith(PARTITION_PREFIX) and body:
        body = encode_record(replace(decode_record(body), left_by="", departing=False, replies={}))
    return Item(item.partition, item.sort, body=body)
