"""The checkout over HTTP: one order for one key, one charge for one order, and nothing left of what came to nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter

import pytest
from examples.shopping_cart import carts, orders, stock
from examples.shopping_cart.books import audit
from examples.shopping_cart.outside import Outside, outside
from examples.shopping_cart.shop import Refused, app
from examples.shopping_cart.stock import Stock

LINES = "/cart/lines"
PRICE = {"mug": 1_250, "lamp": 3_950, "bench": 24_900}


async def fill(browser, **lines):
    for sku, quantity in lines.items():
        assert (await browser.post(LINES, {"sku": sku, "quantity": quantity})).status == 200
    return sum(PRICE[sku] * quantity for sku, quantity in lines.items())


async def check_out(browser, cents, *, card="visa", key=None):
    return await browser.post("/checkout", {"card": card, "cents": cents}, key=key or uuid.uuid4().hex)


async def stock_of(sku):
    return (await stock.stocks.at(sku).get()).value


async def lines_of(browser):
    return (await browser.get("/cart")).data["lines"]


async def test_twenty_at_once_under_one_key_are_one_order_and_one_charge(opened):
    async with opened() as visitor:
        ann = visitor()
        cents = await fill(ann, mug=2, lamp=1)
        answers = await asyncio.gather(*(check_out(ann, cents, key="click") for _ in range(20)))
        assert {answer.status for answer in answers} == {201}
        [order] = {answer.data["order"] for answer in answers}
        assert sum(answer.headers.get("idempotent-replayed") == "true" for answer in answers) == 19
        world = await outside.get()
        assert world.requests("charge") == [order]
        assert world.payments() == {order: (cents, "charged")}
        assert await lines_of(ann) == {}
        assert (await ann.get(f"/orders/{order}")).data == {
            "status": "confirmed",
            "lines": {"mug": 2, "lamp": 1},
            "cents": cents,
            "reason": "",
        }
        assert await audit() == "1 orders confirmed and paid for, 0 declined, 1 letters"
        assert (await ann.get("/orders")).data.keys() == {order}
        [day] = (await ann.get("/sales")).data.values()
        assert day == {"orders": 1, "cents": cents}


async def test_twenty_at_once_under_keys_of_their_own_order_the_cart_once(opened):
    async with opened() as visitor:
        ann = visitor()
        cents = await fill(ann, mug=2)
        answers = await asyncio.gather(*(check_out(ann, cents) for _ in range(20)))
        assert sorted(answer.status for answer in answers) == [201] + [422] * 19
        assert {answer.data.get("detail") for answer in answers} == {None, "the cart is empty"}
        assert await audit() == "1 orders confirmed and paid for, 0 declined, 1 letters"


async def test_a_declined_card_costs_nothing_and_the_cart_can_be_paid_with_another(opened):
    async with opened() as visitor:
        ann = visitor()
        cents = await fill(ann, mug=2, bench=20)
        for _ in range(2):
            declined = await check_out(ann, cents, card="declined", key="first")
            assert (declined.status, declined.data["reason"]) == (402, "the card was declined")
            assert await lines_of(ann) == {"mug": 2, "bench": 20}, "and a repeat does not fill it twice"
            assert await stock_of("bench") == Stock(free=20)
            assert (await outside.get()).payments() == {declined.data["order"]: (0, "declined")}
        assert (await check_out(ann, cents)).status == 201
        assert await stock_of("bench") == Stock(sold=20)
        assert await audit() == "1 orders confirmed and paid for, 1 declined, 2 letters"


async def test_if_one_article_is_sold_out_none_is_held(opened):
    async with opened() as visitor:
        ann = visitor()
        cents = await fill(ann, mug=1, lamp=1, bench=21)
        answer = await check_out(ann, cents)
        assert (answer.status, answer.data["reason"]) == (402, "bench is sold out")
        assert (await outside.get()).requests("charge") == []
        assert [await stock_of(sku) for sku in ("mug", "lamp")] == [Stock(free=1_000), Stock(free=100)]
        await audit()


async def test_the_last_twenty_go_to_twenty_of_thirty(opened):
    async with opened() as visitor:
        many = [visitor() for _ in range(30)]
        await asyncio.gather(*(fill(each, bench=1, mug=1) for each in many))
        answers = await asyncio.gather(*(check_out(each, 26_150) for each in many))
        assert Counter(answer.status for answer in answers) == {201: 20, 402: 10}
        assert await audit() == "20 orders confirmed and paid for, 10 declined, 30 letters"
        assert await stock_of("bench") == Stock(sold=20)
        assert await stock_of("mug") == Stock(free=980, sold=20)


async def test_nobody_pays_a_price_he_has_not_seen(opened):
    async with opened() as visitor:
        ann = visitor()
        cents = await fill(ann, mug=1)
        await ann.put("/products/mug/price", {"cents": 1_500})
        answer = await check_out(ann, cents)
        assert (answer.status, answer.data["reason"]) == (402, "the price has changed to 15.00")
        assert (await ann.get("/cart")).data["cents"] == 1_500
        assert (await check_out(ann, 1_500)).status == 201
        await audit()


async def test_a_key_belongs_to_one_customer_and_one_request(opened):
    async with opened() as visitor:
        ann, bob = visitor(), visitor()
        cents = await fill(ann, mug=1)
        assert await fill(bob, mug=1) == cents
        assert (await ann.post("/checkout", {"card": "visa", "cents": cents})).status == 400
        mine, his = await check_out(ann, cents, key="1"), await check_out(bob, cents, key="1")
        assert mine.data["order"] != his.data["order"]
        assert (await check_out(ann, cents, card="amex", key="1")).status == 422
        assert (await bob.get(f"/orders/{mine.data['order']}")).status == 404
        await audit()


async def test_a_member_gets_his_answer_again_in_another_session(opened):
    async with opened() as visitor:
        ann = visitor()
        await ann.post("/login", {"name": "ann"})
        cents = await fill(ann, mug=1)
        first = await check_out(ann, cents, key="1")
        elsewhere = visitor()
        await elsewhere.post("/login", {"name": "ann"})
        assert (await check_out(elsewhere, cents, key="1")).data == first.data
        await audit()


async def test_an_order_whose_request_died_before_its_checkout_began_is_carried_out(opened):
    async with opened() as visitor:
        ann = visitor()
        await ann.post("/login", {"name": "ann"})
        cents = await fill(ann, mug=1)
        await orders.place("o-1", "member ann", "visa", cents)
        async with asyncio.timeout(60):
            while (await ann.get("/orders/o-1")).data["status"] != "confirmed":
                await asyncio.sleep(0.01)
        await audit()


async def test_a_payment_service_that_breaks_down_for_good_costs_nothing(opened, monkeypatch):
    def broken(*_):
        raise ConnectionError("the line is dead")

    monkeypatch.setattr(Outside, "charge", broken)
    async with opened() as visitor:
        ann = visitor()
        cents = await fill(ann, mug=1)
        answer = await check_out(ann, cents)
        assert (answer.status, answer.data["reason"]) == (402, "something broke; nothing was charged")
        assert (await outside.get()).payments() == {answer.data["order"]: (0, "void")}
        assert await lines_of(ann) == {"mug": 1}
        await audit()


# ── What comes late, or again ───────────────────────────────────────────────────────────────────────────────────────


async def test_an_attempt_that_comes_after_another_was_refused_is_refused_too(home):
    async with app:
        await stock.open_stock("mug", 5)
        await stock.open_stock("lamp", 0)
        with pytest.raises(Refused, match="lamp is sold out"):
            await stock.hold("o-1", {"mug": 1, "lamp": 1})
        await stock.stocks.at("lamp").update(lambda _: Stock(free=5))
        with pytest.raises(Refused, match="called off"):
            await stock.hold("o-1", {"mug": 1, "lamp": 1})
        assert [await stock_of("mug"), await stock_of("lamp")] == [Stock(free=5)] * 2
        world = await outside.get()
        for card in ("declined", "visa"):
            with pytest.raises(Refused, match="declined"):
                world.charge("o-1", card, 100)


async def test_what_comes_after_its_undo_is_refused(home):
    async with app:
        await stock.open_stock("mug", 5)
        await stock.give_back("o-1")
        with pytest.raises(Refused, match="called off"):
            await stock.hold("o-1", {"mug": 1})
        with pytest.raises(Refused, match="called off"):
            await stock.sell("o-1")
        world = await outside.get()
        world.void("o-1")
        with pytest.raises(Refused, match="called off"):
            world.charge("o-1", "visa", 100)
        assert await stock_of("mug") == Stock(free=5)


async def test_what_comes_again_changes_nothing(home):
    async with app:
        await stock.open_stock("mug", 5)
        for _ in range(2):
            await stock.hold("o-1", {"mug": 2})
            assert await stock_of("mug") == Stock(free=3, held=2)
        for _ in range(2):
            await stock.sell("o-1")
            await stock.hold("o-1", {"mug": 2})
            assert await stock_of("mug") == Stock(free=3, sold=2)
        for _ in range(2):
            await stock.give_back("o-1")
            assert await stock_of("mug") == Stock(free=5)
        world = await outside.get()
        for _ in range(2):
            world.charge("o-2", "visa", 100)
            assert world.payments() == {"o-2": (100, "charged")}
        for _ in range(2):
            world.void("o-2")
            assert world.payments() == {"o-2": (100, "refunded")}


async def test_what_moves_between_carts_moves_once(home):
    order = orders.Order("o-1", "member ann", {"mug": 2}, 2_500, "visa")
    async with app:
        ann = carts.carts.at("member ann")
        for _ in range(2):
            await orders.return_to_cart(order)
            assert (await ann.get()).value.lines == {"mug": 2}
        await carts.carts.at("guest 1").create(carts.Cart({"mug": 1, "lamp": 1}))
        for _ in range(2):
            await carts.merge("guest 1", "member ann")
            assert (await ann.get()).value.lines == {"mug": 3, "lamp": 1}


async def test_what_no_longer_fits_into_the_cart_is_left_out_of_it_for_good(home):
    order = orders.Order("o-1", "member ann", {"mug": 2}, 2_500, "visa")
    async with app:
        ann = carts.carts.at("member ann")
        await ann.create(carts.Cart({"mug": 999}))
        await orders.return_to_cart(order)
        await ann.update(lambda _: carts.Cart({"mug": 1}))
        await orders.return_to_cart(order)
        assert (await ann.get()).value.lines == {"mug": 1}
