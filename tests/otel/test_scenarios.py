"""The spans of every scenario are those that its journals tell, without faults and with a crash at its writes."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from tests.otel.conftest import Collected
from tests.scenarios import ACTOR_SCENARIOS, EVENT_SCENARIOS, SCENARIOS, SWARM_SCENARIOS, scenario

import holdfast as hf
from holdfast.items import Item
from holdfast.otel.backfill import spans_in
from holdfast.otel.spans import Span
from holdfast.replay.entries import decode_entries
from holdfast.testing import FaultsAt, Scenario
from holdfast.testing.faults import CrashAfter, CrashBefore
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import MOST_INCARNATIONS, run_scenario
from holdfast.testing.world import User, is_execution
from holdfast.workflows.record import decode_record

ALL = (*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS, *SWARM_SCENARIOS)
CRASHES = 3
"""Of each scenario, at so many of its writes a process dies."""


class Watched:
    """One run of a scenario whose apps are traced."""

    def __init__(self, each: Scenario, plans: tuple[Any, ...] = ()) -> None:
        self.collected, self.apps = Collected(), list[hf.App]()
        database = each.database()
        seen = _replaced(
            each, database, partial(self._build, each.build), [partial(self._build, one) for one in each.later]
        )
        self.run = run_scenario(seen, plans)
        self.emitted = self.collected.spans(*self.apps)
        self.items = database.last

    def _build(self, build: Any, app: hf.App, ledger: Ledger) -> User:
        self.collected.trace(app)
        self.apps.append(app)
        return build(app, ledger)

    def told(self) -> list[Span]:
        """What the journals of the executions say that are there now."""
        return [span for head in self.items if is_execution(head) for span in told_by(head, self.items)]


def _replaced(each: Scenario, database: Any, build: Any, later: list[Any]) -> Scenario:
    items = database.items

    async def kept() -> list[Item]:
        database.last = await items()
        return database.last

    database.items = kept
    names = {name: getattr(each, name) for name in each.__slots__}
    return Scenario(**{**names, "build": build, "later": later, "database": lambda: database})


def told_by(head: Item, items: list[Item]) -> list[Span]:
    record = decode_record(head.body)
    segments = [
        item for item in items if item.partition == head.partition and item.sort.startswith(f"j#{record.run:06d}#")
    ]
    entries = [entry for item in sorted(segments, key=lambda each: each.sort) for entry in decode_entries(item.body)]
    return spans_in(head, record, [*entries, *record.tail])


def of_told(span: Span) -> tuple[Any, ...]:
    return (
        span.trace,
        span.id,
        span.parent,
        span.name,
        span.begins,
        span.ends,
        span.error,
        tuple(sorted(span.attributes.items())),
    )


def of_emitted(span: ReadableSpan) -> tuple[Any, ...]:
    attributes = dict(span.attributes or {})
    error = attributes.pop("error.type", "")
    parent = "" if span.parent is None else f"{span.parent.span_id:016x}"
    times = (span.start_time // 1_000_000, span.end_time // 1_000_000)
    trace, id = f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"
    return (trace, id, parent, span.name, *times, error, tuple(sorted(attributes.items())))


def of_current(span: ReadableSpan, watched: Watched) -> bool:
    """Whether the journal that would tell it is still there: not that of an earlier run, or of what has expired."""
    runs = {(record.workflow, record.id, record.run): record for record in map(decode_record, bodies(watched))}
    told = span.attributes or {}
    if "holdfast.workflow" not in told:
        return False  # an actor's: it keeps no journal
    return (told["holdfast.workflow"], told["holdfast.execution.id"], told["holdfast.run"]) in runs


def bodies(watched: Watched) -> list[bytes]:
    return [bytes(item.body) for item in watched.items if is_execution(item)]


def compared(watched: Watched) -> tuple[Counter[Any], Counter[Any]]:
    emitted = Counter(of_emitted(span) for span in watched.emitted if of_current(span, watched))
    return emitted, Counter(map(of_told, watched.told()))


@pytest.mark.parametrize("each", ALL, ids=str)
def test_what_is_emitted_is_what_a_backfill_makes(each: Scenario) -> None:
    watched = Watched(each)
    emitted, told = compared(watched)
    assert emitted == told, (emitted - told, told - emitted)
    assert all(count == 1 for count in emitted.values())
    ids = Counter((span.context.trace_id, span.context.span_id) for span in watched.emitted)
    assert not [id for id, count in ids.items() if count > 1], "ids are unique"


@pytest.mark.parametrize("each", SCENARIOS, ids=str)
def test_with_crashes_nothing_is_emitted_that_no_journal_tells_and_nothing_twice(each: Scenario) -> None:
    writes = run_scenario(each).writes
    random = Random(each.name)
    crashes = 0
    for _ in range(CRASHES):
        place = random.randrange(1, writes[0] + 1) if writes and writes[0] else 1
        fault = random.choice((CrashBefore, CrashAfter))
        watched = Watched(each, (FaultsAt({place: fault()}),))
        crashes += sum(watched.run.faults.counts.values())
        emitted, told = compared(watched)
        assert not emitted - told, emitted - told
        ids = Counter((span.context.trace_id, span.context.span_id) for span in watched.emitted)
        assert not [id for id, count in ids.items() if count > 1]
    assert crashes == CRASHES, "a run without its fault proves nothing"


def test_there_are_spans_at_all() -> None:
    watched = Watched(scenario("sequential"))
    names = Counter(span.name for span in watched.emitted)
    assert names == {"step charge": 3, "workflow checkout": 1}
    assert MOST_INCARNATIONS > 1
