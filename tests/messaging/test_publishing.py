"""Publishing, from everywhere: with the commit it belongs to, or not at all (G5)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any
from unittest import mock

import msgspec
import pytest
from tests.messaging.places import Paid, Placed, virtually
from tests.nesting import nested

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.errors import Refused, StoreUnavailable
from holdfast.messaging import publishing
from holdfast.messaging.outbox import ENTRY_PREFIX
from holdfast.testing import FaultCounts, FaultsAt, faulty_home
from holdfast.testing.faults import LoseAnswer


def handled(app, event=Placed):
    """The orders of the events that a consumer of the app has handled."""
    seen = []

    @app.consumer(event)
    async def note(event) -> None:
        seen.append(event.order)

    return seen


@virtually
async def test_a_client_without_a_worker_publishes_for_whoever_comes(place):
    client = place.app()
    async with client:
        await client.publish(Placed("1"))
        await client.publish(Placed("2"))
    app = place.app()
    seen = handled(app)
    async with app.worker():
        await place.rest()
    assert sorted(seen) == ["1", "2"]


@virtually
async def test_a_client_beside_a_worker_is_heard(place):
    client, app = place.app(), place.app()
    seen = handled(app)
    async with client, app.worker():
        await place.rest()
        begun = place.now()
        await client.publish(Placed("1"))
        while not seen:
            await asyncio.sleep(0.01)
        assert place.now() - begun < 1  # rung for, not found by the sweep


@virtually
async def test_an_actors_method_publishes_with_its_commit_or_not_at_all(place):
    app = place.app()
    seen = handled(app)

    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self, *, fails: bool = False) -> int:
            self.orders += 1
            await app.publish(Placed(f"{self.key} {self.orders}"))
            await app.publish(Placed(f"{self.key} {self.orders} again"))
            waiting = [item.body for item in place.items(ENTRY_PREFIX)]
            assert not any(f"{self.key} {self.orders}".encode() in body for body in waiting), "it left too early"
            if fails:
                raise ValueError("no")
            return self.orders

    async with app.worker():
        assert await Shop.at("a").order() == 1
        with pytest.raises(ValueError, match="no"):
            await Shop.at("a").order(fails=True)
        assert await Shop.at("a").order() == 2
        await place.rest()
    assert seen == ["a 1", "a 1 again", "a 2", "a 2 again"]


@virtually
async def test_an_optimistic_actor_publishes_once_for_each_call(place):
    app = place.app()
    seen = handled(app)

    class Shop(hf.Actor, app=app, optimistic=True):
        orders: int = 0

        async def order(self) -> int:
            self.orders += 1
            await app.publish(Placed(str(self.orders)))
            return self.orders

    async with app.worker():
        assert sorted(await asyncio.gather(*[Shop.at("a").order() for _ in range(8)])) == list(range(1, 9))
        await place.rest()
    assert seen == [str(n) for n in range(1, 9)]


@virtually
async def test_a_method_that_only_reads_cannot_publish(place):
    app = place.app()
    seen = handled(app)

    class Shop(hf.Actor, app=app):
        @hf.read
        async def look(self) -> None:
            await app.publish(Placed("1"))

    async with app.worker():
        with pytest.raises(hf.InvalidState, match=r"hf\.read"):
            await Shop.at("a").look()
        await place.rest()
    assert seen == []


@virtually
async def test_a_consumer_publishes_with_the_mark_that_it_has_handled_its_event(place):
    app = place.app()
    attempts = []
    seen = handled(app, Paid)

    @app.consumer(Placed, retry=hf.Retry(max_attempts=3, initial="1s"))
    async def pay(event: Placed) -> None:
        attempts.append(event.order)
        await app.publish(Paid(event.order))
        if len(attempts) < 3:
            raise ValueError("not yet")

    async with app.worker():
        await app.publish(Placed("1"))
        await place.rest()
    assert attempts == ["1", "1", "1"]
    assert seen == ["1"]


@virtually
async def test_events_that_consumers_pass_on_in_a_circle_leave_nothing_that_grows(place):
    app = place.app()
    seen = []

    class Shop(hf.Actor, app=app):
        async def order(self) -> None:
            await app.publish(Placed("0"))

    @app.consumer(Placed)
    async def ping(event: Placed) -> None:
        await app.publish(Paid(event.order))

    @app.consumer(Paid)
    async def pong(event: Paid) -> None:
        seen.append(event.order)
        if len(seen) < 10:
            await app.publish(Placed(str(len(seen))))

    async with app.worker():
        await Shop.at("a").order()
        await place.rest()
    assert seen == [str(n) for n in range(10)]
    assert max(len(head.partition) for head in place.heads()) < 80
    lasting = [head.partition for head in place.heads() if head.expires_at is None]
    assert sorted(lasting) == ["actor#!shop!ping#actor#Shop#a", "actor#Shop#a", "out#shop"]


@virtually
async def test_a_workflow_body_publishes_once_whatever_its_replays_do(place):
    app = place.app(resident=0, linger_seconds=0, near_seconds=0)
    seen = handled(app)

    @app.workflow
    async def checkout(order: str) -> str:
        await app.publish(Placed(order))
        await hf.sleep("1m")
        await app.publish(Placed(f"{order} later"))
        await hf.sleep("1m")
        return order

    async with app.worker():
        assert await checkout("1") == "1"
        await place.rest()
    assert sorted(seen) == ["1", "1 later"]


@virtually
async def test_bodies_that_are_alike_publish_events_of_their_own(place):
    app = place.app()
    seen = handled(app)

    @app.workflow
    async def checkout() -> None:
        await asyncio.gather(app.publish(Placed("x")), app.publish(Placed("x")))

    async with app.worker():
        await checkout()
        await checkout()
        await place.rest()
    assert seen == ["x"] * 4


@virtually
async def test_a_tick_publishes_with_its_commit(place):
    app = place.app()
    seen = handled(app)

    @app.cron("0 * * * *")
    async def hourly(tick: datetime) -> None:
        await app.publish(Placed(f"{tick:%H:%M}"))

    async with app.worker():
        await asyncio.sleep(2.5 * 3600)
    assert len(seen) == 2


async def test_a_transactional_step_publishes_with_its_sql(sqlite_world, eventually):
    app = sqlite_world.app(limits=hf.Limits(sweep_seconds=1_000.0))
    seen = handled(app)
    attempts = []

    @app.transaction(retry=hf.Retry(max_attempts=3, initial="1ms"))
    def pay(cursor: hf.SqlCursor, order: str) -> None:
        attempts.append(order)
        cursor.execute("CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY)")
        cursor.execute("INSERT INTO payments VALUES (?)", (order,))
        app.outbox.add(Placed(order))
        if len(attempts) < 2:
            raise ValueError("not yet")

    @app.workflow
    async def checkout(order: str) -> None:
        await pay(order)

    async with app.worker():
        async with asyncio.timeout(60):  # rung for: the sweep would come too late
            await checkout("1")
            await eventually(lambda: seen)
        assert await app.transact(lambda cursor: list(cursor.execute("SELECT id FROM payments"))) == [("1",)]
    assert (attempts, seen) == (["1", "1"], ["1"])


async def test_a_transaction_publishes_with_its_sql_or_not_at_all(sqlite_world, eventually):
    app = sqlite_world.app()
    seen = handled(app)

    def paid(cursor: hf.SqlCursor) -> str:
        cursor.execute("CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY)")
        cursor.execute("INSERT INTO payments VALUES (1)")
        app.outbox.add(Placed("1"))
        return "paid"

    async with app.worker():
        assert await app.transact(paid) == "paid"
        with pytest.raises(Exception, match="UNIQUE"):
            await app.transact(paid)
        await app.publish(Placed("last"))
        await eventually(lambda: "last" in seen)
    assert sorted(seen) == ["1", "last"]


async def test_a_client_without_a_worker_makes_transactions_that_publish(sqlite_world, eventually):
    client, app = sqlite_world.app(), sqlite_world.app()
    seen = handled(app)
    async with client, app.worker():
        await client.transact(lambda _cursor: client.outbox.add(Placed("1")))
        await eventually(lambda: seen == ["1"])


@virtually
async def test_a_transaction_needs_a_sql_home_and_no_workflow_body(place):
    app = place.app()

    @app.workflow
    async def body() -> None:
        await app.transact(lambda _cursor: None)

    async with app.worker():
        with pytest.raises(hf.ConfigurationError, match="SQLite"):
            await app.transact(lambda _cursor: None)
        with pytest.raises(hf.ExecutionFailed, match=r"@app\.transaction"):
            await body()


@virtually
async def test_a_step_publishes_only_under_an_id(place):
    app = place.app()
    seen = handled(app)

    @app.step(retry=hf.Retry(max_attempts=2, initial="1s"))
    async def careless() -> None:
        await app.publish(Placed("careless"))

    @app.step(retry=hf.Retry(max_attempts=2, initial="1s"))
    async def careful() -> None:
        await app.publish(Placed("careful"), id=hf.current().idempotency_key)
        if len(seen) < 1:
            await asyncio.sleep(1)
            raise OSError("after the fact")

    @app.workflow
    async def body() -> str:
        await careful()
        try:
            await careless()
        except hf.NestedDurableCall as error:
            return str(error)
        return ""

    async with app.worker():
        assert "id=" in await body()
        await place.rest()
    assert seen == ["careful"]


@virtually
async def test_an_event_is_published_once_although_the_store_lost_the_answer(place):
    counts = FaultCounts()

    async def open_home():
        return faulty_home(open_memory_home(data=place.data), FaultsAt({2: LoseAnswer()}), counts=counts)

    client = hf.App("shop", home=open_home, clock=place.clock)
    app = place.app()
    seen = handled(app)
    async with app.worker():
        await place.rest()
        async with client:
            await client.publish(Placed("1"))
            await client.publish(Placed("2"))
        await place.rest()
    counts.require(1, LoseAnswer)
    assert sorted(seen) == ["1", "2"]


@virtually
async def test_what_outlives_its_handler_has_no_commit_to_publish_with(place):
    app = place.app()
    seen = handled(app)
    errors = []

    class Shop(hf.Actor, app=app):
        async def order(self) -> None:
            async def late() -> None:
                await asyncio.sleep(1)
                try:
                    await app.publish(Placed("late"))
                except hf.InvalidState as error:
                    errors.append(error)

            tasks.append(asyncio.create_task(late()))

    tasks: list[asyncio.Task[None]] = []
    async with app.worker():
        await Shop.at("a").order()
        await asyncio.gather(*tasks)
        await place.rest()
    assert len(errors) == 1
    assert seen == []


# ── What cannot be published ────────────────────────────────────────────────────────────────────────────────────────


@virtually
async def test_outside_of_a_commit_nothing_can_be_added_to_the_outbox(place):
    app = place.app()
    async with app:
        with pytest.raises(hf.InvalidInput, match=r"await app\.publish"):
            app.outbox.add(Placed("1"))
    with pytest.raises(hf.ConfigurationError, match="not open"):
        await app.publish(Placed("1"))


@virtually
async def test_an_event_has_the_app_s_limit_and_is_json(place):
    async def open_home():
        return open_memory_home(data=place.data)

    app = hf.App("shop", home=open_home, clock=place.clock, limit_bytes=1_000)
    seen = handled(app)

    @app.workflow
    async def body(length: int) -> None:
        await app.publish(Placed("x" * length))

    class Shop(hf.Actor, app=app):
        async def order(self, length: int) -> None:
            await app.publish(Placed("x" * length))

    async with app.worker():
        for publish in (lambda: app.publish(Placed("x" * 1_000)), lambda: Shop.at("a").order(1_000)):
            with pytest.raises(hf.PayloadTooLarge, match="Placed"):
                await publish()
        with pytest.raises(hf.ExecutionFailed, match="Placed"):
            await body(1_000)
        with pytest.raises(hf.SerializationError):
            await app.publish(object())
        await app.publish(Placed("x" * 900))
        await place.rest()
    assert [len(order) for order in seen] == [900]


@pytest.mark.parametrize("id", ["", "x" * 501, "a\nb", 17, b"x", "actor#Shop#a"])
def test_an_event_s_id_is_short_printable_text_and_no_actor(id):
    @virtually
    async def test(place):
        app = place.app()
        async with app.worker():
            with pytest.raises(hf.InvalidInput, match="an event's id"):
                await app.publish(Placed("1"), id=id)

    test()


class Deep(msgspec.Struct):
    order: Any


@virtually
async def test_an_event_is_published_if_its_consumers_can_be_given_it_and_refused_if_not(place):
    app = place.app()
    seen = handled(app, Deep)
    async with app.worker():
        await app.publish(Deep(nested(62)))
        for levels in (63, 64):
            with pytest.raises(hf.SerializationError, match="64 levels"):
                await app.publish(Deep(nested(levels)))
        await place.rest()
    assert seen == [nested(62)]


@virtually
async def test_an_event_that_is_refused_each_time_is_not_taken_for_published(place):
    app = place.app()

    async def refuse(_store, *_writes, ours):
        if not ours(None):
            raise Refused(1, None)

    async with app:
        with (
            mock.patch.object(publishing, "write_for_caller", refuse),
            pytest.raises(StoreUnavailable, match="nothing was published"),
        ):
            await app.publish(Placed("1"))
    assert place.items(ENTRY_PREFIX) == []
