"""What a handler sends goes with its commit: to its own home only, and once under each id (G4, G11)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

import holdfast as hf


@dataclass
class Placed:
    order: str


# ── Another home ────────────────────────────────────────────────────────────────────────────────────────────────────


def neighbour(tmp_path):
    """An app on a file of its own, and what may be asked of it."""
    app = hf.App("annex", home=f"sqlite:///{tmp_path}/annex.db")

    class Stock(hf.Actor, app=app):
        taken: int = 0

        async def take(self) -> int:
            self.taken += 1
            return self.taken

    @app.workflow
    async def packing(order: str) -> str:
        return order

    return app, {
        "send": lambda: hf.send(Stock.at("s").take),
        "publish": lambda: app.publish(Placed("1")),
        "start": lambda: packing.start("1", id="1"),
        "call": lambda: Stock.at("s").take(),
    }


@pytest.mark.parametrize("what", ["send", "publish", "start"])
async def test_nothing_leaves_with_a_commit_for_another_home(world, tmp_path, what):
    app = world.app()
    annex, asks = neighbour(tmp_path)

    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self) -> None:
            self.orders += 1
            await asks[what]()

        @hf.read
        async def count(self) -> int:
            return self.orders

    async with app.worker(), annex.worker():
        with pytest.raises(hf.ConfigurationError, match="annex") as caught:
            await Shop.at("a").order()
        assert "another home" in str(caught.value)
        assert await Shop.at("a").count() == 0, "rolled back"
        assert (await annex.outbox.waiting()).items == ()
        assert (await annex.list_actors()).items == ()
        assert (await annex.executions()).executions == ()


async def test_a_transaction_publishes_on_its_own_home_only(sqlite_world, tmp_path):
    app = sqlite_world.app()
    annex, _ = neighbour(tmp_path)

    def work(cursor: hf.SqlCursor) -> None:
        cursor.execute("CREATE TABLE payments (id TEXT)")
        annex.outbox.add(Placed("1"))

    async with app, annex:
        await annex.outbox.create()
        with pytest.raises(hf.ConfigurationError, match="annex"):
            await app.transact(work)
        rows = await app.transact(lambda cursor: list(cursor.execute("SELECT name FROM sqlite_schema")))
        assert ("payments",) not in rows
        assert (await annex.outbox.waiting()).items == ()


async def test_an_actor_on_another_home_can_be_called(world, tmp_path):
    app = world.app()
    annex, asks = neighbour(tmp_path)

    class Shop(hf.Actor, app=app):
        async def order(self) -> int:
            return await asks["call"]()

    async with app.worker(), annex.worker():
        assert await Shop.at("a").order() == 1


async def test_apps_on_one_home_send_to_each_other(world):
    app, other = world.app(), world.app("annex")
    seen = []

    class Stock(hf.Actor, app=other):
        async def take(self) -> None:
            seen.append("taken")

    class Shop(hf.Actor, app=app):
        async def order(self) -> None:
            await hf.send(Stock.at("s").take)

    async with app.worker(), other.worker():
        await Shop.at("a").order()
        async with asyncio.timeout(60):
            while not seen:
                await asyncio.sleep(0.01)


# ── One id, two inputs ──────────────────────────────────────────────────────────────────────────────────────────────


def declare(app):
    @app.workflow
    async def packing(order: str) -> str:
        return order

    class Shop(hf.Actor, app=app):
        async def start(self, *orders: str) -> None:
            for order in orders:
                await packing.start(order, id="p")

        async def start_at_once(self, *orders: str) -> None:
            await asyncio.gather(*(packing.start(order, id="p") for order in orders))

    return Shop, packing


@pytest.mark.parametrize("method", ["start", "start_at_once"])
async def test_two_starts_of_one_id_with_other_inputs_in_one_method_are_refused(world, method):
    app = world.app()
    shop, _ = declare(app)
    async with app.worker():
        with pytest.raises(hf.IdempotencyMismatch):
            await getattr(shop.at("a"), method)("1", "2")
        assert (await app.executions()).executions == (), "none of it happened"
        await getattr(shop.at("a"), method)("1", "1")
        assert await app.handle("packing", "p") == "1"


async def test_starts_of_one_id_in_calls_that_share_a_commit_are_one_or_refused(world):
    app = world.app()
    shop, packing = declare(app)
    async with app.worker():
        await shop.at("a").start()
        calls = [shop.at("a").start(order) for order in ("1", "1", "2", "2", "1")]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in answers] == [
            type(None),
            type(None),
            hf.IdempotencyMismatch,
            hf.IdempotencyMismatch,
            type(None),
        ]
        assert await packing.handle("p") == "1"
        with pytest.raises(hf.IdempotencyMismatch):
            await shop.at("a").start("2")


def outliving(app, goes_on):
    """An actor that leaves a task behind, and what the task hears when it touches the actor."""
    heard = list[str]()

    class Till(hf.Actor, app=app):
        cents: int = 0

        @hf.timer
        async def late(self) -> None:
            heard.append("the timer fired")

        async def _later(self) -> None:
            await goes_on.wait()
            for touch in (
                lambda: setattr(self, "cents", 100),
                lambda: heard.append(str(self.cents)),
                lambda: self.late.after("1ms"),
                self.late.cancel,
            ):
                try:
                    touch()
                except hf.InvalidState:
                    heard.append("refused")

        async def begin(self) -> None:
            left.append(asyncio.create_task(self._later()))
            self.cents += 1

        async def add(self) -> int:
            self.cents += 1
            return self.cents

        @hf.read
        async def look(self) -> int:
            left.append(asyncio.create_task(self._later()))
            return self.cents

    left = list[asyncio.Task[None]]()
    return Till, left, heard


@pytest.mark.parametrize("method", ["begin", "look"])
async def test_a_task_that_outlives_its_method_changes_nothing_of_the_actor(app, method):
    goes_on = asyncio.Event()
    till_type, left, heard = outliving(app, goes_on)
    till = till_type.at("t")
    async with app.worker():
        assert await till.add() == 1
        await getattr(till, method)()
        before = await till.add()
        goes_on.set()
        await asyncio.gather(*left)
        assert await till.look() == before
        assert await till.add() == before + 1
    assert heard[:4] == ["refused"] * 4
