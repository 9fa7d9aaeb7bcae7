"""Replies in the head of an actor, where writes are billed: what is written for them, and who finds them."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.actors.calling.chain import take_back
from holdfast.actors.record import KeptReply, Reply, decode_record
from holdfast.actors.turn import replies
from holdfast.actors.turn.kept_replies import MOST_BYTES, kept_in, with_reply
from holdfast.actors.turn.make_room import _move
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import Item, Put, Write
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

PARTITION = "actor#Till#t"
PAUSE_SECONDS = 10


class Counting:
    """A store that notes how many items each write has."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.writes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, *writes: Write) -> Any:
        self.writes.append(len(writes))
        return self._store.write(*writes)


class Place:
    """Processes on one home where each write is billed."""

    def __init__(self) -> None:
        self.data = MemoryData()
        self.stores: list[Counting] = []
        self.clock = VirtualClock()

    def process(self, **options: Any) -> tuple[hf.App, Any]:
        app = hf.App("shop", home=self._open, clock=self.clock)

        class Till(hf.Actor, app=app, reply_window="1h", **options):
            total: int = 0

            async def pay(self, cents: int) -> int:
                self.total += cents
                return self.total

        class Clerk(hf.Actor, app=app):
            async def sell(self) -> int:
                return await Till.at("t", request_id="r0").pay(1)

            async def serve(self) -> int:
                return await Till.at("t").pay(1)

        self.Clerk = Clerk
        return app, Till

    async def _open(self) -> Home:
        home = open_memory_home(data=self.data)
        self.stores.append(Counting(home.store))
        return replace(home, writes_are_paid=True, reads_are_paid=True, store=self.stores[-1])

    def items(self) -> list[str]:
        return sorted(self.data.partitions[PARTITION])

    @property
    def in_head(self) -> dict[str, KeptReply]:
        return decode_record(self.data.partitions[PARTITION]["@"].body).replies


@pytest.mark.parametrize("optimistic", [False, True])
def test_a_call_that_may_be_repeated_is_written_by_single_writes_only(optimistic: bool) -> None:
    async def main() -> None:
        place = Place()
        app, till = place.process(optimistic=optimistic)
        async with app.worker():
            await till.at("t").pay(0)
            await asyncio.sleep(PAUSE_SECONDS)
            place.stores[-1].writes.clear()
            for number in range(30):
                assert await till.at("t", request_id=f"r{number}").pay(1) == number + 1
                await asyncio.sleep(PAUSE_SECONDS)
            writes = place.stores[-1].writes
            assert set(writes) == {1}
            moved = sum(sort.startswith("r#") for sort in place.items())
            assert moved + len(place.in_head) == 30
            assert len(writes) == (1 if optimistic else 2) * 30 + moved
            writes.clear()
            for number in range(30):
                assert await till.at("t", request_id=f"r{number}").pay(1) == number + 1
            assert await till.at("t").pay(0) == 30
        again, till = place.process()
        async with again.worker():
            for number in range(30):
                assert await till.at("t", request_id=f"r{number}").pay(1) == number + 1
                assert await again.actor("Till", "t").request_status(f"r{number}") == "completed"

    run_virtual(main)


def test_few_calls_in_a_window_cost_nothing_for_their_replies() -> None:
    async def main() -> None:
        place = Place()
        app, till = place.process()
        async with app.worker():
            await till.at("t").pay(0)
            for number in range(10):
                await asyncio.sleep(1_800)
                place.stores[-1].writes.clear()
                await till.at("t", request_id=f"r{number}").pay(1)
                await asyncio.sleep(PAUSE_SECONDS)
                assert place.stores[-1].writes == [1, 1], "a claim, and a commit that releases"
            assert place.items() == ["@"]
            assert len(place.in_head) == 2, "those that are over are gone"
            assert await app.actor("Till", "t").request_status("r0") == "unknown"
            assert await till.at("t", request_id="r0").pay(1) == 11, "its window is over"

    run_virtual(main)


def test_a_caller_elsewhere_finds_a_reply_that_is_in_the_head() -> None:
    async def main() -> None:
        place = Place()
        app, till = place.process()
        client, away = place.process()
        async with app.worker():
            assert await till.at("t", request_id="r0").pay(5) == 5
            assert list(place.in_head) == ["r0"]
            async with client:
                assert await away.at("t", request_id="r0").pay(5) == 5
                assert "r#r0" in place.items()
                with pytest.raises(hf.IdempotencyMismatch):
                    await away.at("t", request_id="r0").pay(6)
            assert await till.at("t").pay(0) == 5

    run_virtual(main)


def test_an_actor_that_calls_under_an_id_that_was_used_outside_has_its_reply_kept() -> None:
    async def main() -> None:
        place = Place()
        app, till = place.process()
        async with app.worker():
            assert await till.at("t", request_id="r0").pay(1) == 1
            await hf.send(place.Clerk.at("c").sell)
            while "r#r0" not in place.items():
                await asyncio.sleep(1)
            assert await till.at("t").pay(0) == 1

    run_virtual(main)


def test_an_actor_that_calls_another_one_costs_no_transaction_and_no_item() -> None:
    async def main() -> None:
        place = Place()
        app, till = place.process()
        async with app.worker():
            await till.at("t").pay(0)
            await place.Clerk.at("c").serve()
            await asyncio.sleep(PAUSE_SECONDS)
            place.stores[-1].writes.clear()
            assert await place.Clerk.at("c").serve() == 2
            await asyncio.sleep(PAUSE_SECONDS)
            assert place.stores[-1].writes == [1] * 4, "a claim and a commit of each"
            assert place.items() == ["@"]
            assert len(place.in_head) == 2

    run_virtual(main)


def test_a_call_that_is_taken_back_after_its_commit_is_found_in_the_head() -> None:
    async def main() -> None:
        place = Place()
        app, till = place.process()
        async with app.worker():
            await till.at("t", request_id="r0").pay(5)
            reply = await take_back(PARTITION, "r0", app.runtime())
            assert reply is not None
            assert bytes(reply.value) == b"5"
            assert await take_back(PARTITION, "r1", app.runtime()) is None

    run_virtual(main)


def test_a_reply_that_does_not_fit_into_the_head_has_an_item_of_its_own() -> None:
    async def main() -> None:
        place = Place()
        app = hf.App("shop", home=place._open, clock=place.clock)

        class Till(hf.Actor, app=app):
            async def echo(self, text: str) -> str:
                return text

        long = "x" * MOST_BYTES
        async with app.worker():
            for _ in range(2):
                assert await Till.at("t", request_id="long").echo(long) == long
            assert place.items() == ["@", "r#long"]

    run_virtual(main)


def test_a_long_reply_under_an_id_that_is_used_again_is_not_hidden_by_the_one_that_is_over() -> None:
    async def main() -> None:
        place = Place()
        app = hf.App("shop", home=place._open, clock=place.clock)

        class Till(hf.Actor, app=app, reply_window="1h"):
            calls: int = 0

            async def echo(self, text: str) -> str:
                self.calls += 1
                return f"{self.calls}{text}"

        long = "x" * MOST_BYTES
        async with app.worker():
            assert await Till.at("t", request_id="r0").echo("") == "1"
            assert list(place.in_head) == ["r0"]
            await asyncio.sleep(3_700)
            for _ in range(2):
                assert await Till.at("t", request_id="r0").echo(long) == f"2{long}"
            assert place.items() == ["@", "r#r0"]

    run_virtual(main)


def test_a_repeat_from_elsewhere_does_not_give_a_new_reply_the_end_of_the_one_that_is_over() -> None:
    async def main() -> None:
        place = Place()
        app, till = place.process()
        client, away = place.process()
        async with app.worker(), client:
            assert await till.at("t", request_id="r0").pay(1) == 1
            await asyncio.sleep(3_700)
            for _ in range(3):
                assert await away.at("t", request_id="r0").pay(1) == 2
                await asyncio.sleep(PAUSE_SECONDS)
            assert list(place.in_head) == ["r0"], "the one that is over lies there still"
            assert await till.at("t", request_id="r0").pay(1) == 2

    run_virtual(main)


class Late(VirtualClock):
    """A clock that is ahead by as much as it is told."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def test_a_reply_whose_time_passes_after_it_was_found_still_answers_its_repeat_from_elsewhere() -> None:
    async def main() -> None:
        place = Place()
        place.clock = clock = Late()
        app, till = place.process()
        client, away = place.process()

        def found(*asked: Any) -> KeptReply | None:
            kept = kept_in(*asked)
            clock.ahead_ms = 3_700_000
            return kept

        async with app.worker(), client:
            assert await till.at("t", request_id="r0").pay(1) == 1
            with mock.patch.object(replies, "kept_in", found):
                assert await away.at("t", request_id="r0").pay(1) == 1
            assert await till.at("t").pay(0) == 1

    run_virtual(main)


def test_one_that_moves_late_replaces_no_later_one() -> None:
    """A process was stopped for an hour while it moved a reply; its id was used again meanwhile."""

    async def main() -> None:
        place = Place()
        app, _ = place.process()
        async with app:
            runtime, store = app.runtime(), place.stores[-1]
            old, new = (Item(PARTITION, "r#r", expires_at=until, body=b"{}") for until in (1_000, 2_000))
            await store.write(Put(new))
            await _move(PARTITION, "r", KeptReply(1_000, Reply("old")), runtime)
            assert await store.get(PARTITION, "r#r") == new
            await store.write(Put(old))
            await _move(PARTITION, "r", KeptReply(2_000, Reply("new")), runtime)
            there = await store.get(PARTITION, "r#r")
            assert (there.expires_at, b"new" in there.body) == (2_000, True)

    run_virtual(main)


def test_what_is_over_makes_room() -> None:
    record = decode_record(b'{"schema":1,"state":null}')
    kept = [KeptReply(until, Reply("f" * 16)) for until in (100, 200)]
    count = 0
    while (more := with_reply(record, f"id {count}", kept[0], now=0)) is not None:
        record, count = more, count + 1
    assert count >= 5
    assert kept_in(record, "id 0", now=99) is not None
    assert kept_in(record, "id 0", now=100) is None
    made_room = with_reply(record, "new", kept[1], now=100)
    assert made_room is not None
    assert list(made_room.replies) == ["new"]
