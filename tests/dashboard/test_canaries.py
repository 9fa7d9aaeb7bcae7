"""Secrets that are planted in a home: no page, command, log line, metric or trace has any of them in it."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress

import msgspec
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.dashboard.conftest import TOKENS, Person, at, tokens
from tests.dashboard.test_names import rows

import holdfast as hf
import holdfast.otel
from holdfast.commands.shown import shown
from holdfast.dashboard.navigation import ADDRESSES

SECRET = "canary-of-a-secret"  # noqa: S105 - it is planted
PASSWORD = "canary-of-an-address"  # noqa: S105 - it is planted
PATIENCE_SECONDS = 60
URL = f"https://ann:{PASSWORD}@bank.example/pay"


def make_app(home: str, heard: list[str]) -> hf.App:
    app = hf.App("shop", home=home)

    @app.step(retry=hf.Retry(max_attempts=1))
    async def charge(card: hf.Secret) -> hf.Secret:
        return card

    @app.step(retry=hf.Retry(max_attempts=1))
    async def call(card: hf.Secret, token: str) -> None:
        raise ConnectionError(f"{URL} refused {card} with {token}")

    @app.step
    async def tell(token: str) -> str:
        heard.append(token)
        return token

    @app.workflow
    async def parcel(card: hf.Secret) -> str:
        await charge(card)
        answer = hf.callback(str)
        await tell(answer.token)
        with suppress(hf.StepFailed, ConnectionError):
            await call(card, answer.token)
        return await answer

    @app.workflow
    async def failing(card: hf.Secret, token: str) -> None:
        await call(card, token)

    class Vault(hf.Actor, app=app, retry=hf.Retry(max_attempts=1)):
        keys: list[hf.Secret] = hf.field(default_factory=list)

        async def add(self, key: hf.Secret, fails: bool = False) -> None:
            if fails:
                raise ConnectionError(f"{URL} refused {key} with {heard[0]}")
            self.keys.append(key)

    app.Vault = Vault  # type: ignore[attr-defined]  # for the test
    return app


async def test_no_secret_is_on_any_page_or_in_any_log_metric_or_trace(tmp_path, caplog):
    heard: list[str] = []
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    app = make_app(f"sqlite:///{tmp_path}/shop.db", heard)
    holdfast.otel.trace(app, provider=provider)
    caplog.set_level(logging.INFO)
    told: dict[str, str] = {}
    card = hf.Secret(SECRET)
    async with app.worker():
        await app.registry.workflow("parcel").start(card, id="p")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "callback" not in [each.kind for each in (await app.handle("parcel", "p").status()).waits]:
                await asyncio.sleep(0.01)
        with suppress(hf.ExecutionFailed):
            await (await app.registry.workflow("failing").start(card, heard[0], id="f"))
        await app.Vault.at("v").add(card)
        await hf.send(app.Vault.at("w").add, card, fails=True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await app.parked()).items:
                await asyncio.sleep(0.01)
        person = Person(app, authenticate=tokens())
        await person.log_in("ann")
        pages = [f"/dashboard/{each.page}" for each in ADDRESSES if each.label] + [
            at("parcel", "p"),
            at("failing", "f"),
        ]
        while pages:
            where = pages.pop()
            answer = await person.get(where)
            assert answer.status == 200, (where, answer.text)
            told[where] = answer.text
            links = [each.attributes["href"] for each in answer.main.all("a")]
            pages += [
                each for each in dict.fromkeys(links) if each not in told and each not in pages and each[0] == "/"
            ]
        listed = await person.get("/dashboard/executions")
        on = [json.dumps(each) for each in (["parcel", "p"], ["failing", "f"])]
        for action, field in (("signal", "name"), ("fork", "before"), ("callback answer", "operation")):
            told[f"{action} asks"] = (await person.act(listed, action, on=on)).text
            told[f"{action} tells"] = (await person.act(listed, action, on=on, value="{", **{field: "none#0"})).text
        assert "callback#0" in told["callback answer asks"] and "0 of 2 done" in told["callback answer tells"]
        bearer = {"authorization": f"Bearer {TOKENS['ann']}"}
        for path in ("workflows/parcel/p/show?payloads=yes", "workflows/failing/f/show", "workflows", "metrics"):
            answer = await person.get(f"/v1/{path}", **bearer)
            assert answer.status in (200, 400), (path, answer.text)
            told[path] = answer.text
        told["audit"] = str(await rows(app))
        told["prometheus"] = app.prometheus()
    told["log"] = caplog.text + "".join(map(hf.JsonLines().format, caplog.records))
    assert provider.force_flush()
    told["spans"] = "".join(each.to_json() for each in spans.get_finished_spans())
    assert "ConnectionError" in told["log"] and "ConnectionError" in told[at("failing", "f")]
    assert any("/letter?" in where for where in told)
    assert len(told) > 20 and "parcel" in told["spans"]
    planted = {SECRET, PASSWORD, heard[0], TOKENS["ann"]}
    found = [
        (where, each[:12], text[max(0, text.index(each) - 160) : text.index(each) + 5])
        for where, text in told.items()
        for each in planted
        if each in text
    ]
    assert not found, found
    assert json.loads(msgspec.json.encode(shown({"card": card})))["card"] == "***"
