"""A collector stand-in takes spans by real HTTP, from a worker and from ``holdfast trace``: with the same ids."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import holdfast as hf
import holdfast.otel


class Collector:
    """Takes OTLP, and keeps what it got."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(attributes["service.name"])
            for scope in resource.scope_spans:
                self.spans += scope.spans


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


def told(spans: list[Any]) -> set[tuple[Any, ...]]:
    return {
        (
            each.trace_id,
            each.span_id,
            each.parent_span_id,
            each.name,
            each.start_time_unix_nano,
            each.end_time_unix_nano,
        )
        for each in spans
    }


def declared(app: hf.App) -> Any:
    @app.step
    async def charge(card: str) -> str:
        if card == "bad":
            raise hf.Terminal(card)
        return card

    @app.workflow
    async def checkout(card: str) -> str:
        return await charge(card)

    @app.workflow
    async def party(cards: list[str]) -> list[str]:
        return [await checkout(card) for card in cards]

    return party


async def test_a_backfill_sends_what_was_exported_when_it_ran(memory_world, collector):
    app = memory_world.app()
    party = declared(app)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")))
    holdfast.otel.trace(app, provider=provider)
    async with app.worker():
        await (await party.start(["visa", "master"], id="a"))
        with pytest.raises(hf.ExecutionFailed):
            await (await party.start(["bad"], id="b"))
        assert holdfast.otel.flush(app, 60)
        emitted = told(collector.spans)
        collector.spans.clear()
        assert await holdfast.otel.send(app, "party", "a", collector.url) == 7
        assert await holdfast.otel.send(app, "party", "b", f"{collector.url}/v1/traces") == 4
    assert told(collector.spans) == emitted
    assert len(emitted) == 11
    assert "shop" in collector.services


async def test_an_execution_that_was_not_traced_is_sent_all_the_same(memory_world, collector):
    app = memory_world.app()
    party = declared(app)
    async with app.worker():
        await (await party.start(["visa"], id="a"))
        assert await holdfast.otel.send(app, "party", "a", collector.url) == 4
        with pytest.raises(hf.NotFound):
            await holdfast.otel.send(app, "party", "nobody", collector.url)


async def test_a_collector_that_is_not_there_is_an_error(memory_world, errors_expected, monkeypatch):
    monkeypatch.setattr(OTLPSpanExporter, "export", lambda *_args: None)
    app = memory_world.app()
    party = declared(app)
    async with app.worker():
        await (await party.start([], id="a"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="did not take the spans"):
            await holdfast.otel.send(app, "party", "a", url)
