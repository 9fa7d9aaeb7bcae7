"""Messages: durable, in the order of their sender (G6), applied once (G5), gone with a rollback, bounded."""

from __future__ import annotations

import asyncio
import contextlib
import inspect

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.testing import FaultCounts, FaultsAt, VirtualClock, faulty_home, run_virtual
from holdfast.testing.faults import LoseAnswer


def declare(app, **options):
    class Log(hf.Actor, app=app, **options):
        lines: list[str] = hf.field(default_factory=list)

        async def append(self, line: str) -> int:
            self.lines.append(line)
            return len(self.lines)

        @hf.read
        async def all(self) -> list[str]:
            return self.lines

    class Teller(hf.Actor, app=app):
        told: int = 0

        async def tell(self, count: int, *, to: str = "log") -> None:
            for n in range(count):
                await hf.send(Log.at(to).append, f"{self.key} {self.told + n}")
            self.told += count

        async def tell_myself(self, count: int) -> None:
            self.told += 1
            if count:
                await hf.send(self.at(self.key).tell_myself, count - 1)

        async def tell_later(self, line: str, delay: float) -> None:
            await hf.send(Log.at("log").append, line, delay=delay)

        @hf.read
        async def count(self) -> int:
            return self.told

    return Log, Teller


async def has(log, count):
    lines = await log.at("log").all()
    return lines if len(lines) >= count else None


async def test_a_call_comes_behind_what_its_caller_has_sent_before(world):
    app = world.app()
    began, go = asyncio.Event(), asyncio.Event()

    class Log(hf.Actor, app=app):
        lines: list[str] = hf.field(default_factory=list)

        async def block(self) -> None:
            began.set()
            await go.wait()

        async def append(self, line: str) -> list[str]:
            self.lines.append(line)
            return self.lines

    async with app.worker():
        log = Log.at("log")
        blocking = asyncio.create_task(log.block())
        await began.wait()
        for line in "abc":
            await hf.send(log.append, line)
        call = asyncio.create_task(log.append("d"))
        await asyncio.sleep(0)
        go.set()
        await blocking
        assert await call == ["a", "b", "c", "d"]


async def test_messages_that_come_without_end_and_calls_get_their_turn_both(world, eventually):
    """However the clocks of their senders differ."""
    app = world.app()
    began, go = asyncio.Event(), asyncio.Event()

    class Log(hf.Actor, app=app):
        calls: int = 0
        calls_before: int | None = None

        async def block(self) -> None:
            began.set()
            await go.wait()

        async def call(self) -> int:
            self.calls += 1
            return self.calls

        async def heard(self) -> None:
            self.calls_before = self.calls

        @hf.read
        async def seen(self) -> int | None:
            return self.calls_before

    async with app.worker():
        log = Log.at("log")
        blocking = asyncio.create_task(log.block())
        await began.wait()
        calls = [asyncio.create_task(log.call()) for _ in range(300)]
        await asyncio.sleep(0.005)
        await hf.send(log.heard)
        go.set()
        await asyncio.gather(blocking, *calls)
        assert await eventually(log.seen) == 100


async def test_messages_arrive_in_the_order_they_were_sent(world, eventually):
    app = world.app()
    log, _ = declare(app)
    async with app.worker():
        for n in range(50):
            await hf.send(log.at("log").append, str(n))
        assert await eventually(lambda: has(log, 50)) == [str(n) for n in range(50)]


async def test_messages_of_a_client_without_a_worker_arrive_in_order(world, eventually):
    client = world.app()
    log, _ = declare(client)
    async with client:
        for n in range(20):
            assert (await hf.send(log.at("log").append, str(n))).id
        app = world.app()
        declare(app)
        async with app.worker():
            for n in range(20, 40):
                await hf.send(log.at("log").append, str(n))
            assert await eventually(lambda: has(log, 40)) == [str(n) for n in range(40)]


async def test_messages_of_each_actor_arrive_in_its_order_whichever_process_it_lives_in(world, eventually):
    apps = [world.app(), world.app()]
    (log, teller), (_, other) = [declare(app) for app in apps]
    async with apps[0].worker(), apps[1].worker():
        calls = [each.at(name).tell(2) for _ in range(10) for each, name in ((teller, "a"), (other, "b"), (other, "a"))]
        await asyncio.gather(*calls)
        lines = await eventually(lambda: has(log, 60))
    assert [each for each in lines if each[0] == "a"] == [f"a {n}" for n in range(40)]
    assert [each for each in lines if each[0] == "b"] == [f"b {n}" for n in range(20)]


async def test_an_actor_may_send_to_itself(world, eventually):
    app = world.app()
    _, teller = declare(app)

    async def done():
        return await teller.at("new").count() == 6

    async with app.worker():
        await teller.at("new").tell_myself(5)
        await eventually(done)


async def test_a_repeated_message_is_applied_once(world, eventually):
    app, client = world.app(), world.app()
    log, _ = declare(app)
    away, _ = declare(client)
    async with app.worker(), client:
        for each in (log, away, log):
            await hf.send(each.at("log").append, "once", request_id="m-1")
            await asyncio.sleep(0.01)
        assert await log.at("log", request_id="m-1").append("once") == 1
        await log.at("log").append("end")
        assert await eventually(lambda: has(log, 2)) == ["once", "end"]


async def test_a_message_from_a_workflow_is_sent_once_however_often_it_is_replayed(world, eventually):
    app = world.app()
    log, _ = declare(app)

    @app.workflow
    async def story() -> int:
        await hf.send(log.at("log").append, "one")
        length = await log.at("log").append("two")
        await hf.signal("go")
        await hf.send(log.at("log").append, "three")
        return length

    async with app.worker():
        handle = await story.start(id="s")
        await eventually(lambda: has(log, 2))
    app = world.app()
    log, _ = declare(app)

    @app.workflow(name="story")
    async def again() -> int:
        await hf.send(log.at("log").append, "one")
        length = await log.at("log").append("two")
        await hf.signal("go")
        await hf.send(log.at("log").append, "three")
        return length

    async with app.worker():
        handle = again.handle("s")
        await handle.signal("go")
        assert await handle == 2
        assert await eventually(lambda: has(log, 3)) == ["one", "two", "three"]


def test_a_delayed_message_arrives_then_and_not_earlier_also_after_a_restart():
    async def main():
        clock, data = VirtualClock(), MemoryData()

        async def open_home():
            return open_memory_home(data=data)

        def make():
            return hf.App("test", home=open_home, clock=clock)

        loop = asyncio.get_running_loop()
        app = make()
        log, teller = declare(app)
        async with app.worker():
            await hf.send(log.at("log").append, "in an hour", delay="1h")
            await teller.at("t").tell_later("in two", delay=7200)
            await hf.send(log.at("log").append, "now")
            await asyncio.sleep(3599)
            assert await log.at("log").all() == ["now"]
        app = make()
        log, _ = declare(app)
        async with app.worker():
            await asyncio.sleep(3601 - loop.time())
            assert await log.at("log").all() == ["now", "in an hour"]
        await asyncio.sleep(10_000)
        app = make()
        log, _ = declare(app)
        async with app.worker():
            await asyncio.sleep(1)
            assert await log.at("log").all() == ["now", "in an hour", "in two"]

    run_virtual(main)


def test_a_delayed_message_that_is_cancelled_never_arrives():
    async def main():
        app = hf.App("test", home="memory://", clock=VirtualClock())
        log, _ = declare(app)
        async with app.worker():
            sent = await hf.send(log.at("log").append, "x", delay="10s")
            soon = await hf.send(log.at("log").append, "y", delay="1s")
            assert await sent.cancel()
            assert not await sent.cancel()
            await asyncio.sleep(20)
            assert await log.at("log").all() == ["y"]
            assert not await soon.cancel()
            assert await app.actor("Log", "log").messages() == ()

    run_virtual(main)


@pytest.mark.parametrize("number", range(1, 8))
def test_a_message_is_applied_once_when_the_store_gives_no_answer(errors_expected, number):
    """One of the writes around it is applied, or not, and its answer is lost."""

    async def main():
        data, counts = MemoryData(), FaultCounts()

        async def open_faulty():
            return faulty_home(open_memory_home(data=data), FaultsAt({number: LoseAnswer()}), counts=counts)

        clock = VirtualClock()
        app = hf.App("test", home=open_faulty, clock=clock)
        log, teller = declare(app)
        async with app.worker():
            await hf.send(log.at("log").append, "first")
            await teller.at("t").tell(2)
            await log.at("log").append("last")
            await asyncio.sleep(60)
            counts.require(1, LoseAnswer)
            lines = await log.at("log").all()
            assert sorted(lines) == ["first", "last", "t 0", "t 1"]
            assert [each for each in lines if each[0] == "t"] == ["t 0", "t 1"]

    run_virtual(main)


async def test_a_full_mailbox_refuses_and_nothing_was_sent(world, eventually):
    client = world.app()
    log, _ = declare(client, mailbox=5)
    async with client:
        for n in range(5):
            await hf.send(log.at("log").append, str(n))
        with pytest.raises(hf.MailboxFull, match="5 messages"):
            await hf.send(log.at("log").append, "too much")
        with pytest.raises(hf.MailboxFull):
            await log.at("log", timeout="10s").append("too much")
        assert len(await client.actor("Log", "log").messages()) == 5
    app = world.app()
    log, _ = declare(app, mailbox=5)
    async with app.worker():
        assert await eventually(lambda: has(log, 5)) == [str(n) for n in range(5)]
        await hf.send(log.at("log").append, "room again")
        await eventually(lambda: has(log, 6))


async def waits(client, count):
    with contextlib.suppress(hf.NotFound):  # it may be a moment behind the commit
        return len(await client.actor("Away", "far").messages()) == count


async def test_a_full_mailbox_fails_the_call_that_sends_and_nothing_of_it_remains(world, eventually):
    client = world.app()

    class Away(hf.Actor, app=client):
        async def put(self, n: int) -> None: ...

    app = world.app()

    class Teller(hf.Actor, app=app):
        told: int = 0

        async def tell(self, count: int) -> None:
            self.told += count
            for n in range(count):
                await hf.send(Far.at("far").put, n)

    class Far(hf.Actor, app=app, name="Away", mailbox=3):
        async def put(self, n: int) -> None: ...

    app.registry.actors["Away"].keys = lambda _key: False  # its code runs elsewhere
    async with app.worker(), client:
        await Teller.at("t").tell(3)
        with pytest.raises(hf.MailboxFull):
            await Teller.at("t").tell(2)
        await eventually(lambda: waits(client, 3))
        assert (await app.actor("Teller", "t").status()).state == {"told": 3}


async def test_only_messages_of_actors_are_sent(world):
    app = world.app()
    log, _ = declare(app)
    async with app.worker():
        with pytest.raises(hf.InvalidInput, match="only reads"):
            await hf.send(log.at("log").all)
        with pytest.raises(hf.InvalidInput, match="hf.send takes a method"):
            await hf.send(print, "x")
        with pytest.raises(hf.InvalidInput, match="append"):
            await hf.send(log.at("log").append, 7)
        with pytest.raises(hf.InvalidInput):
            await hf.send(log.at("log").append, "x", delay="-1s")


async def test_a_task_that_outlives_its_call_cannot_send_any_more(world):
    app = world.app()
    log, _ = declare(app)
    tasks = []

    class Loose(hf.Actor, app=app):
        async def begin(self) -> None:
            tasks.append(asyncio.create_task(self.late()))

        async def late(self) -> None:
            await asyncio.sleep(0.01)
            await hf.send(log.at("log").append, "late")

    async with app.worker():
        await Loose.at("x").begin()
        with pytest.raises(hf.InvalidState, match="outlived"):
            await tasks[0]
        assert await log.at("log").all() == []


async def test_what_was_sent_shows_no_more_than_what_and_to_whom(app):
    class Till(hf.Actor, app=app):
        async def note(self) -> None: ...

    async with app:
        sent = await hf.send(Till.at("t").note)
    assert sent is not None
    assert repr(sent) == f"<Sent {sent.id!r} to Till 't'>"
    assert "runtime" in inspect.signature(hf.Sent).parameters
