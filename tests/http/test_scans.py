"""Lists of a home that reads all it holds for them, where that is billed: nothing reads it unless it is told to."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from tests.dashboard.conftest import Person, tokens
from tests.http.conftest import Api
from tests.http.states.conftest import Boto

import holdfast as hf
from holdfast.actors.admin.listing import list_timers
from holdfast.backends.memory import open_memory_home
from holdfast.ports import Home

ROLE = "arn:aws:iam::000000000000:role/till"


class Table:
    """An app on it, and how often it was scanned."""

    def __init__(self) -> None:
        self.scans = 0

        async def open_home() -> Home:
            home = open_memory_home()
            scan = home.store.scan

            async def counted(*args, **options):
                self.scans += 1
                return await scan(*args, **options)

            home.store.scan = counted
            return replace(home, lists_by_scan=yes, census=None)

        self.app = hf.App("shop", home=open_home)

        @self.app.workflow
        async def order(n: int) -> int:
            return n

        class Cart(hf.Actor, app=self.app):
            async def add(self) -> None: ...

        self.order, self.cart = order, Cart


async def yes() -> bool:
    return True


@asynccontextmanager
async def opened():
    made = Table()
    async with made.app.worker():
        await (await made.order.start(1, id="one"))
        await made.cart.at("c").add()
        yield made


async def every(pages):
    return [page async for page in pages]


async def test_python_refuses_unless_it_is_told_to_scan():
    async with opened() as table:
        app = table.app
        refused = [
            app.executions(),
            app.list_actors(),
            list_timers(app.runtime(), None, limit=10),
            every(app.select().retry()),
            every(app.select(workflow="order").pages()),
        ]
        for each in refused:
            with pytest.raises(hf.InvalidInput, match=r"read the whole table, which is billed.*scan=True"):
                await each
        assert table.scans == 0
        assert [each.id for each in (await app.executions(scan=True)).executions] == ["one"]
        assert [each.key for each in (await app.list_actors(scan=True)).items] == ["c"]
        (page,) = await every(app.select(scan=True).delete())
        assert [each.id for each in page.changed] == ["one"]
        assert table.scans > 2


@pytest.mark.parametrize("path", ["/v1/workflows", "/v1/workflows/order", "/v1/actors"])
async def test_callers_over_http_are_told_how_to_ask_for_it(path):
    async with opened() as table:
        api = Api(table.app)
        status, told = await api.get(path)
        assert (status, told["code"]) == (400, "invalid_input"), told
        assert "?scan=true" in told["detail"]
        assert table.scans == 0
        status, told = await api.get(f"{path}?scan=true")
        assert status == 200
        assert len(told.get("executions", told.get("actors"))) == 1
        assert (await api.get(f"{path}?scan=1"))[0] == 400


@pytest.mark.parametrize(("page", "title"), [("executions", "one"), ("actors", "c")])
async def test_the_dashboard_asks_first(page, title):
    async with opened() as table:
        person = Person(table.app, authenticate=tokens())
        await person.log_in()
        assert (await person.get("/dashboard/overview")).status == 200
        asked = await person.get(f"/dashboard/{page}")
        assert asked.status == 200
        assert "That is billed" in asked.text
        assert table.scans == 0
        (link,) = (each for each in asked.main.all("a") if "scan=true" in each.attributes["href"])
        shown = await person.get(link.attributes["href"])
        assert title in [each.attributes.get("title") for each in shown.main.all("a")]
        assert shown.main.all("input", name="scan"), "the next filter would ask again"


def asks(request, **_):
    request.headers["x-holdfast-scan"] = "true"


async def test_a_server_may_scan_unasked():
    async with opened() as table:
        api = Api(table.app, scan=True)
        for path in ("/v1/workflows", "/v1/actors"):
            status, told = await api.get(path)
            assert status == 200
            assert len(told.get("executions", told.get("actors"))) == 1
        boto = Boto(table.app, authenticate=lambda _request: "tester", scan=True)
        assert (await boto.list_state_machines())["stateMachines"] == []
        definition = json.dumps({"StartAt": "A", "States": {"A": {"Type": "Pass", "End": True}}})
        made = await boto.create_state_machine(name="till", definition=definition, roleArn=ROLE)
        assert (await boto.list_executions(stateMachineArn=made["stateMachineArn"]))["executions"] == []


async def test_clients_of_the_api_of_state_machines_ask_by_a_header():
    async with opened() as table:
        boto = Boto(table.app, authenticate=lambda _request: "tester")
        definition = json.dumps({"StartAt": "A", "States": {"A": {"Type": "Pass", "End": True}}})
        made = await boto.create_state_machine(name="till", definition=definition, roleArn=ROLE)
        with pytest.raises(boto.exceptions.ValidationException, match="x-holdfast-scan: true"):
            await boto.list_executions(stateMachineArn=made["stateMachineArn"])
        assert table.scans == 0
        boto.events.register("before-sign.stepfunctions", asks)
        assert (await boto.list_executions(stateMachineArn=made["stateMachineArn"]))["executions"] == []
        assert table.scans > 0
