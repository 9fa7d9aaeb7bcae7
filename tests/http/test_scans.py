"""Lists of a home that reads all it holds for them, where that is billed: nothing reads it unless it is told to."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from tests.dashboard.conftest import Person, tokens
from tests.http.conftest import Api
from tests.http.states.conftest import Boto

import holdfast as hf
from holdfast.actors.admin.listing import list_timers
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.commands import IN_HOME, Context
from holdfast.commands.system import ListLeases, ListOutbox, ListSchedules
from holdfast.items import Item, Put
from holdfast.messaging import schedules
from holdfast.messaging.schedules import list_schedules
from holdfast.patterns import lease_list
from holdfast.ports import Home

ROLE = "arn:aws:iam::000000000000:role/till"


@dataclass
class Placed:
    order: str


class Table:
    """An app on it, and how often it was scanned, for heads or for names."""

    def __init__(self) -> None:
        self.scans = 0
        data = MemoryData()

        async def open_home() -> Home:
            home = open_memory_home(data=data)
            for name in ("scan", "partitions"):
                setattr(home.store, name, self.counted(getattr(home.store, name)))
            return replace(home, lists_by_scan=yes, census=None)

        self.app = hf.App("shop", home=open_home)

        @self.app.workflow
        async def order(n: int) -> int:
            return n

        class Cart(hf.Actor, app=self.app):
            async def add(self) -> None: ...

        @self.app.consumer(Placed)
        async def bill(event: Placed) -> None: ...

        @self.app.cron("0 0 1 1 *")
        async def yearly() -> None: ...

        self.order, self.cart = order, Cart

    def counted(self, read):
        async def counted(*args, **options):
            self.scans += 1
            return await read(*args, **options)

        return counted


async def yes() -> bool:
    return True


@asynccontextmanager
async def opened():
    made = Table()
    async with made.app.worker():
        await (await made.order.start(1, id="one"))
        await made.cart.at("c").add()
        yield made


@asynccontextmanager
async def waiting():
    """One with an event on its way, a schedule, and a lease that is held. Nothing works on it."""
    async with opened() as table:
        while not (await list_schedules(table.app.runtime(), None, after=None, limit=1, scan=True)).items:
            await asyncio.sleep(0.01)
    async with table.app, table.app.lease("report"):
        await table.app.publish(Placed("one"))
        table.scans = 0
        yield table


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


LISTS = [
    ("outbox", "events", "Placed"),
    ("schedules", "schedules", "yearly"),
    ("leases", "leases", "report"),
]


async def test_python_refuses_lists_of_the_whole_home_unless_it_is_told_to_scan():
    async with waiting() as table:
        for command in (ListOutbox, ListSchedules, ListLeases):
            with pytest.raises(hf.InvalidInput, match=r"read the whole table, which is billed.*scan=True"):
                await command().perform(Context(table.app, IN_HOME))
        assert table.scans == 0
        for command in (ListOutbox, ListSchedules, ListLeases):
            assert len((await command(scan=True).perform(Context(table.app, IN_HOME))).items) == 1
            assert table.scans > 0


async def test_leases_of_all_kinds_take_one_look_at_the_table():
    async with waiting() as table, table.app.semaphore("api", 2):
        page = await ListLeases(scan=True).perform(Context(table.app, IN_HOME))
        assert sorted((each.kind, each.name) for each in page.items) == [("lease", "report"), ("semaphore", "api")]
        assert (page.after, table.scans) == (None, 1)
        for limit in (1, 2, 1_000):
            found, after = [], None
            while True:
                page = await ListLeases(after=after, limit=limit, scan=True).perform(Context(table.app, IN_HOME))
                found += [each.name for each in page.items]
                if (after := page.after) is None:
                    break
            assert sorted(found) == ["api", "report"]


@pytest.mark.parametrize(("path", "items", "name"), LISTS)
async def test_callers_over_http_ask_for_lists_of_the_whole_home(path, items, name):
    async with waiting() as table:
        api = Api(table.app)
        status, told = await api.get(f"/v1/{path}")
        assert (status, told["code"]) == (400, "invalid_input"), told
        assert "?scan=true" in told["detail"]
        assert table.scans == 0
        for asking in (api, Api(table.app, scan=True)):
            status, told = await asking.get(f"/v1/{path}" + ("?scan=true" if asking is api else ""))
            assert status == 200
            assert len(told[items]) == 1
            assert name in told[items][0].values()


async def test_events_of_one_app_are_found_without_a_scan():
    async with waiting() as table:
        status, told = await Api(table.app).get("/v1/outbox?app=shop")
        assert (status, [each["event"] for each in told["events"]]) == (200, ["Placed"])
        person = Person(table.app, authenticate=tokens())
        await person.log_in()
        assert "Placed" in (await person.get("/dashboard/outbox?app=shop")).text
        assert table.scans == 0


async def test_leases_of_processes_are_left_out_unless_asked_for():
    async with waiting() as table:
        api, me = Api(table.app), table.app.runtime().home.owner
        status, told = await api.get("/v1/workers")
        assert (status, told["whole"]) == (200, False)
        assert {each["owner"]: each["leases"] for each in told["workers"]}[me] == 0
        person = Person(table.app, authenticate=tokens())
        await person.log_in()
        assert "Leases are left out" in (await person.get("/dashboard/workers")).text
        assert table.scans == 0
        _, told = await api.get("/v1/workers?scan=true")
        assert told["whole"] is True
        assert {each["owner"]: each["leases"] for each in told["workers"]}[me] == 1


@pytest.mark.parametrize(("page", "_items", "name"), LISTS)
async def test_the_dashboard_asks_before_lists_of_the_whole_home(page, _items, name):
    async with waiting() as table:
        person = Person(table.app, authenticate=tokens())
        await person.log_in()
        asked = await person.get(f"/dashboard/{page}")
        assert "That is billed" in asked.text
        assert name not in asked.text
        assert ("--listing index" in asked.text) == (page == "schedules"), "events and leases are in no index"
        assert table.scans == 0
        (link,) = (each for each in asked.main.all("a") if "scan=true" in each.attributes["href"])
        shown = await person.get(link.attributes["href"])
        assert name in shown.text
        assert shown.main.all("input", name="scan"), "the next filter would ask again"


@pytest.mark.parametrize("page", ["schedules", "leases"])
async def test_a_page_without_rows_says_that_not_all_was_read(page, monkeypatch):
    monkeypatch.setattr(schedules, "MOST_READS", 1)
    monkeypatch.setattr(lease_list, "MOST_READS", 1)
    monkeypatch.setattr("holdfast.dashboard.pages.system.PAGE_ROWS", 1)
    async with waiting() as table:
        for number in range(3):
            await table.app.runtime().home.store.write(Put(Item(f"actor#!shop!c{number}!#", status="READY")))
        person = Person(table.app, authenticate=tokens())
        await person.log_in()
        shown = await person.get(f"/dashboard/{page}?scan=true")
        assert "None so far" in shown.text
        assert [each for each in shown.main.all("a") if each.attributes.get("rel") == "next"]


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
