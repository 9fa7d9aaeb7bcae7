"""Metrics: what Prometheus' own parser reads, what is counted and when, and that no id gets into them."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.worlds import World

import holdfast as hf
from holdfast.runtime.families import FAMILIES
from holdfast.runtime.meters import Distribution, Point
from holdfast.runtime.prometheus import text_of
from holdfast.testing import run_virtual
from holdfast.testing.virtual_time import VirtualClock

CANARY = "canary-4711"


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Each sample that Prometheus' parser finds, by its name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(app: hf.App, name: str, **labels: str) -> float:
    return samples(app.prometheus())[name, tuple(sorted(labels.items()))]


@pytest.fixture
def memory_world(tmp_path):
    return World("memory", tmp_path)


@pytest.fixture
def sqlite_world(tmp_path):
    return World("sqlite", tmp_path)


@pytest.fixture
def shop(memory_world):
    return declared(memory_world.app())


def declared(app: hf.App) -> hf.App:
    tries: list[str] = []

    @app.step(retry=hf.Retry(max_attempts=3, initial="1s", jitter=hf.Jitter.NONE))
    async def charge(card: str) -> str:
        tries.append(card)
        await asyncio.sleep(2)
        if card == "bad" or tries.count(card) == 1:
            raise ValueError(card)
        return card

    @app.workflow
    async def checkout(card: str) -> str:
        return await charge(card)

    return app


async def test_before_anything_has_happened_every_family_is_told(shop):
    async with shop:
        found = {family.name for family in text_string_to_metric_families(shop.prometheus())}
    assert {each.name.removesuffix("_total") for each in FAMILIES} == {name.removesuffix("_total") for name in found}


def test_steps_are_measured_in_seconds_and_by_how_they_end(memory_world):
    app = declared(memory_world.app(clock=VirtualClock()))

    async def main() -> None:
        async with app.worker():
            app.prometheus()
            checkout = app.registry.workflow("checkout")
            assert await (await checkout.start(CANARY, id=CANARY)) == CANARY
            with pytest.raises(hf.ExecutionFailed):
                await (await checkout.start("bad", id="b"))
            assert value(app, "holdfast_step_seconds_count", step="charge", outcome="done") == 1
            assert value(app, "holdfast_step_seconds_count", step="charge", outcome="retrying") == 3
            assert value(app, "holdfast_step_seconds_count", step="charge", outcome="failed") == 1
            assert value(app, "holdfast_step_seconds_sum", step="charge", outcome="done") == 2.0
            assert value(app, "holdfast_step_seconds_bucket", step="charge", outcome="done", le="1") == 0
            assert value(app, "holdfast_step_seconds_bucket", step="charge", outcome="done", le="2.5") == 1
            assert value(app, "holdfast_step_retries_total", step="charge") == 3
            assert value(app, "holdfast_executions_started_total", workflow="checkout") == 2
            assert value(app, "holdfast_executions_ended_total", workflow="checkout", status="COMPLETED") == 1
            assert value(app, "holdfast_executions_ended_total", workflow="checkout", status="FAILED") == 1
            assert 5.0 <= value(app, "holdfast_execution_seconds_sum", workflow="checkout") <= 14.0
            assert value(app, "holdfast_commit_seconds_count") >= 2
            assert value(app, "holdfast_events_total", event="step_retried") == 3
            assert CANARY not in app.prometheus()

    run_virtual(main)


def test_what_a_sweep_knows_is_a_gauge(memory_world):
    app = declared(memory_world.app(clock=VirtualClock()))

    async def main() -> None:
        async with app.worker():
            app.prometheus()
            await asyncio.sleep(70)
            told = samples(app.prometheus())
            assert told["holdfast_due_heads", ()] == told["holdfast_blocked", ()] == 0
            assert told["holdfast_swept_timestamp_seconds", ()] * 1000 == pytest.approx(app.clock.now_ms(), abs=70_000)

    run_virtual(main)


async def test_a_transactional_step_is_measured_too(sqlite_world):
    app = sqlite_world.app()

    @app.transaction
    def book(cursor: hf.SqlCursor) -> int:
        return 1

    @app.workflow
    async def booking() -> int:
        return await book()

    async with app.worker():
        app.prometheus()
        await booking()
        assert value(app, "holdfast_step_seconds_count", step="book", outcome="done") == 1


async def test_a_replay_counts_nothing_again(memory_world):
    app = memory_world.app(limits=hf.Limits(linger_seconds=0.0, near_seconds=0.0, resident=0))

    @app.step
    async def look() -> int:
        return 1

    @app.workflow
    async def waits() -> str:
        await look()
        return await hf.signal("go", str)

    async with app.worker():
        app.prometheus()
        handle = await waits.start(id="a")
        while app.telemetry.counts["evicted"] == 0:
            await asyncio.sleep(0)
        await handle.signal("go", "on")
        assert await handle == "on"
        assert value(app, "holdfast_step_seconds_count", step="look", outcome="done") == 1
        assert value(app, "holdfast_executions_started_total", workflow="waits") == 1


async def test_a_process_that_is_not_asked_measures_nothing(shop):
    async with shop.worker():
        assert not shop.telemetry.is_detailed
        assert not shop.telemetry.subscribers
        shop.prometheus()
        shop.prometheus()
        assert len(shop.telemetry.subscribers) == 1, "asking again counts nothing twice"


def test_labels_are_escaped():
    family = FAMILIES[0]
    odd = 'a"b\\c\nd'
    told = text_of([Point(family, (odd,), 3)])
    assert samples(told)[family.name, (("workflow", odd),)] == 3


def test_a_histogram_adds_its_buckets_up():
    family = next(each for each in FAMILIES if each.name == "holdfast_commit_seconds")
    buckets = [0] * (len(family.bounds) + 1)
    buckets[0], buckets[-1] = 2, 1
    told = samples(text_of([Point(family, (), Distribution(tuple(buckets), 7.5))]))
    assert told["holdfast_commit_seconds_bucket", (("le", "0.0005"),)] == 2
    assert told["holdfast_commit_seconds_bucket", (("le", "1"),)] == 2
    assert told["holdfast_commit_seconds_bucket", (("le", "+Inf"),)] == told["holdfast_commit_seconds_count", ()] == 3
    assert told["holdfast_commit_seconds_sum", ()] == 7.5


def test_no_label_is_an_id():
    assert {label for family in FAMILIES for label in family.labels} == {
        "workflow",
        "status",
        "step",
        "outcome",
        "event",
        "queue",
        "limit",
    }
