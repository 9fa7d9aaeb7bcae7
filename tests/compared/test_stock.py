"""Reserving several articles by hand, and ours, under the same schedules."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tests.compared import naive
from tests.compared.stage import do, outcome

import holdfast as hf

ORDER = {"mug": 3, "rare": 1}
THERE = {"mug": 10, "rare": 0}


class SoldOut(Exception):
    """There are not that many."""


def by_hand(app, stage):
    for sku, left in THERE.items():
        stage.store.rows.setdefault(f"stock/{sku}", {"left": left})

    async def reserve():
        await naive.reserve(stage.store, ORDER)

    async def left(sku):
        return stage.store.rows[f"stock/{sku}"]["left"]

    async def restock(sku, count):
        stage.store.rows[f"stock/{sku}"]["left"] = count

    return SimpleNamespace(reserve=reserve, left=left, restock=restock)


def ours(app, stage):
    stock = app.documents(int, name="stock")
    held = app.documents(dict[str, int], name="held")

    async def take(tx: hf.Transaction) -> None:
        order = held.at("order-17")
        if await tx.find(order) is not None:
            return  # a repeat
        for sku, count in ORDER.items():
            found = await tx.find(stock.at(sku))
            have = THERE[sku] if found is None else found
            if have < count:
                raise SoldOut(sku)
            tx.put(stock.at(sku), have - count)
        tx.put(order, ORDER)

    async def reserve():
        await app.atomically(take)

    async def left(sku):
        found = await stock.at(sku).find()
        return THERE[sku] if found is None else found.value

    async def restock(sku, count):
        await stock.at(sku).create(count)

    return SimpleNamespace(reserve=reserve, left=left, restock=restock)


def test_an_order_that_cannot_be_met_holds_nothing(compare):
    async def schedule(stage):
        process = await stage.boot()
        answers = [await outcome(do(process, "reserve")) for _ in range(3)]
        return answers, await do(process, "left", "mug")

    by_naive, by_ours = compare(schedule, by_hand, ours)
    assert by_naive == (["Refused"] * 3, 1)  # nine mugs are held by nobody
    assert by_ours == (["SoldOut"] * 3, 10)


def test_a_death_half_way_holds_nothing_and_a_repeat_reserves_once(compare):
    async def schedule(stage):
        one, two = await stage.boot(), await stage.boot()
        await do(two, "restock", "rare", 5)
        begun = do(one, "reserve")
        await asyncio.sleep(0.007)  # naive code has the mugs by now
        one.crash()
        await outcome(begun)
        again = [await outcome(do(two, "reserve")) for _ in range(2)]
        return again, await do(two, "left", "mug"), await do(two, "left", "rare")

    by_naive, by_ours = compare(schedule, by_hand, ours)
    assert by_naive == ([None, None], 1, 3)  # three times the mugs, twice the rare one
    assert by_ours == ([None, None], 7, 4)
