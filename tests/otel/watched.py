"""A world whose apps are traced: what each of its processes emits, against what the database says that it wrote.

Each process emits what it has written and heard to be durable, and nothing else. So a replay emits nothing, and a
process that dies loses no span but of what it wrote in its last moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind
from tests.otel.commits import NOTHING, Applied, Fact, NotingDatabase, described
from tests.otel.conftest import Collected
from tests.scenarios.schedules import Morning, a_morning, schedules

import holdfast as hf
from holdfast.actors.record import HIDDEN_MARK, actor_of, key_of
from holdfast.items import Item
from holdfast.otel.backfill import spans_in
from holdfast.otel.spans import Span
from holdfast.replay.entries import decode_entries
from holdfast.testing import Scenario
from holdfast.testing.faults import NO_FAULTS, FaultPlan
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Run, run_scenario
from holdfast.testing.world import Build, Database, MemoryDatabase, User, is_execution
from holdfast.tracing import checked
from holdfast.workflows.record import decode_record, partition_of
from holdfast.workflows.trace_ids import call_span, call_trace

Told = tuple[Any, ...]
"""All that a span tells, comparable."""
NANOSECONDS = 1_000_000
BY_PROCESS = "p{}"
"""How the processes of a world are called, in the order in which their apps are built."""


class Traced:
    """The apps of a world, each traced on its own, and its database, which keeps a log."""

    def __init__(self, database: Database) -> None:
        self.database = NotingDatabase(database)
        self._collected: list[tuple[Collected, hf.App]] = []

    def building(self, build: Build) -> Build:
        """The same code, traced."""

        def traced(app: hf.App, ledger: Ledger) -> User:
            collected = Collected()
            collected.trace(app)
            self._collected.append((collected, app))
            return build(app, ledger)

        return traced

    def emitted(self) -> dict[str, list[ReadableSpan]]:
        """The spans of each process, by its name."""
        numbered = enumerate(self._collected, start=1)
        return {BY_PROCESS.format(number): collected.spans(app) for number, (collected, app) in numbered}


class Compared:
    """What was emitted, and what it must be."""

    def __init__(self, traced: Traced) -> None:
        self.by_process = traced.emitted()
        self.items, self._log = traced.database.last, traced.database.log

    @property
    def emitted(self) -> list[ReadableSpan]:
        """The spans of all processes."""
        return [span for spans in self.by_process.values() for span in spans]

    def lost(self) -> int:
        """Fail if anything else was emitted than what was written, or anything twice, or if anything is missing but
        what a process wrote when it died. Returns how many spans of that are missing.
        """
        ids = Counter((span.context.trace_id, span.context.span_id) for span in self.emitted)
        assert not [id for id, count in ids.items() if count > 1], "ids are unique"
        return self._lost_of_executions() + sum(map(self._lost_of_actors, self.by_process))

    def _unheard(self, process: str) -> list[Applied]:
        """What a process wrote in its last moment."""
        return [write for write in self._log.writes if write.process == process and not write.heard]

    # ── Executions: their journals ──────────────────────────────────────────────────────────────────────────────────

    def executions(self) -> tuple[Counter[Told], Counter[Told]]:
        """What was emitted of executions whose journal is there still, and what a backfill makes of it."""
        heads = [item for item in self.items if is_execution(item)]
        there = {(record.workflow, record.id, record.run) for record in (decode_record(head.body) for head in heads)}
        emitted = Counter(of_emitted(span) for span in self.emitted if _execution_of(span) in there)
        return emitted, Counter(of_told(span) for head in heads for span in told_by(head, self.items))

    def _lost_of_executions(self) -> int:
        emitted, told = self.executions()
        assert not emitted - told, emitted - told
        last = {at for process in self.by_process for write in self._unheard(process) for at in write.partitions}
        for span in (lost := told - emitted):
            attributes = dict(span[-1])
            at = partition_of(attributes["holdfast.workflow"], attributes["holdfast.execution.id"])
            assert at in last, f"no process died when it wrote {span}"
        return lost.total()

    # ── Actors, consumers and schedules: their commits ──────────────────────────────────────────────────────────────

    def _lost_of_actors(self, process: str) -> int:
        """Each span tells a fact of its own of this process's writes, and each fact has its span."""
        writes = [write for write in self._log.writes if write.process == process]
        facts = sorted((fact for write in writes for fact in write.facts), key=_is_doubtful)
        for span in filter(_is_of_actor, self.by_process[process]):
            found = next((fact for fact in facts if _tells(span, fact)), None)
            assert found is not None, f"{process} has not written {span.name} {dict(span.attributes or {})}"
            facts.remove(found)
        missing = [fact for fact in facts if not _is_doubtful(fact)]
        unheard = [fact for write in self._unheard(process) for fact in write.facts]
        for fact in missing:
            assert fact in unheard, f"{process} has not emitted {described(fact)}"
        return len(missing)


def _is_doubtful(fact: Fact) -> bool:
    """Whether it may be that nothing ran."""
    return NOTHING in fact.outcomes


def _is_of_actor(span: ReadableSpan) -> bool:
    """Whether it tells something that leaves a trace in the store: a method that only reads leaves none."""
    reads = span.name.startswith("actor ") and span.kind is SpanKind.INTERNAL
    return "holdfast.actor" in (span.attributes or {}) and not reads


def _is_of(span: ReadableSpan, partition: str) -> bool:
    """Whether a span names this actor, consumer or schedule."""
    told, actor, key = dict(span.attributes or {}), actor_of(partition), key_of(partition)
    name = actor.rpartition(HIDDEN_MARK)[2] or key
    return (told["holdfast.actor"], told["holdfast.key"]) == (name, key)


def _tells(span: ReadableSpan, fact: Fact) -> bool:
    """Whether a span has the ids that follow from this fact, and tells its outcome."""
    if not _is_of(span, fact.partition) or dict(span.attributes or {})["holdfast.outcome"] not in fact.outcomes:
        return False
    return any(_came_from(span, fact, *origin) for origin in fact.origins)


def _came_from(span: ReadableSpan, fact: Fact, place: str, trace: str | None) -> bool:
    began, attempt = span.start_time // NANOSECONDS, dict(span.attributes or {})["holdfast.attempt"]
    if f"{span.context.span_id:016x}" != call_span(fact.partition, place, fact.id, attempt, began):
        return False
    if trace is None:
        return True
    whole = checked(trace) or f"00-{call_trace(fact.partition, fact.id)}--"
    above = "" if span.parent is None else f"{span.parent.span_id:016x}"
    return whole.split("-")[1:3] == [f"{span.context.trace_id:032x}", above]


# ── Runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def watch(each: Scenario, plans: Sequence[FaultPlan] = ()) -> tuple[Run, Compared]:
    """Run a scenario, traced."""
    traced = Traced(each.database())
    seen = replace(
        each,
        build=traced.building(each.build),
        later=[traced.building(one) for one in each.later],
        database=lambda: traced.database,
    )
    run = run_scenario(seen, plans)
    return run, Compared(traced)


def watch_morning(plan: FaultPlan = NO_FAULTS) -> tuple[Morning, Compared]:
    """Run the schedules, traced."""
    traced = Traced(MemoryDatabase())
    morning = a_morning(plan, build=traced.building(schedules), database=lambda: traced.database)
    return morning, Compared(traced)


# ── Journals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def told_by(head: Item, items: Sequence[Item]) -> list[Span]:
    """What a backfill makes of the journal of an execution."""
    record = decode_record(head.body)
    segments = [
        item for item in items if item.partition == head.partition and item.sort.startswith(f"j#{record.run:06d}#")
    ]
    entries = [entry for item in sorted(segments, key=lambda each: each.sort) for entry in decode_entries(item.body)]
    return spans_in(head, record, [*entries, *record.tail])


def of_told(span: Span) -> Told:
    """A span of a backfill."""
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


def of_emitted(span: ReadableSpan) -> Told:
    """A span that was emitted."""
    attributes = dict(span.attributes or {})
    error = attributes.pop("error.type", "")
    parent = "" if span.parent is None else f"{span.parent.span_id:016x}"
    times = (span.start_time // NANOSECONDS, span.end_time // NANOSECONDS)
    trace, id = f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"
    return (trace, id, parent, span.name, *times, error, tuple(sorted(attributes.items())))


def _execution_of(span: ReadableSpan) -> Told:
    """The run of an execution that a span tells of; that of an actor tells of none."""
    told = span.attributes or {}
    return told.get("holdfast.workflow"), told.get("holdfast.execution.id"), told.get("holdfast.run")
