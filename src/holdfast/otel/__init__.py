"""OpenTelemetry: one trace for each execution, across processes and days. Needs the extra ``otel``.

A trace is a projection of the journal. The ids of spans follow from identities, so nothing is stored for them, a replay
makes none, and whatever was lost can be made again (``backfill``), with the same ids.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from holdfast.errors import ConfigurationError

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.metrics import MeterProvider, get_meter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
except ModuleNotFoundError as error:
    raise ConfigurationError(
        "holdfast.otel needs OpenTelemetry's SDK: pip install '.[otel]' in a checkout of Holdfast"
    ) from error

from holdfast.otel.backfill import spans_of
from holdfast.otel.emitting import SCOPE, Emitter, current_traceparent
from holdfast.otel.measuring import register
from holdfast.otel.spans import Span
from holdfast.otel.tracer import SpanTracer
from holdfast.runtime.meters import meters_of
from holdfast.runtime.metrics import Watched
from holdfast.tracing import hook
from holdfast.workflows.finding import head_of
from holdfast.workflows.record import partition_of

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.telemetry import Telemetry

__all__ = ["backfill", "flush", "measure", "send", "trace"]

FLUSH_SECONDS: Final = 5.0
SPANS_AT_ONCE: Final = 512
SERVICE_VARIABLE: Final = "OTEL_SERVICE_NAME"


class Traced(Protocol):
    """The app, as this module sees it."""

    telemetry: Telemetry

    @property
    def name(self) -> str: ...

    def runtime(self) -> Runtime: ...


def trace(app: Traced, *, provider: TracerProvider | None = None) -> None:
    """Make spans of what this app's executions do in this process, by ``provider`` or OpenTelemetry's global one.

    Call it before the app is opened. Spans are made once what they tell is durable, on a thread of their own; no turn
    waits for an exporter, and what it does not keep up with is dropped and counted (``spans_dropped``). Inside a step
    the current span is that of the attempt. Spans have names, ids and types of errors, never payloads or messages.

        holdfast.otel.trace(app)
    """
    tracer = SpanTracer(app.telemetry, provider)
    app.telemetry.tracer = tracer
    hook.current = current_traceparent
    atexit.register(tracer.flush, FLUSH_SECONDS)  # before the provider's own end, which was registered earlier


def measure(app: Watched, *, provider: MeterProvider | None = None) -> None:
    """Give this process's metrics to OpenTelemetry, by ``provider`` or the global one: what ``app.prometheus()`` tells.

    Call it once, before the app is opened; it counts from then on. Counters and gauges are observed when a reader
    collects, and have no value while the app is closed. Nothing is read from the store for them.

        holdfast.otel.measure(app)
    """
    register(meters_of(app), get_meter(SCOPE, meter_provider=provider))


def flush(app: Traced, timeout_seconds: float = FLUSH_SECONDS) -> bool:
    """Wait until every span so far was handed to the provider. Returns false if that takes longer."""
    tracer = app.telemetry.tracer
    return tracer.flush(timeout_seconds) if isinstance(tracer, SpanTracer) else True


async def backfill(app: Traced, workflow: str, id: str, provider: TracerProvider) -> int:
    """Make the spans of an execution again, with the ids that they had, and those of its children; returns how many.

    The app is open; it need not have been traced when the execution ran. Raises ``NotFound``.
    """
    emitter, count = Emitter(provider), 0
    async for span in _spans(app, workflow, id):
        emitter.emit(span)
        count += 1
    return count


async def send(app: Traced, workflow: str, id: str, url: str) -> int:
    """Send what ``backfill`` makes to a collector by OTLP over HTTP; returns how many spans. The service's name is the
    app's, unless ``OTEL_SERVICE_NAME`` says otherwise. Raises ``NotFound``, and ``ConnectionError`` if they were not
    taken.

    A URL without a path gets ``/v1/traces`` ("OTLP/HTTP Request",
    https://opentelemetry.io/docs/specs/otlp/#otlphttp-request).
    """
    exporter = OTLPSpanExporter(endpoint=url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1/traces")
    resource = Resource.create({} if SERVICE_VARIABLE in os.environ else {"service.name": app.name})
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
    kept = Kept()
    provider.add_span_processor(kept)
    await backfill(app, workflow, id, provider)
    loop = asyncio.get_running_loop()
    try:
        for at in range(0, len(kept.spans), SPANS_AT_ONCE):
            taken = await loop.run_in_executor(None, exporter.export, kept.spans[at : at + SPANS_AT_ONCE])
            if taken is not SpanExportResult.SUCCESS:
                raise ConnectionError(f"the collector at {url} did not take the spans: the log says why")
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]  # the exporter has no hint there
    return len(kept.spans)


class Kept(SpanProcessor):
    """Keeps spans as they end."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it."""
        self.spans.append(span)


async def _spans(app: Traced, workflow: str, id: str) -> AsyncIterator[Span]:
    partition = partition_of(workflow, id)
    await head_of(app.runtime(), partition)
    async for span in spans_of(app.runtime(), partition):
        yield span
