"""Spans with ids of their own, made by the tracer of a user's provider: its sampler, resource and processors apply."""

from __future__ import annotations

import threading
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from holdfast.otel.live import LiveSpan
from holdfast.otel.spans import Span
from holdfast.tracing import checked

SCOPE: Final = "holdfast"
KINDS: Final = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "consumer": SpanKind.CONSUMER,
    "producer": SpanKind.PRODUCER,
}
NANOSECONDS: Final = 1_000_000
SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
MASK: Final = 0x01


class GivenIds(threading.local, IdGenerator):
    """An id generator that answers what its thread was given ("IdGenerator",
    https://opentelemetry-python.readthedocs.io/en/latest/sdk/trace.id_generator.html): several apps of a
    process may share a provider, and then they share its tracer.
    """

    def __init__(self) -> None:
        self.trace = self.span = 0

    def generate_span_id(self) -> int:
        """The id of the next span."""
        return self.span

    def generate_trace_id(self) -> int:
        """The id of its trace, if it has no parent."""
        return self.trace

    def is_trace_id_random(self) -> bool:
        """Ids follow from identities: no bits of them are promised to be random (Trace Context, level 2)."""
        return False


_adopting: Final = threading.Lock()


class Emitter:
    """Makes spans by a provider. The tracer of the scope ``holdfast`` is ours: only it has our ids."""

    def __init__(self, provider: TracerProvider) -> None:
        tracer = provider.get_tracer(SCOPE)
        self._tracer = tracer if isinstance(tracer, Tracer) else None  # else the SDK is disabled by its environment
        self._ids = GivenIds()
        if self._tracer is not None:
            with _adopting:
                if isinstance(self._tracer.id_generator, GivenIds):
                    self._ids = self._tracer.id_generator
                self._tracer.id_generator = self._ids

    def emit(self, span: Span, live: LiveSpan | None = None) -> None:
        """Begin and end a span, with its own times. The caller's decision to sample holds for the whole execution."""
        if self._tracer is None:
            return
        self._ids.trace, self._ids.span = int(span.trace, 16), int(span.id, 16)
        made = self._tracer.start_span(
            span.name,
            context=self._above(span),
            kind=KINDS[span.kind],
            attributes=dict(span.attributes),
            links=[Link(found) for text in span.links if (found := context_of(text)) is not None],
            start_time=span.begins * NANOSECONDS,
        )
        if live is not None:
            made.set_attributes(live.attributes)
            for name, attributes, at in live.events:
                made.add_event(name, attributes, at)
        if span.error:
            made.set_attribute("error.type", span.error)
            made.set_status(Status(StatusCode.ERROR))
        made.end(span.ends * NANOSECONDS)

    def flags_of(self, span: Span) -> TraceFlags:
        """Whether the trace is sampled: as the caller's is, or as the sampler decides by the trace's id."""
        if span.flags or self._tracer is None:
            return TraceFlags(int(span.flags or "0", 16) & MASK)
        decided = self._tracer.sampler.should_sample(None, int(span.trace, 16), span.name)
        return SAMPLED if decided.decision is Decision.RECORD_AND_SAMPLE else TraceFlags(TraceFlags.DEFAULT)

    def _above(self, span: Span) -> Context:
        if not span.parent:
            return Context()
        parent = SpanContext(int(span.trace, 16), int(span.parent, 16), is_remote=True, trace_flags=self.flags_of(span))
        return set_span_in_context(NonRecordingSpan(parent), Context())


def context_of(traceparent: str) -> SpanContext | None:
    """The context that a ``traceparent`` names; ``None`` for a damaged one."""
    if not (whole := checked(traceparent)):
        return None
    _, trace, span, flags = whole.split("-")
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16) & MASK))


def current_traceparent() -> str:
    """The context of the current span; empty if there is none."""
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags) & MASK:02x}"
