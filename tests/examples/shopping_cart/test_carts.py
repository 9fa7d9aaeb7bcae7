"""Carts and visits over HTTP: many requests at once, late ones, repeated ones, and those of somebody else."""

from __future__ import annotations

import asyncio

import pytest

LINES = "/cart/lines"


async def lines_of(browser):
    return (await browser.get("/cart")).data["lines"]


async def add_stubbornly(browser, sku):
    """Add one, again for as long as others are faster: what a client makes of 409."""
    while (answer := await browser.post(LINES, {"sku": sku})).status == 409:
        assert answer.headers["retry-after"]
    return answer.status


async def test_fifty_at_once_add_fifty(opened):
    async with opened() as visitor:
        ann = visitor()
        await ann.post(LINES, {"sku": "mug"})
        assert await asyncio.gather(*(add_stubbornly(ann, "mug") for _ in range(50))) == [200] * 50
        cart = (await ann.get("/cart")).data
        assert cart == {"lines": {"mug": 51}, "cents": 51 * 1_250, "version": 51}


async def test_of_many_who_saw_the_same_cart_one_changes_it_and_the_others_are_told(opened):
    async with opened() as visitor:
        ann = visitor()
        seen = (await ann.post(LINES, {"sku": "mug", "quantity": 3})).data["version"]
        answers = await asyncio.gather(
            *(ann.put(f"{LINES}/mug", {"quantity": count, "version": seen}) for count in range(1, 9))
        )
        assert sorted(answer.status for answer in answers) == [200] + [409] * 7
        there = (await ann.get("/cart")).data
        assert there["version"] == seen + 1
        assert all(answer.data == there for answer in answers)


async def test_lines_are_set_removed_and_never_made_up(opened):
    async with opened() as visitor:
        ann = visitor()
        await ann.post(LINES, {"sku": "mug", "quantity": 3})
        await ann.post(LINES, {"sku": "lamp"})
        assert (await ann.put(f"{LINES}/mug", {"quantity": 7})).data["lines"] == {"mug": 7, "lamp": 1}
        assert (await ann.ask("DELETE", f"{LINES}/mug")).data["lines"] == {"lamp": 1}
        assert (await ann.put(f"{LINES}/mug", {"quantity": 1})).status == 404
        assert (await ann.put(f"{LINES}/mug", {"quantity": 1, "version": 3})).status == 404


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"sku": "unicorn"}, 422),
        ({"sku": "mug", "quantity": 0}, 400),
        ({"sku": "mug", "quantity": 1_001}, 400),
        ({"sku": "mug", "colour": "red"}, 400),
        ({"sku": "mug/" * 100}, 400),
        ([], 400),
        (None, 400),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(opened, wish, status):
    async with opened() as visitor:
        ann = visitor()
        await ann.post(LINES, {"sku": "lamp"})
        answer = await ann.post(LINES, wish)
        assert answer.status == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.data["detail"]
        assert await lines_of(ann) == {"lamp": 1}


async def test_a_cart_has_room_for_so_much_and_no_more(opened):
    async with opened() as visitor:
        ann = visitor()
        assert (await ann.post(LINES, {"sku": "mug", "quantity": 1_000})).status == 200
        assert (await ann.post(LINES, {"sku": "mug"})).status == 422
        assert await lines_of(ann) == {"mug": 1_000}


async def test_an_addition_under_a_key_counts_once_however_often_it_comes(opened):
    async with opened() as visitor:
        ann = visitor()
        await ann.get("/cart")
        answers = await asyncio.gather(*(ann.post(LINES, {"sku": "mug"}, key="click") for _ in range(10)))
        assert {answer.status for answer in answers} == {200}
        assert await lines_of(ann) == {"mug": 1}
        assert (await ann.post(LINES, {"sku": "lamp"}, key="click")).status == 422


# ── Visits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_guest_takes_his_cart_along_when_he_logs_in_and_leaves_his_cookie_behind(opened):
    async with opened() as visitor:
        at_home, on_the_way = visitor(), visitor()
        await at_home.post("/login", {"name": "ann"})
        await at_home.post(LINES, {"sku": "mug", "quantity": 2})
        await on_the_way.post(LINES, {"sku": "mug"})
        await on_the_way.post(LINES, {"sku": "lamp"})
        planted = dict(on_the_way.cookies)
        for _ in range(2):
            assert (await on_the_way.post("/login", {"name": "ann"})).data == {"owner": "member ann"}
            assert await lines_of(at_home) == await lines_of(on_the_way) == {"mug": 3, "lamp": 1}
        thief = visitor()
        thief.cookies = dict(planted)
        assert await lines_of(thief) == {}
        assert thief.cookies != planted


async def test_a_login_as_the_first_request_leaves_one_cookie_that_works(opened):
    async with opened() as visitor:
        ann = visitor()
        answer = await ann.post("/login", {"name": "ann"})
        assert len(answer.headers.get_all("set-cookie")) == 1
        assert await lines_of(ann) == {}
        assert (await ann.post("/login", {"name": "ann"})).data == {"owner": "member ann"}


@pytest.mark.parametrize("cookie", ["", "made-up", "0" * 48, "é"])
async def test_whoever_makes_up_a_cookie_is_a_guest(opened, cookie):
    async with opened() as visitor:
        mallory = visitor()
        mallory.cookies = {"visit": cookie}
        assert await lines_of(mallory) == {}
        assert len(mallory.cookies["visit"]) == 48


async def test_after_logging_out_the_cookie_is_worth_nothing(opened):
    async with opened() as visitor:
        ann = visitor()
        await ann.post("/login", {"name": "ann"})
        await ann.post(LINES, {"sku": "mug"})
        await ann.post("/logout", {})
        assert await lines_of(ann) == {}


async def test_the_cookie_is_for_the_server_alone(opened):
    async with opened() as visitor:
        cookie = (await visitor().get("/cart")).headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
