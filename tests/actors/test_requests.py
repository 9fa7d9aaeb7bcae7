"""Requests by id: applied once, however often, from wherever and whenever they are sent (G5, G11)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.testing import VirtualClock, run_virtual


class Odd(Exception):
    pass


async def memory_home(data):
    return open_memory_home(data=data)


def declare(app, **options):
    class Till(hf.Actor, app=app, **options):
        total: int = 0

        async def pay(self, cents: int) -> int:
            await self.pause()
            self.total += cents
            return self.total

        async def pause(self) -> None: ...

        async def refuse(self, cents: int) -> None:
            raise Odd(f"no {cents}")

        async def refuse_plainly(self, cents: int) -> None:
            raise KeyError(cents)

        @hf.read
        async def sum(self) -> int:
            return self.total

    class Clerk(hf.Actor, app=app):
        async def sell(self, till: str) -> int:
            first = await Till.at(till).pay(1)
            second = await Till.at(till).pay(1)
            return first * 10 + second

    return Till, Clerk


async def test_a_request_that_is_repeated_afterwards_gets_the_same_reply(world):
    app = world.app()
    till, _ = declare(app)
    async with app.worker():
        assert await till.at("t", request_id="r").pay(5) == 5
        assert await till.at("t").pay(1) == 6
        assert await till.at("t", request_id="r").pay(5) == 5
        assert await till.at("t").sum() == 6
        assert await app.actor("Till", "t").request_status("r") == "completed"


async def test_requests_that_are_repeated_while_one_runs_are_one(world, monkeypatch):
    app = world.app()
    till, _ = declare(app)
    paused, go = asyncio.Event(), asyncio.Event()

    async def pause(_self):
        paused.set()
        await go.wait()

    monkeypatch.setattr(till, "pause", pause)
    async with app.worker():
        first = asyncio.create_task(till.at("t", request_id="r").pay(5))
        await paused.wait()
        others = [asyncio.create_task(till.at("t", request_id="r").pay(5)) for _ in range(5)]
        await asyncio.sleep(0.01)
        go.set()
        assert await asyncio.gather(first, *others) == [5] * 6
        assert await till.at("t").sum() == 5


async def test_requests_that_are_sent_at_once_from_everywhere_are_one(world):
    apps = [world.app(), world.app(), world.app()]
    tills = [declare(app)[0] for app in apps]
    async with apps[0].worker(), apps[1].worker(), apps[2]:
        replies = await asyncio.gather(*(till.at("t", request_id="r").pay(5) for till in tills for _ in range(4)))
        assert replies == [5] * 12
        assert await tills[2].at("t").sum() == 5


async def test_a_request_that_is_repeated_after_a_restart_gets_the_same_reply(world):
    app = world.app()
    till, _ = declare(app)
    async with app.worker():
        await till.at("t", request_id="r").pay(5)
    app = world.app()
    till, _ = declare(app)
    async with app.worker():
        assert await till.at("t", request_id="r").pay(5) == 5
        assert await till.at("t").sum() == 5


@pytest.mark.parametrize("here", [True, False])
async def test_an_id_with_another_method_or_other_arguments_is_refused(world, here):
    app, client = world.app(), world.app()
    till, _ = declare(app)
    away, _ = declare(client)
    async with app.worker(), client:
        till = till if here else away
        await till.at("t", request_id="r").pay(5)
        with pytest.raises(hf.IdempotencyMismatch, match="'r'"):
            await till.at("t", request_id="r").pay(6)
        with pytest.raises(hf.IdempotencyMismatch):
            await till.at("t", request_id="r").refuse(5)
        assert await till.at("t", request_id="r").pay(cents=5) == 5
        assert await till.at("t").sum() == 5


@pytest.mark.parametrize("here", [True, False])
async def test_an_error_is_a_reply_and_kept_like_one(world, here):
    app, client = world.app(), world.app()
    till, _ = declare(app)
    away, _ = declare(client)
    async with app.worker(), client:
        till = till if here else away
        for _ in range(2):
            with pytest.raises(hf.CallFailed, match="Odd: no 5"):
                await till.at("t", request_id="r").refuse(5)
            with pytest.raises(KeyError):
                await till.at("t", request_id="k").refuse_plainly(5)
        assert await app.actor("Till", "t").request_status("r") == "failed"


async def test_an_error_arrives_alike_from_here_and_from_elsewhere(world):
    app, client = world.app(), world.app()
    till, _ = declare(app)
    away, _ = declare(client)
    told = []
    async with app.worker(), client:
        for each in (till, away):
            with pytest.raises(hf.CallFailed) as caught:
                await each.at("t").refuse(5)
            told.append((type(caught.value), str(caught.value), caught.value.error_type))
    assert told[0] == told[1]


def test_after_the_window_an_id_is_free_again():
    async def main():
        app = hf.App("test", home="memory://", clock=VirtualClock())
        till, _ = declare(app, reply_window="1h")
        async with app.worker():
            assert await till.at("t", request_id="r").pay(5) == 5
            await asyncio.sleep(3590)
            assert await till.at("t", request_id="r").pay(5) == 5
            await asyncio.sleep(20)
            assert await app.actor("Till", "t").request_status("r") == "unknown"
            assert await till.at("t", request_id="r").pay(5) == 10

    run_virtual(main)


@pytest.mark.parametrize(("purged", "total"), [(False, 5), (True, 10)], ids=["expired", "purged"])
def test_a_caller_is_answered_although_the_reply_ends_before_it_looks(purged, total):
    """The actor answers a repeat as before, and the window ends: then the repeat was the answer's, or comes anew."""
    data = MemoryData()

    def app(ahead_seconds):
        clock = VirtualClock(offset_ms=ahead_seconds * 1000)
        return hf.App("test", home=lambda: memory_home(data), clock=clock)

    async def main():
        here, there = app(0), app(30)
        till, _ = declare(here, reply_window="1h")
        away, _ = declare(there, reply_window="1h")
        async with here.worker(), there:
            assert await till.at("t", request_id="r").pay(5) == 5
            await asyncio.sleep(3590)
            repeat = asyncio.create_task(away.at("t", request_id="r").pay(5))
            if purged:
                await asyncio.sleep(1)
                data.remove("actor#Till#t", "r#r")
            async with asyncio.timeout(600):
                assert await repeat == total
            assert await till.at("t").sum() == total

    run_virtual(main)


async def test_a_caller_that_gives_up_finds_out_later(world, monkeypatch):
    app = world.app()
    till, _ = declare(app)
    go = asyncio.Event()

    async def pause(_self):
        await go.wait()

    monkeypatch.setattr(till, "pause", pause)
    async with app.worker():
        with pytest.raises(hf.WaitTimeout, match="may still be applied"):
            await till.at("t", request_id="r", timeout="500ms").pay(5)
        go.set()
        assert await till.at("t", request_id="r").pay(5) == 5
        assert await app.actor("Till", "t").request_status("r") == "completed"
        assert await app.actor("Till", "t").request_status("never sent") == "unknown"


async def test_a_request_to_nobody_waits_durably(world):
    client = world.app()
    till, _ = declare(client)
    async with client:
        with pytest.raises(hf.WaitTimeout):
            await till.at("t", request_id="r", timeout="1s").pay(5)  # long enough for the request to leave
        assert await client.actor("Till", "t").request_status("r") == "waiting"
        waiting = await client.actor("Till", "t").messages()
        assert [(each.id, each.method, each.args) for each in waiting] == [("r", "pay", {"cents": 5})]
    app = world.app()
    till, _ = declare(app)
    async with app.worker():
        assert await till.at("t", request_id="r").pay(5) == 5
        assert await till.at("t").sum() == 5


async def test_what_a_repeated_request_calls_is_not_called_again(world):
    app = world.app()
    till, clerk = declare(app)
    async with app.worker():
        assert await clerk.at("c", request_id="r").sell("t") == 12
        assert await clerk.at("c", request_id="r").sell("t") == 12
        assert await till.at("t").sum() == 2


async def test_requests_of_one_id_to_two_actors_call_a_third_twice(world):
    app = world.app()
    till, clerk = declare(app)
    async with app.worker():
        assert await clerk.at("one", request_id="order-17").sell("t") == 12
        assert await clerk.at("two", request_id="order-17").sell("t") == 34
        assert await till.at("t").sum() == 4


async def test_a_call_without_an_id_that_runs_again_calls_others_once(world):
    """What it starts is started by somebody else meanwhile, so its commit is refused and it runs again."""
    app = world.app()
    till, _ = declare(app)
    runs = []

    @app.workflow
    async def report() -> int:
        return 1

    class Shop(hf.Actor, app=app):
        async def close(self) -> int:
            runs.append(1)
            await report.start(id="today")
            paid = await till.at("t").pay(1)
            if len(runs) == 1:
                await asyncio.create_task(begin(), context=outside)
            return paid

    import contextvars

    outside = contextvars.copy_context()

    async def begin():
        await report.start(id="today")

    async with app.worker():
        assert await Shop.at("s").close() == 1
        assert await till.at("t").sum() == 1
    assert len(runs) == 2


@pytest.mark.parametrize("bad", ["", "a\nb", "\ud800", 7, "x" * 501])
async def test_an_id_is_printable_text(world, bad):
    app = world.app()
    till, _ = declare(app)
    async with app.worker():
        with pytest.raises(hf.InvalidInput, match="request_id"):
            till.at("t", request_id=bad)
        with pytest.raises(hf.InvalidInput, match="request_id"):
            await hf.send(till.at("t").pay, 1, request_id=bad)


@pytest.mark.parametrize("options", [{}, {"optimistic": True}])
async def test_errors_that_a_class_names_arrive_as_themselves_from_wherever_it_runs(world, options):
    worker, client = world.app(), world.app()
    till, _ = declare(worker, raises=(Odd,), **options)
    of_client, _ = declare(client, raises=(Odd,), **options)
    async with worker.worker(), client:
        for each in (till, of_client):
            for _ in range(2):  # the second time it is a stored reply
                with pytest.raises(Odd, match="no 5") as caught:
                    await each.at("t", request_id=f"r {each is till}").refuse(5)
                assert type(caught.value) is Odd


async def test_a_class_names_classes_of_errors(app):
    wrong = (KeyError("k"),), ValueError, (BaseException,), ("Odd",)
    for raises in wrong:
        with pytest.raises(hf.ConfigurationError, match="raises"):
            declare(app, raises=raises)
    assert app.registry.actors == {}
