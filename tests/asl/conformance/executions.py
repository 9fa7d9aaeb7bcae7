"""Executions: a definition, an input and the answers of tasks, run in virtual time on a home in memory."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.asl.conformance import objects
from tests.asl.conformance.cases import Case, Differences
from tests.asl.conformance.matching import alike, matches, parsed, same, shown
from tests.asl.conformance.mocks import Mocks

import holdfast as hf
from holdfast.asl.events import Event
from holdfast.asl.reading import events_of
from holdfast.testing import PATIENT, VirtualClock, run_virtual
from holdfast.testing.virtual_time import START_MS
from holdfast.workflows.record import partition_of

RECORDED_AT = datetime(2026, 11, 21, 3, 15, 16, tzinfo=UTC)
"""The time that relative timestamps of the cases are relative to."""

ENDS_OF_WORK = frozenset({"TaskSucceeded", "TaskFailed", "TaskTimedOut"})

ACTIVITY = "arn:aws:states:us-east-1:111111111111:activity:activity"
"""What the recorder has made ``activity_arn`` of."""


@dataclass
class Ran:
    """What an execution came to."""

    status: str
    output: Any = None
    error: str | None = None
    cause: str | None = None
    events: list[Event] = field(default_factory=list)


def check(case: Case) -> Differences:
    """Run a case, and say how it differs."""
    mocks = Mocks(case)
    ran = run_virtual(lambda: run(case, mocks))
    differences = list(_outcome(case, ran))
    if not (case.get("mocks_incomplete") or case.get("mocks_state_unknown")):
        differences += mocks.differences
        if "attempts" in case["expected"]:
            differences += _attempts(case, mocks)
        else:
            differences += [f"task {state!r} was recorded once more than called" for state in mocks.unused()]
    return [*differences, *_path(case, ran), *_retries(case, ran), *_event_types(case, ran)]


async def run(case: Case, mocks: Mocks, home: str = "memory://") -> Ran:
    """Run a case on a home."""
    clock = VirtualClock(offset_ms=int(RECORDED_AT.timestamp() * 1000) - START_MS)
    app = hf.App("conformance", home=home, clock=clock, limits=PATIENT)
    definition = json.loads(json.dumps(_json(case["definition"])).replace('"activity_arn"', f'"{ACTIVITY}"'))
    machine = app.state_machine(
        "machine",
        definition,
        tasks=mocks.tasks(definition) | objects.tasks(case),
        compat="aws",
        type=case.get("type", "STANDARD"),
    )
    async with app.worker():
        handle = await machine.start(_json(case["input"]), id="execution")
        if case["expected"]["status"] == "ABORTED":
            await asyncio.sleep(0.1)
            await handle.terminate()
        ran = await _outcome_of(handle)
        _, ran.events = await events_of(app.runtime(), partition_of("machine", "execution"))
    return ran


def _json(value: Any) -> Any:
    return parsed(value) if isinstance(value, str) else value


async def _outcome_of(handle: hf.Handle[Any]) -> Ran:
    try:
        return Ran("SUCCEEDED", await handle)
    except hf.ExecutionTimedOut:
        return Ran("TIMED_OUT")
    except hf.ExecutionTerminated:
        return Ran("ABORTED")
    except hf.ExecutionFailed as failed:
        error: Any = failed.__cause__
        if not isinstance(error, hf.asl.Error):
            return Ran("BROKEN", error=failed.error_type, cause=failed.error_message)
        return Ran("FAILED", error=error.error, cause=error.cause)


def _attempts(case: Case, mocks: Mocks) -> Differences:
    expected = case["expected"]["attempts"]
    return [] if mocks.attempts == expected else [f"attempts: expected {expected}, got {mocks.attempts}"]


def _outcome(case: Case, ran: Ran) -> Differences:
    expected, wild = case["expected"], case["expected_match"] != "exact"
    if ran.status != expected["status"]:
        return [f"status: expected {expected['status']}, got {ran.status} {ran.error}: {ran.cause}"]
    differences = []
    if "output" in expected and ran.status == "SUCCEEDED":
        chance = case["expected_match"] == "nondeterministic"
        is_alike = alike(expected["output"], ran.output) if chance else same(expected["output"], ran.output, wild=wild)
        if not is_alike:
            differences.append(f"output: expected {shown(expected['output'])}, got {shown(ran.output)}")
    if "error" in expected and not same(expected["error"], ran.error, wild=wild):
        differences.append(f"error: expected {shown(expected['error'])}, got {shown(ran.error)}: {ran.cause}")
    if expected.get("cause") is not None and not _same_cause(expected["cause"], ran.cause):
        differences.append(f"cause: expected {shown(expected['cause'])}, got {shown(ran.cause)}")
    return differences


def _same_cause(expected: Any, actual: str | None) -> bool:
    if isinstance(expected, str):
        return matches(expected, actual)
    return same(expected, parsed(actual), wild=True)


def _path(case: Case, ran: Ran) -> Differences:
    entered = [event.details["name"] for event in ran.events if event.type.endswith("StateEntered")]
    left = [[event.details["name"], event.details["output"]] for event in _exits(ran)]
    differences = []
    if "states_entered" in case and not _alike(case, case["states_entered"], entered):
        differences.append(f"states entered: expected {shown(case['states_entered'])}, got {shown(entered)}")
    chance = case["expected_match"] == "nondeterministic"
    if "state_outputs" in case and not chance and not _alike(case, case["state_outputs"], left):
        differences.append(f"outputs of states: expected {shown(case['state_outputs'])}, got {shown(left)}")
    if "assigned_variables" in case:
        assigned: dict[str, list[Any]] = defaultdict(list)
        for event in _exits(ran):
            if "assignedVariables" in event.details:
                assigned[event.details["name"]].append(event.details["assignedVariables"])
        if not same(case["assigned_variables"], dict(assigned), wild=True):
            differences.append(f"variables: expected {shown(case['assigned_variables'])}, got {shown(assigned)}")
    return differences


def _exits(ran: Ran) -> list[Event]:
    return [event for event in ran.events if event.type.endswith("StateExited")]


def _alike(case: Case, expected: list[Any], actual: list[Any]) -> bool:
    wild = case["expected_match"] != "exact"
    if case.get("states_entered_ordered", True):
        return same(expected, actual, wild=wild)
    left = list(actual)
    for each in expected:
        place = next((at for at, other in enumerate(left) if same(each, other, wild=wild)), None)
        if place is None:
            return False
        left.pop(place)
    return not left


def _event_types(case: Case, ran: Ran) -> Differences:
    """The types of a history's events; that of a stop is not of the body, but of who reads it.

    Where branches run side by side their order is not compared. Work of a branch that is aborted may have ended in the
    same moment as the one whose failure aborts it: AWS may tell that end, which never comes to the body here.
    """
    if "event_types" not in case:
        return []
    expected = [each for each in case["event_types"] if each != "ExecutionAborted"]
    actual = [event.type for event in ran.events]
    if not case.get("states_entered_ordered", True):
        untold = Counter(expected) - Counter(actual)
        if untold.keys() <= ENDS_OF_WORK and untold.total() <= expected.count("MapIterationAborted"):
            actual += untold.elements()
        expected, actual = sorted(expected), sorted(actual)
    return [] if expected == actual else [f"types of events: expected {expected}, got {actual}"]


def _retries(case: Case, ran: Ran) -> Differences:
    expected = case["expected"]
    if "retry_delays" not in expected:
        return []
    delays = []
    failed_at = None
    for event in ran.events:
        if event.type.endswith(("Failed", "TimedOut")) and "State" not in event.type:
            failed_at = event.at
        elif event.type.endswith("Scheduled") and failed_at is not None:
            delays.append(round(event.at - failed_at, 3))
    if same(expected["retry_delays"], delays, wild=False):
        return []
    return [f"delays between attempts: expected {expected['retry_delays']}, got {delays}"]
