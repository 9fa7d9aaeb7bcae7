"""Limits of calls from outside: the command line, HTTP, metrics, the doctor and ``show``."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner
from tests.flow.test_metrics import value
from tests.http.conftest import Api

import holdfast as hf
from holdfast.cli import main
from holdfast.cli.checks.limits import check_limits
from holdfast.commands import Context
from holdfast.commands.execution import Show
from holdfast.commands.limit import ChangeLimit
from holdfast.commands.numbers import GivenRate
from holdfast.testing import VirtualClock, run_virtual


def declare(app: hf.App) -> tuple[hf.Limit, hf.Workflow[[], str]]:
    bank = app.limit("bank", permits=2, rate=hf.Rate(100, per="1m", burst=9))

    @app.step(limit=bank)
    async def call() -> str:
        await asyncio.sleep(0.1)
        return "done"

    @app.workflow
    async def job() -> str:
        return await call()

    return bank, job


def invoke(*line: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["limit", *line])
    assert result.exit_code == status, result.output
    return result.output


def test_an_operator_without_the_code_changes_a_limit_that_was_used(tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    app = hf.App("shop", home=url)
    _, job = declare(app)

    async def use() -> None:
        async with app.worker():
            await job()

    asyncio.run(use())
    assert "2, 0 lent" in invoke("show", "shop/bank", "--home", url)
    told = invoke("set", "shop/bank", "permits=0", "rate=5/1s/10", "--home", url)
    assert told == "shop/bank: permits=0 rate=5/1s/10 from now on\n"
    told = json.loads(invoke("show", "shop/bank", "--json", "--home", url))
    assert (told["permits"], told["rate"]) == (0, {"count": 5, "per": 1.0, "burst": 10})
    for rate, shown in (("5/365d", "5/31536000s"), ("5/1.5s", "5/1500ms"), ("5/31536000s", "5/31536000s")):
        invoke("set", "shop/bank", f"rate={rate}", "--home", url)
        assert shown in invoke("show", "shop/bank", "--home", url)
    invoke("reset", "shop/bank", "--home", url)
    assert json.loads(invoke("show", "shop/bank", "--json", "--home", url))["permits"] == 2
    assert "no limit 'shop/banks'" in invoke("show", "shop/banks", "--home", url, status=1)
    for number in ("permits", "permits=many", "speed=3"):
        invoke("set", "shop/bank", number, "--home", url, status=2)


async def asked(api: Api, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, Any]]:
    response = await api.send(method, path, body)
    return response.status, json.loads(response.body)


async def test_a_limit_is_listed_shown_and_changed_over_http(memory_world) -> None:
    app = memory_world.app("shop")
    declare(app)
    async with app.worker():
        api = Api(app)
        assert await asked(api, "POST", "/v1/limits/bank/set", b'{"permits": 5}') == (
            200,
            {"limit": "bank", "action": "set"},
        )
        _, told = await asked(api, "GET", "/v1/limits")
        assert [(each["app"], each["name"], each["permits"]) for each in told["limits"]] == [("shop", "bank", 5)]
        assert (await asked(api, "POST", "/v1/limits/bank/reset"))[0] == 200
        _, told = await asked(api, "GET", "/v1/limits/shop%2Fbank?key=acme")
        assert (told["permits"], told["key"], told["rate"]["count"], told["lent"]) == (2, "acme", 100, 0)
        for body in (b"", b"{}", b'{"permits": -1}', b'{"speed": 1}'):
            assert (await asked(api, "POST", "/v1/limits/bank/set", body))[0] == 400
        assert (await asked(api, "GET", "/v1/limits/banks"))[0] == 404


def test_what_waits_is_told_by_show_the_metrics_and_the_doctor(memory_world) -> None:
    async def run() -> None:
        app = memory_world.app("shop", clock=VirtualClock())
        bank, job = declare(app)
        async with app.worker():
            app.prometheus()
            await job()
            assert [each.level for each in await check_limits(app.runtime())] == ["ok"]
            await bank.change(permits=0)
            handle = await job.start(id="waits")
            await asyncio.sleep(5)
            view = await Show("job", "waits").perform(Context(app))
            assert [each.limit for each in view.execution.waits] == ["bank"]
            assert [each.title for each in view.troubles] == ["step call waits for a permit of bank"]
            assert value(app, "holdfast_limit_waiting", limit="bank") == 1
            assert value(app, "holdfast_limit_begun_total", limit="bank") == 1
            assert "calls wait (1)" in (await check_limits(app.runtime()))[0].told
            await bank.reset()
            assert await handle == "done"

    run_virtual(run)


@pytest.mark.parametrize("key", ["", "acme"])
async def test_the_keys_of_a_limit_are_told(memory_world, key: str) -> None:
    app = memory_world.app("shop")
    bank = app.limit("bank", permits=1)

    @app.step(limit=bank.of("tenant"))
    async def call(tenant: str) -> None: ...

    @app.workflow
    async def job(tenant: str) -> None:
        await call(tenant)

    async with app.worker():
        await job("acme")
        _, told = await asked(Api(app), "GET", f"/v1/limits/bank?key={key}" if key else "/v1/limits/bank")
        assert (told["keys"], told["lent"]) == (([], 1) if key else (["acme"], 0))


def test_the_audit_tells_the_numbers_of_a_change() -> None:
    assert str(ChangeLimit("bank", permits=None, rate=GivenRate(5, "1s", 10))) == "bank permits=none rate=5/1s/10"
    assert str(ChangeLimit("bank", permits=0)) == "bank permits=0"
