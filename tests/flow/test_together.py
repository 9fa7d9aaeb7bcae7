"""Limits that one call needs together are not changed so that it would wait for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.flow.test_limit_surfaces import asked
from tests.http.conftest import Api

import holdfast as hf

SMALL = hf.Rate(1, per="1s")
LARGE = hf.Rate(60, per="1m", burst=5)


def declare(app: hf.App, **weight: Any) -> tuple[hf.Limit, hf.Limit, hf.Workflow[[], str]]:
    """A workflow with a step that needs both limits."""
    requests, tokens = app.limit("requests", rate=SMALL), app.limit("tokens", rate=LARGE)

    @app.step(limit=[requests, tokens.of(**weight)])
    async def ask() -> str:
        return "asked"

    @app.workflow
    async def chat() -> str:
        return await ask()

    return requests, tokens, chat


async def test_a_rate_that_would_let_a_call_wait_for_ever_is_refused(memory_world) -> None:
    app = memory_world.app("shop")
    requests, tokens, chat = declare(app)
    async with app.worker():
        with pytest.raises(hf.InvalidInput, match="step needs .* 'requests' and 'tokens': give all but one"):
            await tokens.change(rate=SMALL)
        assert (await tokens.status()).rate == LARGE
        assert await chat() == "asked"
        await requests.change(rate=None)
        await tokens.change(rate=SMALL)
        with pytest.raises(hf.InvalidInput, match="give all but one"):
            await requests.reset()
        assert await chat() == "asked"
        await requests.change(rate=LARGE)
        assert await chat() == "asked"


async def test_it_is_refused_by_the_weight_of_the_call(memory_world) -> None:
    app = memory_world.app("shop")
    _, tokens, _ = declare(app, weight=4)
    async with app:
        with pytest.raises(hf.InvalidInput, match="larger than a call, 1 and 4"):
            await tokens.change(rate=hf.Rate(60, per="1m", burst=4))
        await tokens.change(rate=hf.Rate(60, per="1m", burst=9), permits=3)


async def test_methods_of_actors_count_too(memory_world) -> None:
    app = memory_world.app("shop")
    requests, tokens = app.limit("requests", rate=SMALL), app.limit("tokens", rate=LARGE)

    class Desk(hf.Actor, app=app):
        @hf.method(limit=[requests, tokens])
        async def ask(self) -> str:
            return "asked"

    async with app.worker():
        with pytest.raises(hf.InvalidInput, match="method 'ask' needs"):
            await tokens.change(rate=SMALL)
        assert await Desk.at("a").ask() == "asked"


async def test_it_is_refused_over_http(memory_world) -> None:
    app = memory_world.app("shop")
    declare(app)
    async with app:
        body = json.dumps({"rate": {"count": 1, "per": "1s"}}).encode()
        status, told = await asked(Api(app), "POST", "/v1/limits/tokens/set", body)
        assert (status, told["code"]) == (400, "invalid_input")


@pytest.mark.parametrize("key", [5, True, "x" * 501, "a\nb"])
async def test_the_status_of_what_is_no_key_is_refused(key, memory_world) -> None:
    app = memory_world.app("shop")
    requests, _, _ = declare(app)
    async with app:
        with pytest.raises(hf.InvalidInput, match="the key of a limit"):
            await requests.status(key)
