"""Listing heads by the index ``heads``: complete, newest first, and nothing else of the table is read."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.backends.aws.short_pages import ShortPages
from tests.backends.aws.world import drop_table
from tests.worlds import PATIENCE_SECONDS

import holdfast as hf
from holdfast.actors.admin.listing import list_actors
from holdfast.backends.aws import DynamoStore, Transport, create_table, open_aws_home, set_up
from holdfast.backends.aws import table as table_module
from holdfast.backends.aws.connection import Connection, ThreadedConnection, perform
from holdfast.backends.aws.layout import LISTED_PARTS, listed_part
from holdfast.backends.aws.listing_setup import change_listing
from holdfast.backends.aws.settings import TRUSTED_MS, KnownSettings, Listing
from holdfast.backends.aws.table import create_table as create_dynamo_table
from holdfast.backends.aws.table import table_definition
from holdfast.errors import ConfigurationError, InvalidInput, StoreUnusable
from holdfast.items import Delete, Item, Put, Update
from holdfast.paging import heads
from holdfast.ports import Page

NUMBERS = itertools.count()


class Clock:
    ms = 1_000_000_000_000

    def now_ms(self) -> int:
        return self.ms


class Place:
    """A table, a clock, and the processes that are opened on it."""

    def __init__(self, table: str, client: Any) -> None:
        self.table, self.client, self.clock = table, client, Clock()
        self.transports: list[Transport] = []

    def transport(self, wrap: Callable[[Connection], Any] = lambda connection: connection) -> Transport:
        connection = wrap(ThreadedConnection(None, None, client=self.client))
        self.transports.append(transport := Transport(connection, self.table, random=Random(3)))
        return transport

    def process(self) -> DynamoStore:
        transport = self.transport()
        return DynamoStore(transport, self.table, settings=KnownSettings(transport, self.table, self.clock))

    def drop(self) -> None:
        for transport in self.transports:
            transport.close()
        drop_table(self.client, self.table)

    async def change(self, to: Listing, wrap: Callable[[Connection], Any] = lambda connection: connection) -> None:
        await change_listing(self.process(), self.transport(wrap), to)
        self.clock.ms += TRUSTED_MS

    async def wire(self, partition: str) -> dict[str, Any]:
        named = {"TableName": self.table, "Key": {"p": {"S": partition}, "s": {"S": "@"}}}
        return dict((await asyncio.to_thread(perform, self.client, "GetItem", named))["Item"])

    async def as_before_the_index(self, partition: str) -> None:
        """The head as a release wrote it that did not know the index."""
        change = {"TableName": self.table, "Key": {"p": {"S": partition}, "s": {"S": "@"}}}
        change |= {"UpdateExpression": "REMOVE h, c"}
        await asyncio.to_thread(perform, self.client, "UpdateItem", change)


@pytest.fixture
def place(client: Any, dynamodb: str) -> Iterator[Place]:
    table = f"listing-{next(NUMBERS)}"
    perform(client, "CreateTable", table_definition(table, listing=True))
    there = Place(table, client)
    yield there
    there.drop()


async def listed(store: DynamoStore, prefix: str, limit: int, status: str | None = None) -> list[Item]:
    """All pages of a listing, each of which keeps to its limit."""
    found: list[Item] = []
    after: str | None = None
    while True:
        page = await store.scan(prefix, status=status, after=after, limit=limit)
        assert len(page.items) <= limit
        found += page.items
        if (after := page.cursor) is None:
            return found


def names(found: list[Item]) -> list[str]:
    return [item.partition for item in found]


async def test_pages_are_complete_and_newest_first_whatever_their_size(place: Place) -> None:
    await place.change("index")
    store, random, created = place.process(), Random(5), dict[str, int]()
    for number in range(60):
        place.clock.ms += random.choice((0, 0, 1, 7))  # several in one millisecond
        name = f"wf#{random.choice('ab')}#{number}"
        created[name] = place.clock.ms
        status = random.choice(("READY", "DONE"))
        await store.write(Put(Item(name, status=status, body=b"{}")), Put(Item(name, "j#1", body=b"x" * 5_000)))
    await store.write(Put(Item("actor#A#1")), Put(Item("stream#s", body=b"x")))
    order = sorted(created, key=lambda name: (-created[name], int((listed_part(name) or "").rpartition("#")[2])))
    store.meter.reset()
    for limit in (3, 40, 1000):
        assert sorted(names(await listed(store, "wf#", limit))) == sorted(created)
        times = [created[name] for name in names(await listed(store, "wf#", limit))]
        assert times == [created[name] for name in order]
        only = names(await listed(store, "wf#a#", limit))
        assert sorted(only) == sorted(name for name in created if name.startswith("wf#a#"))
        assert {item.status for item in await listed(store, "wf#", limit, "DONE")} == {"DONE"}
    assert names(await listed(store, "actor#", 5)) == ["actor#A#1"]
    assert "Scan" not in store.meter.usage
    assert (await listed(store, "wf#", 5))[0].body == b"{}"


async def test_a_listing_reads_what_it_lists_and_not_the_journals(place: Place) -> None:
    await place.change("index")
    store = place.process()
    for number in range(20):
        segments = (Put(Item(f"wf#a#{number}", f"j#{n}", body=bytes(Random(n).randbytes(8_000)))) for n in range(5))
        await store.write(Put(Item(f"wf#a#{number}", status="DONE")), *segments)
    store.meter.reset()
    assert len(await listed(store, "wf#", 100)) == 20
    used = store.meter.total
    assert used.read_units <= LISTED_PARTS / 2 + 20 + 1, "half a unit for each part, one for each head, the settings"
    assert used.requests <= LISTED_PARTS + 2
    store.meter.reset()
    assert len((await store.scan("stream#", limit=100)).items) == 0
    assert store.meter.total.read_units >= 190, "what is in no such index is found by reading the table"


async def test_a_head_costs_one_unit_in_the_index_however_often_it_changes(place: Place) -> None:
    store = place.process()
    await place.change("index")
    store.meter.reset()
    await store.write(Put(Item("wf#a#1", status="READY")))
    assert store.meter.total.write_units == 2
    for status in ("RUNNING", "SUSPENDED", "DONE"):
        await store.write(Update(partition="wf#a#1", status=status, add_revision=1))
    await store.write(Update(partition="wf#a#1", owner="w", lease_until=5, add_epoch=1, expires_at=1, body=b"{}"))
    assert store.meter.total.write_units == 2 + 4
    await store.write(Put(Item("stream#s")))
    assert store.meter.total.write_units == 2 + 4 + 1, "it is of no kind that is listed"


async def test_one_that_is_gone_is_not_listed_and_one_that_was_created_again_comes_once(place: Place) -> None:
    await place.change("index")
    store = place.process()
    for number in range(6):
        place.clock.ms += 1
        await store.write(Put(Item(f"wf#a#{number}", status="READY")))
    await store.write(Delete("wf#a#2", "@"))
    place.clock.ms += 1
    await store.write(Put(Item("wf#a#1", status="AGAIN")))
    assert names(await listed(store, "wf#", 4)) == [f"wf#a#{n}" for n in (1, 5, 4, 3, 0)]


async def test_an_index_that_lags_names_a_head_twice_and_it_is_listed_once(place: Place) -> None:
    """It still shows the entry of a head that was created again since, next to the new one."""
    await place.change("index")

    class Lagging:
        def __init__(self, connection: Connection) -> None:
            self.connection = connection

        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            answer = await self.connection.send(operation, parameters)
            if operation == "Query" and parameters["ExpressionAttributeValues"][":h"]["S"] == listed_part("wf#a#1"):
                old = dict(answer["Items"][0], c={"N": str(place.clock.ms - 5)})
                answer["Items"] = [*answer["Items"], old]
            return answer

        def close(self) -> None:
            self.connection.close()

    await place.process().write(Put(Item("wf#a#1")))
    transport = place.transport(Lagging)
    store = DynamoStore(transport, place.table, settings=KnownSettings(transport, place.table, place.clock))
    assert names(await listed(store, "wf#", 10)) == ["wf#a#1"]


async def test_pages_that_are_empty_and_not_the_last_leave_nothing_out(place: Place) -> None:
    await place.change("index")
    late = {f"wf#a#{number}" for number in (0, 3, 4, 5, 11)}
    for number in range(12):
        place.clock.ms += number % 2
        await place.process().write(Put(Item(f"wf#a#{number}")))
    made: list[ShortPages] = []

    def short(connection: Connection) -> ShortPages:
        made.append(ShortPages(connection, late))
        return made[-1]

    transport = place.transport(short)
    store = DynamoStore(transport, place.table, settings=KnownSettings(transport, place.table, place.clock))
    for limit in (1, 3, 100):
        found = await listed(store, "wf#", limit)
        assert sorted(names(found)) == sorted({f"wf#a#{number}" for number in range(12)} - late)
        numbers = [int(name.rpartition("#")[2]) for name in names(found)]
        assert [(number + 1) // 2 for number in numbers] == sorted(((n + 1) // 2 for n in numbers), reverse=True)
    assert made[0].pages[0] > 0, "no page was empty"


async def test_what_older_releases_wrote_is_entered_before_anything_is_listed_by_the_index(place: Place) -> None:
    store = place.process()
    for number in range(40):
        await store.write(Put(Item(f"wf#a#{number}", status="READY", due_at=5)), Put(Item(f"wf#a#{number}", "j#1")))
        if number % 2:
            await place.as_before_the_index(f"wf#a#{number}")
    await store.write(Put(Item("stream#s")))
    every = {f"wf#a#{number}" for number in range(40)}

    class Dying:
        def __init__(self, connection: Connection, after: int) -> None:
            self.connection, self.left = connection, after

        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            self.left -= 1
            if self.left < 0:
                raise StoreUnusable("died")
            return await self.connection.send(operation, parameters)

        def close(self) -> None:
            self.connection.close()

    for requests in (1, 2, 5, 12):

        def dying(connection: Connection, after: int = requests) -> Dying:
            return Dying(connection, after)

        with pytest.raises(StoreUnusable, match="died"):
            await place.change("index", dying)
        assert set(names(await listed(place.process(), "wf#", 7))) == every, "still read from the table"
    before = {name: await place.wire(name) for name in every}
    await place.change("index")
    found = names(await listed(store, "wf#", 7))
    assert (set(found), len(found)) == (every, 40)
    assert {int(name[5:]) % 2 for name in found[20:]} == {1}, "the older ones come last"
    after = {name: await place.wire(name) for name in every}
    assert all({**after[name], "h": 0, "c": 0} == {**before[name], "h": 0, "c": 0} for name in every)
    assert "h" not in await place.wire("stream#s")


async def test_the_pages_of_one_listing_come_from_one_place_while_the_setting_changes(place: Place) -> None:
    store, every = place.process(), {f"wf#a#{number}" for number in range(30)}
    for name in every:
        await store.write(Put(Item(name)))

    async def over(change: Callable[[], Awaitable[None]]) -> list[str]:
        first: Page = await store.scan("wf#", limit=10)
        await change()
        found, after = [*first.items], first.cursor
        while after is not None:
            page = await store.scan("wf#", after=after, limit=10)
            found, after = [*found, *page.items], page.cursor
        return names(found)

    for to in ("index", "scan"):
        assert sorted(await over(lambda to=to: place.change(to))) == sorted(every)
    await place.change("index")
    page = await store.scan("wf#", limit=10)
    with pytest.raises(InvalidInput, match="another listing"):
        await store.scan("", after=page.cursor, limit=10)
    with pytest.raises(InvalidInput, match="is not a cursor"):
        await store.scan("wf#", after="[1]", limit=10)


async def test_an_app_lists_its_executions_and_actors_by_the_index(dynamodb: str) -> None:
    url = f"aws://listing-{os.getpid()}?region=eu-west-1&endpoint={dynamodb}"
    app = hf.App("listing", home=url)

    class Cart(hf.Actor, app=app):
        count: int = 0

        async def add(self) -> int:
            self.count += 1
            return self.count

    @app.workflow
    async def greet(name: str) -> str:
        return f"hello {name}"

    await create_table(url, listing=True)
    assert (await set_up(url, listing="index")).listing == "index"
    async with app.worker():
        for number in range(5):
            assert await (await greet.start(str(number), id=f"g{number}")) == f"hello {number}"
            await Cart.at(f"c{number}").add()
        async with asyncio.timeout(PATIENCE_SECONDS):  # the index comes late, through the proxy
            while len((await app.executions()).executions) + len((await app.list_actors()).items) < 10:
                await asyncio.sleep(0.1)
        page = await app.executions(limit=3)
        rest = await app.executions(limit=3, after=page.cursor)
        assert [each.id for each in (*page.executions, *rest.executions)] == ["g4", "g3", "g2", "g1", "g0"]
        actors = await list_actors(app.runtime(), None, after=None, limit=10)
        assert sorted(each.key for each in actors.items) == [f"c{number}" for number in range(5)]
    home = await open_aws_home(url)
    try:
        found = [head.partition async for head in heads(home.store, "wf#", status="COMPLETED")]
        assert len(found) == 5
        assert "Scan" not in home.store.meter.usage
    finally:
        await home.store.close()


class Service:
    """DynamoDB with a table without the index, which takes a while to make one."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.indexes = table_definition("t")["GlobalSecondaryIndexes"]
        self.looks = 0

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(operation)
        match operation:
            case "CreateTable":
                raise ClientError({"Error": {"Code": "ResourceInUseException"}}, operation)
            case "UpdateTable":
                assert {each["AttributeName"] for each in parameters["AttributeDefinitions"]} == {*"psqdhc"}
                (change,) = parameters["GlobalSecondaryIndexUpdates"]
                self.indexes = [*self.indexes, change["Create"]]
                self.looks = 0
            case "DescribeTable":
                self.looks += 1
                state = "ACTIVE" if self.looks > 2 else "CREATING"
                indexes = [each | {"IndexStatus": state} for each in self.indexes]
                schema = table_definition("t")["KeySchema"]
                return {"Table": {"TableStatus": "ACTIVE", "KeySchema": schema, "GlobalSecondaryIndexes": indexes}}
            case _:
                pass
        return {}

    def close(self) -> None: ...


async def test_a_table_that_exists_gets_the_index_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "PAUSE_SECONDS", 0)
    service = Service()
    assert await create_dynamo_table(service, "t", listing=True) is False
    assert service.indexes == table_definition("t", listing=True)["GlobalSecondaryIndexes"]
    assert service.asked[:8] == ["CreateTable", *["DescribeTable"] * 3, "UpdateTable", *["DescribeTable"] * 3]
    service.asked.clear()
    await create_dynamo_table(service, "t", listing=True)
    assert "UpdateTable" not in service.asked


async def test_a_table_without_the_index_is_told_apart(client: Any, dynamodb: str) -> None:
    table = f"listing-{next(NUMBERS)}"
    perform(client, "CreateTable", table_definition(table))
    place = Place(table, client)
    with pytest.raises(ConfigurationError, match=r"no index 'heads'.*--listing"):
        await place.change("index")
    place.drop()
