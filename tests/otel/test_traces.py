"""What spans there are, how they nest, and that what makes them costs no turn anything."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from tests.otel.conftest import Collected

import holdfast as hf
import holdfast.otel
from holdfast.otel import spool as spools
from holdfast.tracing import here, within

CANARY = "canary-4711"
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def declared(app: hf.App) -> None:
    @app.step(retry=hf.Retry(max_attempts=2, initial="1ms"))
    async def charge(card: str) -> str:
        api.get_current_span().set_attribute("bank", "north")
        with api.get_tracer("theirs", tracer_provider=app.provider).start_as_current_span("GET /bank"):
            pass
        if card == CANARY and hf.current().attempt == 1:
            raise ValueError(card)
        return card

    @app.workflow
    async def checkout(card: str) -> str:
        await hf.sleep("1ms")
        return await charge(card)

    @app.workflow
    async def party(card: str) -> str:
        return await checkout(card)

    @app.workflow
    async def approval() -> str:
        return await hf.signal("decision", str)

    app.checkout, app.party, app.approval = checkout, party, approval


@pytest.fixture
def shop(memory_world, collected):
    app = memory_world.app()
    app.provider = collected.provider
    declared(app)
    collected.trace(app)
    return app


def trace_of(span: Any) -> str:
    return f"{span.context.trace_id:032x}"


async def test_spans_of_users_code_nest_below_the_attempt(shop, collected):
    async with shop.worker():
        await shop.checkout("visa")
    spans = collected.named(shop)
    assert {"workflow checkout", "timer sleep", "step charge", "GET /bank"} == spans.keys()
    attempt, root = spans["step charge"], spans["workflow checkout"]
    assert spans["GET /bank"].parent.span_id == attempt.context.span_id
    assert attempt.parent.span_id == root.context.span_id == spans["timer sleep"].parent.span_id
    assert root.parent is None
    assert len({trace_of(span) for span in spans.values()}) == 1
    assert attempt.attributes["bank"] == "north" and attempt.attributes["holdfast.attempt"] == 1
    assert root.attributes["holdfast.status"] == "COMPLETED"
    assert root.start_time <= attempt.start_time <= attempt.end_time <= root.end_time


async def test_each_attempt_is_a_span_of_its_own_and_no_message_is_told(shop, collected):
    async with shop.worker():
        await shop.checkout(CANARY)
    attempts = [span for span in collected.spans(shop) if span.name == "step charge"]
    assert [span.attributes["holdfast.attempt"] for span in attempts] == [1, 2]
    assert [span.attributes["holdfast.outcome"] for span in attempts] == ["retrying", "done"]
    assert attempts[0].attributes["error.type"] == "builtins.ValueError"
    assert not attempts[0].status.is_ok
    assert len({span.context.span_id for span in attempts}) == 2
    assert CANARY not in "".join(span.to_json() for span in collected.spans(shop))


async def test_a_child_is_in_the_trace_of_its_parent(shop, collected):
    async with shop.worker():
        with within(CALLER):
            handle = await shop.party.start("visa")
        await handle
    spans = collected.named(shop)
    assert {trace_of(span) for span in spans.values()} == {CALLER.split("-")[1]}
    assert f"{spans['workflow party'].parent.span_id:016x}" == CALLER.split("-")[2]
    assert spans["workflow checkout"].parent.span_id == spans["workflow party"].context.span_id


async def test_a_start_inside_a_span_of_the_user_is_in_its_trace(shop, collected):
    tracer = api.get_tracer("theirs", tracer_provider=collected.provider)
    async with shop.worker():
        with tracer.start_as_current_span("request") as request:
            handle = await shop.party.start("visa")
        await handle
    assert {span.context.trace_id for span in collected.spans(shop)} == {request.get_span_context().trace_id}


async def test_a_signal_links_to_who_sent_it(shop, collected):
    async with shop.worker():
        handle = await shop.approval.start()
        with within(CALLER):
            await handle.signal("decision", "yes")
        await handle
    signal = collected.named(shop)["signal decision"]
    (link,) = signal.links
    assert f"{link.context.trace_id:032x}" == CALLER.split("-")[1]
    assert trace_of(signal) != CALLER.split("-")[1]


async def test_the_same_start_with_another_context_is_the_same_execution(shop):
    async with shop.worker():
        with within(CALLER):
            await (await shop.checkout.start("visa", id="a"))
        assert await (await shop.checkout.start("visa", id="a")) == "visa"


@pytest.mark.parametrize(
    "damaged",
    [
        "nonsense",
        "ff" + CALLER[2:],
        CALLER.upper(),
        CALLER + "-00",
        CALLER.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        CALLER.replace("00f067aa0ba902b7", "0" * 16),
        "01" + CALLER[2:] + "-" + "x" * 1_000,
    ],
)
def test_a_damaged_context_is_none(damaged):
    with within(damaged):
        assert here() == ""


def test_a_context_of_a_later_version_is_read_as_far_as_it_is_known():
    with within("cc" + CALLER[2:] + "-more"):
        assert here() == CALLER


async def test_what_the_caller_does_not_sample_makes_no_spans(shop, collected):
    async with shop.worker():
        with within(CALLER[:-2] + "00"):
            handle = await shop.party.start("visa")
        await handle
    assert [span.name for span in collected.spans(shop)] == []


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, TraceIdRatioBased(0.5)], ids=["off", "ratio"])
async def test_the_sampler_decides_for_a_whole_execution(memory_world, sampler):
    collected = Collected(sampler=sampler)
    app = memory_world.app()
    app.provider = collected.provider
    declared(app)
    collected.trace(app)
    async with app.worker():
        for number in range(20):
            await app.party(f"card {number}")
    spans = collected.spans(app)
    whole = {"workflow party", "workflow checkout", "child checkout", "timer sleep", "step charge", "GET /bank"}
    for trace in {span.context.trace_id for span in spans}:
        assert {span.name for span in spans if span.context.trace_id == trace} == whole


async def test_replay_eviction_and_queries_make_no_span_again(memory_world, collected):
    app = memory_world.app(limits=hf.Limits(linger_seconds=0.0, near_seconds=0.0, resident=0))
    collected.trace(app)

    @app.step
    async def look() -> int:
        return 1

    @app.workflow
    async def waits() -> str:
        @hf.query
        def asked() -> int:
            return 7

        await look()
        return await hf.signal("go", str)

    async with app.worker():
        handle = await waits.start(id="a")
        while app.telemetry.counts["evicted"] == 0:
            await asyncio.sleep(0)
        before = [span.name for span in collected.spans(app)]
        assert before == ["step look"], "nothing of the execution itself before its end"
        assert await handle.query("asked") == 7
        assert [span.name for span in collected.spans(app)] == before
        await handle.signal("go", "on")
        await handle
    assert sorted(span.name for span in collected.spans(app)) == ["signal go", "step look", "workflow waits"]


async def test_another_context_than_the_users_does_not_reach_the_body(shop, collected):
    seen: list[str] = []

    @shop.workflow
    async def bare() -> None:
        seen.append(here())

    tracer = api.get_tracer("theirs", tracer_provider=collected.provider)
    async with shop.worker():
        with tracer.start_as_current_span("request"):
            await bare()
    assert seen == [""]


# ── What an exporter may do ─────────────────────────────────────────────────────────────────────────────────────────


class Failing(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        raise RuntimeError("the collector is down")


class Hanging(SpanExporter):
    def __init__(self) -> None:
        self.go, self.entered = threading.Event(), threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.entered.set()
        self.go.wait(60)
        return SpanExportResult.SUCCESS


def traced(app: hf.App, exporter: SpanExporter) -> None:
    app.provider = TracerProvider(shutdown_on_exit=False)
    app.provider.add_span_processor(SimpleSpanProcessor(exporter))
    holdfast.otel.trace(app, provider=app.provider)


async def test_an_exporter_that_raises_costs_its_spans_alone(memory_world, errors_expected):
    app = memory_world.app()

    @app.workflow
    async def nothing() -> int:
        return 1

    traced(app, Failing())
    async with app.worker():
        assert [await nothing() for _ in range(3)] == [1, 1, 1]
    assert holdfast.otel.flush(app, 60)


async def test_an_exporter_that_hangs_holds_nothing_and_the_queue_is_bounded(memory_world, monkeypatch):
    monkeypatch.setattr(spools, "MOST_WAITING", 5)
    app, exporter = memory_world.app(), Hanging()

    @app.workflow
    async def nothing() -> int:
        return 1

    traced(app, exporter)
    async with app.worker():
        assert [await nothing() for _ in range(20)] == [1] * 20
        assert app.telemetry.counts["spans_dropped"] > 0
        assert not holdfast.otel.flush(app, 0.01)
    exporter.go.set()


async def test_a_thread_that_cannot_start_fails_no_turn(memory_world, collected, monkeypatch):
    app = memory_world.app()

    @app.workflow
    async def nothing() -> int:
        return 1

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    collected.trace(app)
    async with app.worker():
        with monkeypatch.context() as patched:
            patched.setattr(spools.threading.Thread, "start", refuse)
            assert await nothing() == 1
        assert await nothing() == 1
    assert len(collected.spans(app)) == 2, "what waited is made by the thread that starts at last"


async def test_a_tracer_with_a_mistake_fails_no_turn(memory_world, collected, errors_expected, monkeypatch):
    app = memory_world.app()

    @app.step
    async def one() -> int:
        return 1

    @app.workflow
    async def some() -> int:
        return await one()

    collected.trace(app)
    for name in ("attempt", "recorded", "ended"):
        monkeypatch.setattr(type(app.telemetry.tracer), name, lambda *_args: 1 / 0)
    async with app.worker():
        assert await some() == 1


async def test_without_a_provider_it_is_said_once(memory_world, caplog, monkeypatch):
    monkeypatch.setattr(api, "get_tracer_provider", object)
    app = memory_world.app()

    @app.workflow
    async def nothing() -> int:
        return 1

    holdfast.otel.trace(app)
    async with app.worker():
        await nothing()
        await nothing()
    assert sum("TracerProvider" in each.getMessage() for each in caplog.records) == 1
