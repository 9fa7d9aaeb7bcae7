"""A shop with executions in every status, parked messages, documents, streams and leases: all there is to move."""

from __future__ import annotations

from typing import Any

import pytest
from tests.moving.places import FILE, HOUR_MS, LARGE, Clock, Placed, Shop, opened

import holdfast as hf
from holdfast.items import Item
from holdfast.moving import Moved, export_home, import_home
from holdfast.moving.inventory import everything

STATUSES = {
    ("approval", "a"): "SUSPENDED",
    ("nap", "n"): "SUSPENDED",
    ("parcel", "p"): "SUSPENDED",
    ("large", "l"): "SUSPENDED",
    ("pinned", "s"): "BLOCKED",
    ("quick", "done"): "COMPLETED",
    ("quick", "bad"): "FAILED",
    ("approval", "stopped"): "TERMINATED",
}


class Estate(Shop):
    """``code`` is the version of the workflow that goes on with its own only."""

    def __init__(self, place: Any, clock: Clock, *, code: str = "1") -> None:
        super().__init__(place, clock)
        app = self.app

        @app.workflow(version=code, versions="pinned")
        async def pinned() -> str:
            return await hf.signal("go", str)

        @app.workflow
        async def quick(order: str) -> str:
            if order == "bad":
                raise ValueError("no such order")
            return f"{order} is done"

        class Ticket(hf.Actor, app=app, retry=hf.Retry(max_attempts=1)):
            sold: int = 0

            async def sell(self, seat: str) -> None:
                if seat == "broken":
                    raise ValueError("no such seat")
                self.sold += 1

            @hf.read
            async def count(self) -> int:
                return self.sold

        self.pinned, self.quick, self.ticket = pinned, quick, Ticket
        self.stock = app.documents(dict[str, int], name="stock")
        self.log = app.streams(Placed, name="log")


async def fill(place: Any, clock: Clock, reaches: Any, eventually: Any) -> tuple[str, hf.Blob]:
    """Leave something of everything in a home. Answers the token of a callback, and a blob."""
    shop = Estate(place, clock)
    async with shop.app.worker():
        for handle in (
            await shop.approval.start("o1", id="a"),
            await shop.nap.start(id="n"),
            await shop.parcel.start(id="p"),
            await shop.large.start(LARGE, id="l"),
            await shop.pinned.start(id="s"),
        ):
            await reaches(handle, "SUSPENDED")
        assert await (await shop.quick.start("o2", id="done")) == "o2 is done"
        await reaches(await shop.quick.start("bad", id="bad"), "FAILED")
        await reaches(await shop.approval.start("o3", id="stopped"), "SUSPENDED")
        await shop.app.handle("approval", "stopped").terminate("changed our mind")
        await _use_actors(shop, eventually)
        assert await shop.pay("o1") == "o1 by 3"
        blob = await shop.app.blobs.put(FILE)
        await _use_patterns(shop)
    other = Estate(place, clock, code="2")
    async with other.app.worker():
        await other.app.handle("pinned", "s").signal("other", "x")
        await reaches(other.app.handle("pinned", "s"), "BLOCKED")
    async with shop.app:  # nobody works any more: what is sent now stays where it is
        await hf.send(shop.cart.at("u1").add, "sku")
        await hf.send(shop.cart.at("fresh").add, "first")
        await shop.app.publish(Placed("o1"), id="event-1")
        for (workflow, id), status in STATUSES.items():
            assert (await shop.app.handle(workflow, id).status()).status == status
    assert sorted(shop.done) == ["charge o1", "charge o3", "pay o1"]
    return shop.tokens[0], blob


async def _use_actors(shop: Estate, eventually: Any) -> None:
    assert await shop.cart.at("u1").add("sku") == 1
    assert await shop.cart.at("u1", request_id="second").add("sku") == 2
    await shop.cart.at("u1").close_later()
    await hf.send(shop.ticket.at("t").sell, "broken")

    async def is_parked() -> bool:
        return len((await shop.app.parked()).items) == 1

    await eventually(is_parked)


async def _use_patterns(shop: Estate) -> None:
    for number in range(3):
        await shop.stock.at("lamp").update(lambda there, n=number: there | {str(n): n}, default={})
    gone = await shop.stock.at("gone").create({"x": 1})
    await shop.stock.at("gone").delete(version=gone.version)
    await shop.log.at("ada").append(Placed("one"), Placed("two"), version=0, id="first")
    for fence in (1, 2):
        async with shop.app.lease("boss") as held:
            assert held.fence == fence


async def goes_on(place: Any, clock: Clock, token: str, blob: hf.Blob, eventually: Any) -> None:
    """All of it ends as it should, and nothing is done twice."""
    clock.ms += 2 * HOUR_MS
    shop = Estate(place, clock)
    async with shop.app.worker():
        await _executions_go_on(shop, token)
        await _actors_go_on(shop, eventually)
        assert await shop.pay("o1") == "o1 by 3"
        assert b"".join([piece async for piece in shop.app.blobs.read(blob)]) == FILE
        await eventually(lambda: "bill o1" in shop.done)
        await _patterns_go_on(shop)
    assert sorted(shop.done) == ["bill o1", "charge nap"]


async def _executions_go_on(shop: Estate, token: str) -> None:
    await shop.app.handle("approval", "a").signal("decision", "yes")
    assert await shop.app.handle("approval", "a") == "paid o1, yes"
    assert await shop.app.handle("nap", "n") == "paid nap"
    await shop.app.callback(token).complete("here")
    assert await shop.app.handle("parcel", "p") == "here"
    await shop.app.handle("large", "l").signal("go")
    assert await shop.app.handle("large", "l") == len(LARGE)
    await shop.app.handle("pinned", "s").signal("go", "on")
    assert await shop.app.handle("pinned", "s") == "on"
    assert await shop.app.handle("quick", "done") == "o2 is done"
    with pytest.raises(hf.ExecutionFailed):
        await shop.app.handle("quick", "bad")
    with pytest.raises(hf.ExecutionTerminated):
        await shop.app.handle("approval", "stopped")
    assert await (await shop.approval.start("o1", id="a")) == "paid o1, yes"
    with pytest.raises(hf.IdempotencyMismatch):
        await shop.approval.start("o2", id="a")


async def _actors_go_on(shop: Estate, eventually: Any) -> None:
    assert await shop.cart.at("u1", request_id="second").add("sku") == 2
    await eventually(lambda: shop.cart.at("u1").is_closed())
    assert await shop.cart.at("u1").all() == {"sku": 3}
    assert await shop.cart.at("fresh").all() == {"first": 1}
    (parked,) = (await shop.app.parked()).items
    await shop.app.actor("Ticket", "t").unpark(parked.message.place, args=["A1"])

    async def is_sold() -> bool:
        return await shop.ticket.at("t").count() == 1

    await eventually(is_sold)


async def _patterns_go_on(shop: Estate) -> None:
    lamp = await shop.stock.at("lamp").get()
    assert (lamp.value, lamp.version) == ({"0": 0, "1": 1, "2": 2}, 3)
    assert (await shop.stock.at("gone").create({"x": 2})).version > 1
    await shop.log.at("ada").append(Placed("one"), Placed("two"), version=0, id="first")
    assert [each.version async for each in shop.log.at("ada").read()] == [1, 2]
    async with shop.app.lease("boss") as held:
        assert held.fence == 3


async def move(source: Any, target: Any, path: Any, clock: Clock) -> Moved:
    async with opened(source) as home:
        exported = await export_home(home, path, clock)
    async with opened(target) as home:
        assert await import_home(home, path, clock) == exported
    return exported


async def contents(place: Any) -> list[Item]:
    """Everything, in an order that does not depend on the home."""
    async with opened(place) as home:
        return sorted([item async for item in everything(home)], key=lambda item: (item.partition, item.sort))
