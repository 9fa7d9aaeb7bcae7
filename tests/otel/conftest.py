"""Spans in memory, and what a journal says of them."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.worlds import *

import holdfast as hf
import holdfast.otel


class Collected:
    """A provider, and what it exports."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def trace(self, app: hf.App) -> None:
        holdfast.otel.trace(app, provider=self.provider)

    def spans(self, *apps: hf.App) -> list[ReadableSpan]:
        for app in apps:
            assert holdfast.otel.flush(app, 60)
        return list(self.exporter.get_finished_spans())

    def named(self, app: hf.App) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.spans(app)}


@pytest.fixture
def collected() -> Collected:
    return Collected()
