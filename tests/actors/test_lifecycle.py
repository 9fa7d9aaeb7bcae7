"""An actor's life beyond one call: in and out of memory, over processes and versions of code, deleted and anew."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.items import Item, Update, Write
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual


def declare(app, **options):
    class Counter(hf.Actor, app=app, **options):
        n: int = 0

        async def add(self, by: int = 1) -> int:
            self.n += by
            return self.n

        async def slowly(self) -> int:
            self.n += 1
            await self.pause()
            return self.n

        async def pause(self) -> None: ...

        async def remind(self, after: str) -> None:
            self.ring.after(after)

        async def relay(self, to: str) -> int:
            return await Counter.at(to).add()

        async def key_of_mine(self) -> str:
            return self.key

        @hf.timer
        async def ring(self) -> None:
            self.n += 100

        @hf.read
        async def get(self) -> int:
            return self.n

    return Counter


# ── Memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_actor_that_left_memory_comes_back_as_it_was(world, eventually):
    app = world.app(limits=hf.Limits(linger_seconds=0.0, near_seconds=0.0, resident=1))
    counter = declare(app)
    async with app.worker():
        for n in range(1, 4):
            for key in "abcde":
                assert await counter.at(key).add() == n
                await eventually(lambda: len(app.employed.host.entities) <= 1)
        assert app.telemetry.counts["evicted"] >= 10
        assert await counter.at("b").key_of_mine() == "b"


async def test_an_actor_moves_to_the_process_that_calls_it_when_it_is_idle(world):
    apps = [world.app(), world.app()]
    one, two = (declare(app) for app in apps)
    async with apps[0].worker(), apps[1].worker():
        for total, each in enumerate((one, two, one, two, two), 1):
            assert await each.at("c").add() == total
            assert await one.at("c").get() == await two.at("c").get() == total


# ── Deletion ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("here", [True, False])
async def test_a_deleted_actor_begins_anew_at_a_higher_version(world, here):
    app, client = world.app(), world.app()
    counter = declare(app)
    declare(client)
    async with app.worker(), client:
        await counter.at("c").add(5)
        await counter.at("c").remind("1h")
        handle = (app if here else client).actor("Counter", "c")
        before = await handle.status()
        await handle.delete()
        deleted = await handle.status()
        assert (deleted.state, deleted.timers) == (None, ())
        assert deleted.version > before.version
        assert await counter.at("c").get() == 0
        assert await counter.at("c").add() == 1
        assert (await handle.status()).version > deleted.version
        with pytest.raises(hf.NotFound):
            await client.actor("Counter", "never").delete()


async def test_a_deleted_actor_is_listed_only_if_asked_for(world, eventually):
    app = world.app()
    counter = declare(app)

    async def statuses(status):
        return sorted(each.key for each in (await app.list_actors("Counter", status=status)).items)

    async with app.worker():
        await counter.at("a").add()
        await counter.at("b").add()
        await app.actor("Counter", "a").delete()
        assert await statuses(None) == ["b"]
        assert await statuses("DELETED") == ["a"]


@pytest.mark.parametrize("resident", [0, 100])
def test_a_delayed_message_that_is_sent_after_a_deletion_begins_the_actor_anew(resident):
    async def main():
        clock, data = VirtualClock(), MemoryData()

        async def open_shared():
            return open_memory_home(data=data)

        app = hf.App("shop", home=open_shared, clock=clock, limits=hf.Limits(resident=resident))
        counter = declare(app)
        async with app.worker():
            await hf.send(counter.at("c").add, 7, delay="30m")
            await counter.at("c").add(5)
            await app.actor("Counter", "c").delete()
            assert await counter.at("c").get() == 0
            await hf.send(counter.at("c").add, 3, delay="1h")
            await asyncio.sleep(3601)
            assert await counter.at("c").get() == 3
            await asyncio.sleep(60)
            assert (await app.runtime().home.store.due(2**60)).items == ()

    run_virtual(main)


class Stalling:
    """A store that stalls its process's renewals: its leases lapse, and it goes on as if nothing had been."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        first = writes[0]
        if (
            isinstance(first, Update)
            and first.lease_until is not UNSET
            and first.owner is UNSET
            and not first.add_epoch
        ):
            raise StoreUnavailable("it is stalled")
        return await self._store.write(*writes)


def shared(data, wrap=lambda store: store, **limits):
    async def open_shared() -> Home:
        home = open_memory_home(data=data)
        return replace(home, store=wrap(home.store))

    app = hf.App("shop", home=open_shared, limits=hf.Limits(**limits))
    return app, declare(app)


@pytest.mark.parametrize("known", [True, False])
async def test_a_stale_writer_is_refused_and_his_call_is_applied_where_the_actor_lives(monkeypatch, known):
    data = MemoryData()
    stale, here = shared(data, Stalling, lease_ms=30)
    monkeypatch.setattr(here.kind, "limit_of", lambda _key: None)  # it is to be taken over, not to be cancelled
    fresh, there = shared(data)
    paused, go = asyncio.Event(), asyncio.Event()

    async def pause(_self):
        paused.set()
        await go.wait()

    monkeypatch.setattr(here, "pause", pause)
    request_id = "r" if known else None
    async with stale.worker(), fresh.worker():
        await here.at("c").add(10)
        late = asyncio.create_task(here.at("c", request_id=request_id).slowly())
        await paused.wait()
        await asyncio.sleep(0.05)
        assert await there.at("c").add() == 11  # it takes over
        await fresh.actor("Counter", "c").delete()
        assert await there.at("c").add() == 1
        go.set()
        assert await late == 2
        assert await there.at("c").get() == 2
        assert stale.telemetry.counts["fenced"] == 1


async def test_a_call_that_runs_when_its_process_is_fenced_out_is_not_left_waiting(monkeypatch):
    data = MemoryData()
    stale, here = shared(data, lease_ms=300)
    fresh, _ = shared(data)
    paused = asyncio.Event()

    async def pause(_self):
        if not paused.is_set():
            paused.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(here, "pause", pause)
    async with stale.worker(), fresh.worker():
        late = [asyncio.create_task(here.at("c").slowly()) for _ in range(3)]
        await paused.wait()
        entity = stale.employed.host.entities["actor#Counter#c"]
        head = await stale.runtime().home.store.get(entity.partition)
        await stale.runtime().home.store.write(  # somebody takes it over behind its back, and lets go of it
            Update(partition=entity.partition, owner=None, lease_until=None, add_epoch=1, due_at=head.lease_until)
        )
        async with asyncio.timeout(60):
            assert sorted(await asyncio.gather(*late)) == [1, 2, 3]


# ── Versions of code ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_upcaster_brings_an_older_state_up_to_date(world):
    old = world.app()
    counter = declare(old)
    async with old.worker():
        await counter.at("c").add(5)

    def split(state):
        return {"total": state["n"], "calls": 1}

    def rename(state):
        return {"sum": state["total"], "calls": state["calls"]}

    new = world.app()

    class Counter(hf.Actor, app=new, upcasters={1: split, 2: rename}):
        sum: int = 0
        calls: int = 0
        note: str = "fresh"

        async def add(self, by: int = 1) -> list[int]:
            self.sum += by
            self.calls += 1
            return [self.sum, self.calls]

        @hf.read
        async def get(self) -> list[int]:
            return [self.sum, self.calls]

    async with new:
        assert await Counter.at("c").get() == [5, 1]
    async with new.worker():
        assert await Counter.at("c").get() == [5, 1]
        assert await Counter.at("c").add() == [6, 2]
        assert (await new.actor("Counter", "c").status()).state == {"sum": 6, "calls": 2, "note": "fresh"}


async def test_a_field_with_a_default_may_be_added(world):
    old = world.app()
    counter = declare(old)
    async with old.worker():
        await counter.at("c").add(5)
    new = world.app()

    class Counter(hf.Actor, app=new):
        n: int = 0
        name: str = "none"

        async def rename(self, name: str) -> str:
            before, self.name = self.name, name
            return f"{before} {self.n}"

    async with new.worker():
        assert await Counter.at("c").rename("x") == "none 5"
        assert await Counter.at("c").rename("y") == "x 5"


def broken(_state):
    raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("upcasters", "told"),
    [({}, "newer code"), ({1: broken, 2: broken, 3: broken, 4: broken}, "no such thing")],
    ids=["older code", "broken upcaster"],
)
async def test_a_state_that_the_code_cannot_read_blocks_the_actor_visibly_and_harms_nothing(
    world, upcasters, told, eventually
):
    from_schema = 3
    first = world.app()
    counter = declare(first, upcasters={n: lambda state: state for n in range(1, from_schema)})
    async with first.worker():
        await counter.at("c").add(5)
    other = world.app()
    counter = declare(other, upcasters=upcasters)

    async def blocked():
        return (await other.actor("Counter", "c").status()).status == "BLOCKED"

    async with other.worker():
        with pytest.raises(Exception, match=told):
            await counter.at("c").add()
        await eventually(blocked)
        with pytest.raises(Exception, match=told):
            await counter.at("c").get()
        await hf.send(counter.at("c").add, 2, request_id="m")
        with pytest.raises(Exception, match=told):
            await counter.at("c").add()
        assert other.telemetry.counts["turn_failed"] == 0
    async with first.worker():

        async def applied():
            return await first.actor("Counter", "c").request_status("m") == "completed"

        await eventually(applied)
        assert (await first.actor("Counter", "c").status()).state == {"n": 7}


# ── Shutting down ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_calls_that_wait_at_a_shutdown_end_in_another_process(world, monkeypatch):
    leaving, staying = world.app(), world.app()
    here, there = declare(leaving), declare(staying)
    paused, go = asyncio.Event(), asyncio.Event()

    async def pause(_self):
        paused.set()
        await go.wait()

    monkeypatch.setattr(here, "pause", pause)
    async with staying.worker(), leaving:
        async with leaving.worker():
            tasks = [asyncio.create_task(here.at("c").slowly()) for _ in range(10)]
            await paused.wait()
            asyncio.get_running_loop().call_later(0.05, go.set)
        assert sorted(await asyncio.gather(*tasks)) == list(range(1, 11))
        assert await there.at("c").get() == 10


async def test_a_call_that_outlasts_the_grace_of_a_shutdown_ends_in_another_process(world, monkeypatch):
    leaving, staying = world.app(limits=hf.Limits(lease_ms=200)), world.app()
    here, there = declare(leaving), declare(staying)
    paused = asyncio.Event()

    async def pause(_self):
        paused.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(here, "pause", pause)
    async with staying.worker(), leaving:
        async with leaving.worker(grace="20ms"):
            tasks = [asyncio.create_task(here.at("c").slowly()) for _ in range(5)]
            await paused.wait()
        async with asyncio.timeout(60):
            assert sorted(await asyncio.gather(*tasks)) == list(range(1, 6))
        assert await there.at("c").get() == 5


async def test_calls_that_wait_at_a_shutdown_of_the_last_worker_wait_durably(world, monkeypatch):
    leaving = world.app()
    counter = declare(leaving)
    paused = asyncio.Event()

    async def pause(_self):
        paused.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(counter, "pause", pause)
        async with leaving:
            async with leaving.worker(grace="20ms"):
                tasks = [asyncio.create_task(counter.at("c", request_id=f"r{n}").slowly()) for n in range(3)]
                await paused.wait()
            async with asyncio.timeout(60):
                while len(await leaving.actor("Counter", "c").messages()) < 3:
                    await asyncio.sleep(0.005)
            patched.undo()
            async with leaving.worker():
                assert sorted(await asyncio.gather(*tasks)) == [1, 2, 3]


async def test_a_caller_whose_own_app_closes_is_told_so(world, monkeypatch):
    app = world.app()
    counter = declare(app)
    paused = asyncio.Event()

    async def pause(_self):
        paused.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(counter, "pause", pause)
    async with app.worker(grace="20ms"):
        task = asyncio.create_task(counter.at("c").slowly())
        await paused.wait()
    async with asyncio.timeout(60):
        with pytest.raises((hf.HoldfastError, asyncio.CancelledError)):
            await task


async def test_actors_that_wait_for_each_others_calls_shut_down_in_time(world):
    app, client = world.app(), world.app()
    counter = declare(app)
    declare(client)
    async with client:
        async with app.worker(grace="1s"):
            tasks = [asyncio.create_task(counter.at(f"c{n}", request_id="r").relay("sum")) for n in range(20)]
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with app.worker():
            await asyncio.gather(*(counter.at(f"c{n}", request_id="r").relay("sum") for n in range(20)))
            assert await counter.at("sum").get() == 20


# ── What was sent to an earlier life ────────────────────────────────────────────────────────────────────────────────


def declare_box(app):
    class Box(hf.Actor, app=app, retry=hf.Retry(max_attempts=3, initial="1h")):
        letters: list[str] = hf.field(default_factory=list)

        async def drop(self, letter: str) -> None:
            if letter == "broken":
                raise ValueError(letter)
            self.letters.append(letter)

        async def drop_later(self, letter: str) -> None:
            await hf.send(Box.at(self.key).drop, letter, delay="200ms")

        @hf.read
        async def all(self) -> list[str]:
            return self.letters

    return Box


async def came(box, count):
    return len(await box.at("b").all()) == count


async def test_a_delayed_message_does_not_reach_the_next_life(world, eventually):
    app = world.app()
    box = declare_box(app)
    async with app.worker():
        await box.at("b").drop("first")
        for _ in range(3):
            await hf.send(box.at("b").drop, "old", delay="200ms")
        await hf.send(box.at("b").drop_later, "old")
        await box.at("b").drop_later("old")
        await app.actor("Box", "b").delete()
        assert await app.actor("Box", "b").messages() == ()
        await hf.send(box.at("b").drop, "new", delay="250ms")
        await box.at("b").drop("new")
        await eventually(lambda: came(box, 2))
        assert await box.at("b").all() == ["new", "new"]


async def test_a_delayed_message_that_nobody_has_read_does_not_reach_the_next_life(world, eventually):
    client, app = world.app(), world.app()
    away, box = declare_box(client), declare_box(app)
    async with client:
        await hf.send(away.at("b").drop, "old", delay="1s")
        async with app.worker():
            await app.actor("Box", "b").delete()
            await box.at("b").drop("new")
            await hf.send(box.at("b").drop, "new", delay="1s")
            await eventually(lambda: came(box, 2))
            assert await box.at("b").all() == ["new", "new"]


async def test_a_message_that_is_tried_again_does_not_reach_the_next_life(world, eventually):
    app = world.app()
    box = declare_box(app)

    async def has_failed():
        return any(each.attempts for each in await app.actor("Box", "b").messages())

    async with app.worker():
        await hf.send(box.at("b").drop, "broken")
        await eventually(has_failed)
        await app.actor("Box", "b").delete()
        assert await app.actor("Box", "b").messages() == ()
        assert (await app.actor("Box", "b").status()).state is None


async def test_an_end_from_outside_does_not_wait_for_a_message_that_is_tried_again(world, eventually):
    app, client = world.app(), world.app()
    declare_box(app)
    outside = declare_box(client)

    async def has_failed():
        return any(each.attempts for each in await client.actor("Box", "b").messages())

    async with app.worker(), client:
        await hf.send(outside.at("b").drop, "broken")
        await eventually(has_failed)
        async with asyncio.timeout(20):
            await client.actor("Box", "b").delete()
        assert await client.actor("Box", "b").messages() == ()
        assert (await client.actor("Box", "b").status()).state is None


async def test_more_delayed_messages_than_one_write_takes_end_with_their_actor(world):
    app = world.app()
    box = declare_box(app)
    count = 120 if world.name == "dynamodb" else 900
    async with app.worker():
        await box.at("b").drop("first")
        await asyncio.gather(*(hf.send(box.at("b").drop, "old", delay="1h") for _ in range(count)))
        await app.actor("Box", "b").delete()
        assert await app.actor("Box", "b").messages() == ()
