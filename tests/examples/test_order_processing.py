"""Orders: what each actor allows, what the workflow undoes, and that no crash makes a difference to the books."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from unittest import mock

import order_processing
import pytest
from order_processing import PRICES, Order, Refused, Stock, Wallet, app, orders, process

import holdfast as hf
from holdfast.testing import Ledger, Scenario, crash_at_every_write
from holdfast.testing.simulation import Histories

LAMP, MUG = PRICES["lamp"], PRICES["mug"]


async def state_of(actor: str, key: str) -> object:
    return (await app.actor(actor, key).status()).state


def holding(free: int, gone: int = 0, **held: int) -> dict[str, object]:
    return {"free": free, "held": held, "gone": gone}


# ── The actors ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_held_is_released_or_gone(virtually):
    async def main() -> None:
        lamp = Stock.at("lamp")
        await lamp.add(5)
        await lamp.hold("a", 2)
        await lamp.hold("b", 3)
        assert await state_of("Stock", "lamp") == holding(0, a=2, b=3)
        await lamp.release("a")
        await lamp.settle("b")
        assert await state_of("Stock", "lamp") == holding(2, gone=3)

    virtually(app, main)


def test_ending_an_order_again_or_one_that_holds_nothing_changes_nothing(virtually):
    async def main() -> None:
        lamp = Stock.at("lamp")
        await lamp.add(5)
        await lamp.hold("a", 2)
        for _ in range(2):
            await lamp.release("a")
            await lamp.settle("a")
            await lamp.release("never")
        assert await state_of("Stock", "lamp") == holding(5)

    virtually(app, main)


@pytest.mark.parametrize(("actor", "lack"), [(Stock, "sold out"), (Wallet, "not enough money")])
def test_the_last_can_be_held_and_one_more_is_refused(virtually, actor, lack):
    async def main() -> None:
        it = actor.at("x")
        await it.add(3)
        with pytest.raises(Refused, match=lack):
            await it.hold("a", 4)
        await it.hold("a", 3)
        with pytest.raises(Refused, match=lack):
            await it.hold("b", 1)
        assert await state_of(actor.__name__, "x") == holding(0, a=3)

    virtually(app, main)


def test_many_at_once_hold_no_more_than_there_is(virtually):
    async def main() -> None:
        await Stock.at("lamp").add(10)
        answers = await asyncio.gather(
            *(Stock.at("lamp").hold(f"o{number}", 1) for number in range(25)), return_exceptions=True
        )
        assert sum(isinstance(answer, Refused) for answer in answers) == 15

    virtually(app, main)


# ── The workflow ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lines", "country", "ending"),
    [
        ({"lamp": 2, "mug": 1}, "Norway", "shipped"),
        ({"lamp": 2, "mug": 4}, "Norway", "sold out"),
        ({"mug": 1, "lamp": 3}, "Norway", "not enough money"),
        ({"lamp": 2, "mug": 1}, "Atlantis", "nobody delivers to Atlantis"),
    ],
)
def test_an_order_is_shipped_and_paid_for_or_neither(virtually, lines, country, ending):
    async def main() -> None:
        await Stock.at("lamp").add(3)
        await Stock.at("mug").add(3)
        await Wallet.at("ann").add(3 * LAMP)
        order = Order("o1", "ann", country, lines)
        assert await process(order) == ending
        if ending == "shipped":
            assert await state_of("Stock", "lamp") == holding(1, gone=2)
            assert await state_of("Stock", "mug") == holding(2, gone=1)
            assert await state_of("Wallet", "ann") == holding(LAMP - MUG, gone=2 * LAMP + MUG)
        else:
            assert await state_of("Stock", "lamp") == holding(3)
            assert await state_of("Stock", "mug") == holding(3)
            assert await state_of("Wallet", "ann") == holding(3 * LAMP)

    virtually(app, main)


def test_an_order_that_is_sent_again_is_the_same_order(virtually):
    async def main() -> None:
        await Stock.at("mug").add(3)
        await Wallet.at("ann").add(10 * MUG)
        order = Order("o1", "ann", "Norway", {"mug": 1})
        for _ in range(3):
            assert await (await process.start(order, id=order.id)) == "shipped"
        assert await state_of("Stock", "mug") == holding(2, gone=1)
        with pytest.raises(hf.IdempotencyMismatch):
            await process.start(Order("o1", "bob", "Norway", {"mug": 1}), id="o1")

    virtually(app, main)


def test_the_orders_are_the_same_every_time():
    made = list(orders(300))
    assert made == list(orders(300))
    assert len({order.id for order in made}) == 300
    assert {order.country for order in made} == {"Norway", "Atlantis"}
    assert all(order.cents > 0 and order.lines for order in made)


# ── Crashes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def registered_with(app: hf.App) -> Iterator[ModuleType]:
    """The example, as it would be if this were its app: each simulated process has its own."""
    spec = importlib.util.spec_from_file_location("order_processing_again", Path(order_processing.__file__))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {spec.name: module}), mock.patch.object(hf, "App", return_value=app):
        spec.loader.exec_module(module)
        yield module


def an_order(country: str):
    def build(app: hf.App, _ledger: Ledger):
        with registered_with(app) as example:
            pass

        async def user() -> list[object]:
            await example.Stock.at("lamp", request_id="delivery").add(3)
            await example.Wallet.at("ann", request_id="pay-in").add(3 * LAMP)
            handle = await example.process.start(example.Order("o1", "ann", country, {"lamp": 2}), id="o1")
            ending = await handle
            stock = (await app.actor("Stock", "lamp").status()).state
            wallet = (await app.actor("Wallet", "ann").status()).state
            return [ending, stock, wallet]

        return user

    return Scenario(f"an order from {country}", build, histories=Histories.REORDERED)


@pytest.mark.parametrize("country", ["Norway", "Atlantis"])
def test_a_crash_at_any_write_makes_no_difference_to_the_books(country):
    report = crash_at_every_write(an_order(country))
    report.require_success()
    assert report.points >= 40
