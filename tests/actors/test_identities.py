"""A nested call is applied once, in whatever order its caller asks for it when it runs again (G5)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

import holdfast as hf
from holdfast import ids
from holdfast.actors.record import REPLY_PREFIX, Call, TimerRecord, decode_call, decode_record, encode
from holdfast.items import Put
from holdfast.kernel.identity import BY_CONTENT, identity_of
from holdfast.paging import items

AGAIN = hf.Retry(max_attempts=5, initial="1ms", max_delay="2ms")


@dataclass
class Placed:
    order: str


class Died(Exception):
    pass


def declare(app):
    class Till(hf.Actor, app=app):
        paid: list[str] = hf.field(default_factory=list)

        async def pay(self, what: str) -> int:
            self.paid.append(what)
            return len(self.paid)

        async def pass_on(self, to: list[str]) -> int:
            if not to:
                return await self.pay("end")
            return await Till.at(to[0]).pass_on(to[1:])

        async def remind(self) -> None:
            self.tick.after("1ms")

        @hf.timer
        async def tick(self) -> None:
            keys.append(hf.current().idempotency_key)

        @hf.read
        async def all(self) -> list[str]:
            return self.paid

    keys: list[str] = []
    Till.keys = keys
    return Till


class Runs:
    """How often something has run."""

    def __init__(self):
        self.count = 0

    def fail_until(self, run):
        if self.count < run:
            raise Died(f"in run {self.count}")


async def test_a_consumer_that_reads_once_more_each_time_calls_once(world, eventually):
    app, runs = world.app(), Runs()
    till = declare(app)

    @app.consumer(Placed, retry=AGAIN)
    async def charge(event: Placed) -> None:
        runs.count += 1
        for _ in range(runs.count):
            await till.at("t").all()
        await till.at("t").pay(event.order)
        runs.fail_until(3)

    async with app.worker():
        await app.publish(Placed("one"))
        await eventually(lambda: runs.count == 3)
        assert await till.at("t").all() == ["one"]


async def test_branches_in_another_order_call_once_each(world, eventually):
    app, runs = world.app(), Runs()
    till = declare(app)

    class Shop(hf.Actor, app=app, retry=AGAIN):
        async def sell(self) -> None:
            runs.count += 1
            goods = ["a", "b", "c"] if runs.count % 2 else ["c", "b", "a"]
            await asyncio.gather(*(till.at("t").pay(each) for each in goods))
            runs.fail_until(4)

    async with app.worker():
        await hf.send(Shop.at("s").sell)
        await eventually(lambda: runs.count == 4)
        assert sorted(await till.at("t").all()) == ["a", "b", "c"]


async def test_calls_alike_are_told_apart_by_their_number(world, eventually):
    app, runs = world.app(), Runs()
    till = declare(app)

    class Shop(hf.Actor, app=app, retry=AGAIN):
        async def sell(self) -> None:
            runs.count += 1
            if runs.count == 2:
                await till.at("other").pay("x")
            for _ in range(3):
                await till.at("t").pay("x")
            runs.fail_until(3)

    async with app.worker():
        await hf.send(Shop.at("s").sell)
        await eventually(lambda: runs.count == 3)
        assert await till.at("t").all() == ["x", "x", "x"]
        assert await till.at("other").all() == ["x"]


async def test_sets_among_the_arguments_have_one_order(world, eventually):
    app, runs = world.app(), Runs()
    total = []

    class Till(hf.Actor, app=app):
        async def pay(self, goods: set[str]) -> None:
            total.append(len(goods))

    class Shop(hf.Actor, app=app, retry=AGAIN):
        async def sell(self) -> None:
            runs.count += 1
            names = [str(n) for n in range(50)]
            await Till.at("t").pay(set(names if runs.count % 2 else names[::-1]))
            runs.fail_until(3)

    async with app.worker():
        await hf.send(Shop.at("s").sell)
        await eventually(lambda: runs.count == 3)
        assert total == [50]


async def test_a_given_request_id_holds_whatever_the_arguments(world, eventually):
    app, runs = world.app(), Runs()
    till, mismatched = declare(app), []

    class Shop(hf.Actor, app=app, retry=AGAIN):
        async def sell(self) -> None:
            runs.count += 1
            try:
                await till.at("t", request_id="order-17").pay(f"at {runs.count}")
            except hf.IdempotencyMismatch:
                mismatched.append(runs.count)
            runs.fail_until(2)

    async with app.worker():
        await hf.send(Shop.at("s").sell)
        await eventually(lambda: runs.count == 2)
        assert await till.at("t").all() == ["at 1"]
    assert mismatched == [2]


async def test_ids_do_not_grow_with_depth(world):
    app = world.app()
    till = declare(app)
    path = [f"{n}" for n in range(20)]
    async with app.worker():
        assert await till.at("start").pass_on(path) == 1
        store = app.runtime().home.store
        for key in path:
            replies = [each async for each in items(store, f"actor#Till#{key}", prefix=REPLY_PREFIX)]
            head = await store.get(f"actor#Till#{key}")
            kept = [*decode_record(head.body).replies, *(each.sort.removeprefix(REPLY_PREFIX) for each in replies)]
            assert [len(each) for each in kept] == [40]


async def test_a_key_is_one_of_its_message_and_no_other(world, eventually):
    app, keys = world.app(), {}
    runs = Runs()

    class Shop(hf.Actor, app=app, retry=AGAIN):
        async def sell(self, order: str) -> None:
            runs.count += 1
            keys.setdefault((self.key, order), set()).add(hf.current().idempotency_key)
            runs.fail_until(3)

    async with app.worker():
        for key, order in (("s", "1"), ("s", "2"), ("t", "1")):
            await hf.send(Shop.at(key).sell, order, request_id=order)
        await eventually(lambda: runs.count >= 5 and len(keys) == 3)
    assert all(len(each) == 1 for each in keys.values())
    assert len(set.union(*keys.values())) == 3


async def test_two_homes_with_the_same_code_and_ids_hand_out_other_keys(tmp_path):
    keys = []
    for tenant in ("anna", "bob"):
        app = hf.App("shop", home=f"sqlite:///{tmp_path}/{tenant}.db")

        class Shop(hf.Actor, app=app):
            async def sell(self) -> str:
                return hf.current().idempotency_key

        for _ in range(2):
            async with app.worker():
                keys.append(await Shop.at("s", request_id="order-17").sell())
    assert keys[0] == keys[1] != keys[2] == keys[3]


async def test_a_timer_of_a_later_life_has_another_key(world, eventually):
    app = world.app()
    till = declare(app)
    async with app.worker():
        for life in (1, 2):
            await till.at("t").remind()
            await eventually(lambda life=life: len(till.keys) == life)
            await app.actor("Till", "t").delete()
    assert len(set(till.keys)) == 2


# ── Messages of older versions ──────────────────────────────────────────────────────────────────────────────────────


def test_a_message_of_an_older_version_has_no_mark():
    old = decode_call(b'{"id":"r","method":"sell","args":{}}')
    assert old.naming == 0
    assert decode_call(encode(Call(id="r", method="sell", args=msgspec.Raw(b"{}"), naming=BY_CONTENT))).naming == 1
    assert msgspec.json.decode(b'{"method":"tick","due_at":1,"set_count":1,"args":{}}', type=TimerRecord).naming == 0


def test_a_message_of_an_older_version_keeps_the_names_it_was_given():
    old = identity_of(0, "salt", "actor#Shop#s", "r")
    fingerprint = ids.fingerprint(b"actor#Shop#s")
    assert old.key == f"{fingerprint}/r"
    assert old.derive("actor#Till#t", "pay", b"{}") == f"{fingerprint}/r/1"
    old.note_read()
    assert old.derive("actor#Till#t", "pay", b"{}") == f"{fingerprint}/r/3"


async def test_what_older_code_has_handled_in_part_is_not_called_again(world, eventually):
    """Its message lies in the inbox, and what it has called already has its reply, under the name of then."""
    app, runs = world.app(), Runs()
    till = declare(app)

    class Shop(hf.Actor, app=app):
        async def sell(self) -> None:
            await till.at("t").all()
            await till.at("t").pay("one")
            runs.count += 1

    async with app.worker():
        before = identity_of(0, "", "actor#Shop#s", "r")
        before.note_read()
        assert await till.at("t", request_id=before.derive("", "", b"")).pay("one") == 1
    async with app:
        await hf.send(Shop.at("s").sell, request_id="r")
        store = app.runtime().home.store
        (message,) = [each async for each in items(store, "actor#Shop#s", prefix="i#")]
        old = msgspec.structs.replace(decode_call(message.body), naming=0)
        await store.write(Put(msgspec.structs.replace(message, body=encode(old))))
    async with app.worker():
        await eventually(lambda: runs.count == 1)
        assert await till.at("t").all() == ["one"]
