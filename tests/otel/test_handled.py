"""Spans of actors and consumers: one for each attempt that was committed, and none for what was not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from opentelemetry import trace as api
from opentelemetry.trace import SpanKind
from tests.otel.conftest import Collected
from tests.otel.watched import watch

import holdfast as hf
from holdfast.testing import Scenario
from holdfast.tracing import within

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
AGAIN_AT_ONCE = hf.Retry(max_attempts=2, initial="1ms")


@dataclass
class Placed:
    order: str


class Shop:
    """An app with an actor and a consumer, traced."""

    def __init__(self, app: hf.App, collected: Collected, *, optimistic: bool = False) -> None:
        self.app, self.ran = app, list[str]()
        ran, tracer = self.ran, api.get_tracer("theirs", tracer_provider=collected.provider)

        class Cart(hf.Actor, app=app, retry=AGAIN_AT_ONCE, optimistic=optimistic):
            n: int = 0

            async def add(self, count: int) -> int:
                ran.append("add")
                with tracer.start_as_current_span("GET /stock"):
                    api.get_current_span().set_attribute("rack", 7)
                self.n += count
                if count < 0:
                    raise ValueError("canary-4711")
                return self.n

            async def place(self, order: str) -> None:
                await app.publish(Placed(order))
                self.n += 1

            async def fail_once(self) -> None:
                ran.append("fail_once")
                self.n += 1
                if len(ran) == 1:
                    raise ValueError("canary-4711")

            @hf.read
            async def total(self) -> int:
                with tracer.start_as_current_span("GET /prices"):
                    return self.n

        @app.consumer(Placed)
        async def bill(event: Placed) -> None:
            ran.append(f"bill {event.order}")

        self.Cart = Cart
        collected.trace(app)


def named(spans, name):
    return [span for span in spans if span.name == name]


@pytest.mark.parametrize("optimistic", [False, True])
async def test_a_call_is_a_span_below_its_callers_and_users_spans_nest_in_it(memory_world, collected, optimistic):
    shop = Shop(memory_world.app(), collected, optimistic=optimistic)
    async with shop.app.worker():
        with within(CALLER):
            assert await shop.Cart.at("u").add(2) == 2
        assert await shop.Cart.at("u").add(1) == 3
    spans = collected.spans(shop.app)
    first, second = named(spans, "actor Cart.add")
    assert f"{first.context.trace_id:032x}-{first.parent.span_id:016x}" in CALLER
    assert second.parent is None and second.context.trace_id != first.context.trace_id
    below = [span.parent.span_id for span in named(spans, "GET /stock")]
    assert below == [first.context.span_id, second.context.span_id]
    assert first.kind is SpanKind.CONSUMER
    told = {"holdfast.actor": "Cart", "holdfast.key": "u", "holdfast.attempt": 1, "holdfast.outcome": "done"}
    assert told.items() <= first.attributes.items()


async def test_a_reading_method_is_a_span_too(memory_world, collected):
    shop = Shop(memory_world.app(), collected)
    async with shop.app.worker():
        with within(CALLER):
            assert await shop.Cart.at("u").total() == 0
    inner, read = collected.spans(shop.app)
    assert (inner.name, read.name) == ("GET /prices", "actor Cart.total")
    assert inner.parent.span_id == read.context.span_id
    assert f"{read.context.trace_id:032x}-{read.parent.span_id:016x}" in CALLER


async def test_a_call_that_raises_tells_the_type_of_its_error_alone(memory_world, collected):
    shop = Shop(memory_world.app(), collected)
    async with shop.app.worker():
        with pytest.raises(ValueError):
            await shop.Cart.at("u").add(-1)
    (span,) = named(collected.spans(shop.app), "actor Cart.add")
    assert span.attributes["holdfast.outcome"] == "failed"
    assert span.attributes["error.type"] == "builtins.ValueError"
    assert "canary-4711" not in span.to_json()


async def test_each_attempt_of_a_message_is_a_span(memory_world, collected, eventually):
    shop = Shop(memory_world.app(), collected)
    async with shop.app.worker():
        with within(CALLER):
            await hf.send(shop.Cart.at("u").fail_once)
        await eventually(lambda: len(shop.ran) == 2)
        assert await shop.Cart.at("u").add(0) == 1, "it comes behind the message"
    attempts = named(collected.spans(shop.app), "actor Cart.fail_once")
    told = [(span.attributes["holdfast.attempt"], span.attributes["holdfast.outcome"]) for span in attempts]
    assert told == [(1, "retrying"), (2, "done")]
    assert len({span.context.span_id for span in attempts}) == 2
    assert {f"{span.context.trace_id:032x}" for span in attempts} == {CALLER.split("-")[1]}


async def test_an_answer_from_a_record_is_no_span(memory_world, collected):
    shop = Shop(memory_world.app(), collected)
    async with shop.app.worker():
        for _ in range(3):
            assert await shop.Cart.at("u", request_id="r").add(2) == 2
    assert shop.ran == ["add"]
    assert len(named(collected.spans(shop.app), "actor Cart.add")) == 1


async def test_an_event_is_consumed_in_the_trace_of_the_call_that_published_it(memory_world, collected, eventually):
    shop = Shop(memory_world.app(), collected)
    async with shop.app.worker():
        with within(CALLER):
            await shop.Cart.at("u").place("o")
        await eventually(lambda: "bill o" in shop.ran)
    spans = collected.spans(shop.app)
    (place,), (consume,) = named(spans, "actor Cart.place"), named(spans, "consume bill")
    assert consume.parent.span_id == place.context.span_id
    assert consume.context.trace_id == place.context.trace_id
    assert consume.attributes["messaging.destination.name"] == "bill"
    assert consume.attributes["messaging.system"] == "holdfast"


async def test_a_workflow_publishes_as_a_producer(memory_world, collected, eventually):
    shop = Shop(memory_world.app(), collected)

    @shop.app.workflow
    async def order() -> None:
        await shop.app.publish(Placed("o"))

    async with shop.app.worker():
        await order()
        await eventually(lambda: "bill o" in shop.ran)
    spans = {span.name: span for span in collected.spans(shop.app)}
    assert spans["publish Placed"].kind is SpanKind.PRODUCER
    assert spans["consume bill"].parent.span_id == spans["workflow order"].context.span_id


async def test_the_context_of_a_call_is_left_with_it(memory_world, collected):
    shop, seen = Shop(memory_world.app(), collected), list[bool]()

    class Other(hf.Actor, app=shop.app):
        n: int = 0

        async def note(self) -> None:
            self.n += 1
            seen.append(api.get_current_span().get_span_context().is_valid)

    async with shop.app.worker():
        await asyncio.gather(*(Other.at("u").note() for _ in range(3)))
        assert not api.get_current_span().get_span_context().is_valid
    spans = named(collected.spans(shop.app), "actor Other.note")
    assert seen == [True] * 3
    assert [span.parent for span in spans] == [None] * 3
    assert len({span.context.trace_id for span in spans}) == 3


def test_a_message_and_a_call_of_one_id_have_spans_of_their_own():
    """The call runs in the millisecond in which the message has failed, and both are the first attempt."""

    def build(app, ledger):
        has_failed = asyncio.Event()

        class Till(hf.Actor, app=app):
            n: int = 0

            async def pay(self) -> int:
                self.n += 1
                if not has_failed.is_set():
                    has_failed.set()
                    raise ValueError("try again")
                return self.n

        async def user():
            till = Till.at("t", request_id="r")
            await hf.send(till.pay)
            await has_failed.wait()
            return await till.pay()

        return user

    run, compared = watch(Scenario("twice", build))
    assert (run.observation.result, run.violations) == ("1", [])
    assert compared.lost() == 0
    first, second = compared.emitted
    told = [(each.attributes["holdfast.attempt"], each.attributes["holdfast.outcome"]) for each in (first, second)]
    assert told == [(1, "retrying"), (1, "done")]
    assert first.start_time == second.start_time
    assert first.context.span_id != second.context.span_id
