"""Records of the log name the span that is current, and no secret is in a span, a metric or a log."""

from __future__ import annotations

import io
import json
import logging

import pytest
from opentelemetry import trace as api

import holdfast as hf

CANARY = "canary-4711"


@pytest.fixture
def lines():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(hf.JsonLines())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(before)


async def test_a_record_names_the_span_of_the_attempt_in_which_it_was_made(memory_world, collected, lines):
    app, log = memory_world.app(), logging.getLogger("shop")

    @app.step
    async def charge() -> None:
        log.info("in a step")

    @app.workflow
    async def checkout() -> None:
        log.info("in a body")
        await charge()
        await Cart.at("u").add()

    class Cart(hf.Actor, app=app):
        n: int = 0

        async def add(self) -> None:
            log.info("in a method")
            self.n += 1

    collected.trace(app)
    async with app.worker():
        await checkout()
    log.info("elsewhere")
    with api.get_tracer("theirs", tracer_provider=collected.provider).start_as_current_span("request") as request:
        log.info("in a span")
    spans = collected.named(app)
    told = {line["message"]: line for line in lines()}
    for message, span in (("in a step", spans["step charge"]), ("in a method", spans["actor Cart.add"])):
        assert told[message]["trace_id"] == f"{span.context.trace_id:032x}"
        assert told[message]["span_id"] == f"{span.context.span_id:016x}"
    assert told["in a span"]["span_id"] == f"{request.get_span_context().span_id:016x}"
    assert told["in a step"]["operation"] and told["in a method"]["actor"] == "Cart"
    assert "trace_id" not in told["elsewhere"] and "trace_id" not in told["in a body"]


async def test_no_span_metric_or_record_has_what_is_secret(memory_world, collected, lines, eventually):
    """The secret is an argument, a result, a state and a signal; errors of actors and steps have no word of
    it in spans and metrics. Their messages are in the log, so what raises here keeps its secret as a ``Secret``.
    """
    app, done = memory_world.app(), list[str]()

    @app.step(retry=hf.Retry(max_attempts=2, initial="1ms"))
    async def charge(card: str) -> str:
        if hf.current().attempt == 1:
            raise ValueError(hf.Secret(card))
        return card

    class Vault(hf.Actor, app=app, retry=hf.Retry(max_attempts=2, initial="1ms")):
        kept: str = ""

        async def keep(self, card: str) -> str:
            self.kept = card
            return card

        async def fail(self, card: str) -> None:
            done.append(card)
            self.kept = card
            raise ValueError(hf.Secret(card))

    @app.workflow
    async def checkout(card: str) -> str:
        assert await hf.signal("card", str) == card
        return await Vault.at("v").keep(await charge(card))

    collected.trace(app)
    async with app.worker():
        app.prometheus()
        handle = await checkout.start(CANARY, id="a")
        await handle.signal("card", CANARY)
        assert await handle == CANARY
        await hf.send(Vault.at("v").fail, CANARY)
        await eventually(lambda: app.telemetry.counts["parked"])
        told = app.prometheus()
    spans = collected.spans(app)
    assert {"workflow checkout", "actor Vault.keep", "actor Vault.fail", "step charge"} <= {each.name for each in spans}
    assert CANARY not in told
    assert CANARY not in "".join(each.to_json() for each in spans)
    records = lines()
    assert any("parked" in each["message"] for each in records)
    assert CANARY not in json.dumps(records)
