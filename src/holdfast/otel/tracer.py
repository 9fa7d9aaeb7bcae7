"""The tracer: takes what became durable from turns, and makes spans of it on a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as contexts
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanContext, set_span_in_context

from holdfast.actors.turn.handling import Handled, Handling
from holdfast.bounded import Bounded
from holdfast.logs import log
from holdfast.otel.emitting import Emitter
from holdfast.otel.handled import of_handled
from holdfast.otel.live import LiveSpan
from holdfast.otel.spans import Span, Subject, of_end, of_entries
from holdfast.otel.spool import Spool
from holdfast.tracing import within
from holdfast.workflows.trace_ids import SAMPLED, attempt_span, trace_id, traceparent_of

if TYPE_CHECKING:
    from holdfast.replay.entries import Entry
    from holdfast.telemetry import Telemetry
    from holdfast.workflows.record import ExecutionRecord

MOST_LIVE: Final = 10_000
"""The number of attempts without a known end for which is kept what users said of them."""


class SpanTracer:
    """See ``holdfast.tracing.Tracer``. Without ``provider`` it takes the global one, as soon as there is one."""

    def __init__(self, telemetry: Telemetry, provider: TracerProvider | None) -> None:
        self._telemetry = telemetry
        self._provider = provider
        self._emitter: Emitter | None = None
        self._missing_told = False
        self._live: Bounded[str, LiveSpan] = Bounded(MOST_LIVE)  # only the thread of the spool uses it
        self.spool = Spool(self._drop)

    def attempt(self, partition: str, record: ExecutionRecord, op: str, attempt: int, began: int) -> None:
        """See ``Tracer``. The task is the attempt's own, so its context is left with it."""
        if (emitter := self._ready()) is None:
            return
        span = attempt_span(partition, record, op, attempt, began)
        trace = trace_id(partition, record)
        flags = emitter.flags_of(_beginning(Subject(partition, record), trace))
        live = LiveSpan(SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=flags))
        contexts.attach(set_span_in_context(live))
        self.spool.put(lambda: self._live.__setitem__(span, live))

    @contextmanager
    def handling(self, handling: Handling) -> Generator[None]:
        """See ``Tracer``. The task may go on with another call, so its context is put back."""
        before = contexts.get_current()
        with within(handling.trace):
            self._telemetry.trace(self._enter, handling)
            try:
                yield
            finally:
                contexts.attach(before)  # no token: code that was left behind ends in another context

    def handled(self, handled: Handled) -> None:
        """See ``Tracer``."""
        if self._ready() is not None:
            self.spool.put(lambda: self._emit([of_handled(handled)]))

    def _enter(self, handling: Handling) -> None:
        if (emitter := self._ready()) is None:
            return
        span = of_handled(Handled(handling, handling.began, ""))
        flags = emitter.flags_of(span)
        live = LiveSpan(SpanContext(int(span.trace, 16), int(span.id, 16), is_remote=False, trace_flags=flags))
        contexts.attach(set_span_in_context(live))
        self.spool.put(lambda: self._live.__setitem__(span.id, live))

    def context(self, partition: str, record: ExecutionRecord) -> str:
        """See ``Tracer``."""
        try:
            emitter = self._ready()
            beginning = _beginning(Subject(partition, record), trace_id(partition, record))
            flags = SAMPLED if emitter is None else f"{int(emitter.flags_of(beginning)):02x}"
        except Exception as error:  # noqa: BLE001 - a sampler of the user's must not cost a turn
            log(logging.ERROR, "the sampler of spans failed", error=error)
            flags = SAMPLED
        return traceparent_of(partition, record, flags)

    def recorded(self, partition: str, record: ExecutionRecord, entries: Sequence[Entry]) -> None:
        """See ``Tracer``."""
        if entries and self._ready() is not None:
            self.spool.put(lambda: self._emit(of_entries(Subject(partition, record), entries)))

    def ended(self, partition: str, record: ExecutionRecord, status: str) -> None:
        """See ``Tracer``."""
        if self._ready() is not None:
            self.spool.put(lambda: self._emit([of_end(Subject(partition, record), status)]))

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until every span so far has been handed to the provider. Returns false if the time is up first."""
        return self.spool.flush(timeout_seconds)

    def _emit(self, spans: Any) -> None:
        assert self._emitter is not None
        for span in spans:
            self._emitter.emit(span, self._live.pop(span.id, None))

    def _ready(self) -> Emitter | None:
        if self._emitter is None:
            provider = self._provider or api.get_tracer_provider()
            if isinstance(provider, TracerProvider):
                self._emitter = Emitter(provider)
            elif not self._missing_told:
                self._missing_told = True
                log(logging.WARNING, "no spans are made: set a TracerProvider of opentelemetry.sdk first, or give one")
        return self._emitter

    def _drop(self) -> None:
        self._telemetry.counts["spans_dropped"] += 1


def _beginning(subject: Subject, trace: str) -> Span:
    """As much of an execution's span as a sampler looks at."""
    name = f"workflow {subject.record.workflow}"
    return Span(name=name, trace=trace, id="", parent="", flags=subject.flags, begins=0, ends=0, attributes={})
