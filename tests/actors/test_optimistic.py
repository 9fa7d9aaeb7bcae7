"""Optimistic actors: no lease, compare and set, run again if another was faster."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf


def declare(app, **options):
    class Counter(hf.Actor, app=app, optimistic=True, **options):
        n: int = 0
        names: list[str] = hf.field(default_factory=list)

        async def add(self, by: int = 1) -> int:
            self.n += by
            return self.n

        async def slowly(self) -> int:
            n = self.n
            await self.pause()
            self.n = n + 1
            return self.n

        async def pause(self) -> None:
            await asyncio.sleep(0)

        async def fail(self) -> None:
            self.n = -1
            raise ValueError("no")

        async def same(self) -> int:
            return self.n

        async def refuse_above(self, limit: int) -> None:
            if self.n > limit:
                raise ValueError(str(self.n))

        async def tell(self, name: str) -> None:
            self.names.append(name)

        async def tell_itself(self, name: str) -> None:
            self.n += 1
            await hf.send(self.at(self.key).tell, name)

        async def later(self, name: str) -> None:
            self.ring.after("20ms", name)

        @hf.timer
        async def ring(self, name: str) -> None:
            self.names.append(name)

        @hf.read
        async def get(self) -> int:
            return self.n

        @hf.read
        async def told(self) -> list[str]:
            return self.names

    return Counter


async def test_calls_from_several_processes_at_once_all_count(world):
    apps = [world.app() for _ in range(3)]
    counters = [declare(app) for app in apps]
    async with apps[0].worker(), apps[1].worker(), apps[2]:
        calls = [each.at("c").slowly() for each in counters for _ in range(15)]
        assert sorted(await asyncio.gather(*calls)) == list(range(1, 46))
        assert await counters[2].at("c").get() == 45


async def test_a_client_without_any_worker_is_enough(world):
    client = world.app()
    counter = declare(client)
    async with client:
        assert await counter.at("c").add() == 1
        assert await counter.at("c", request_id="r").add(5) == 6
        assert await counter.at("c", request_id="r").add(5) == 6
        with pytest.raises(hf.IdempotencyMismatch):
            await counter.at("c", request_id="r").add(6)
        with pytest.raises(ValueError, match="no"):
            await counter.at("c").fail()
        assert await counter.at("c").get() == 6
        status = await client.actor("Counter", "c").status()
        assert (status.status, status.owner) == ("SUSPENDED", None)


async def test_what_a_process_remembers_is_never_an_answer(world):
    """It has left the actor at 1 and begins from there, but another process has been faster."""
    one, other = world.app(), world.app()
    here, there = declare(one), declare(other)
    async with one, other:
        for method, answer in (("same", 11), ("add", 12), ("get", 11)):
            assert await here.at(method).add() == 1
            assert await there.at(method).add(10) == 11
            assert await getattr(here.at(method), method)() == answer
        await here.at("c").add()
        await there.at("c").add(10)
        with pytest.raises(ValueError, match="11"):
            await here.at("c").refuse_above(10)
        await here.at("c").add(0)
        await there.at("c").add(-10)
        await here.at("c").refuse_above(10)


async def test_requests_that_are_sent_at_once_are_one(world):
    apps = [world.app(), world.app()]
    counters = [declare(app) for app in apps]
    async with apps[0].worker(), apps[1].worker():
        calls = [each.at("c", request_id="r").slowly() for each in counters for _ in range(5)]
        assert await asyncio.gather(*calls) == [1] * 10


async def test_messages_and_timers_reach_it_like_any_other(world, eventually):
    app = world.app()
    counter = declare(app)

    async def told(count):
        names = await counter.at("c").told()
        return names if len(names) == count else None

    async with app.worker():
        await counter.at("c").tell_itself("itself")
        assert await eventually(lambda: told(1)) == ["itself"]
        await hf.send(counter.at("c").tell, "sent")
        assert await eventually(lambda: told(2)) == ["itself", "sent"]
        await counter.at("c").later("rung")
        assert await eventually(lambda: told(3)) == ["itself", "sent", "rung"]
        assert await counter.at("c").add() == 2


async def test_a_timer_set_by_a_client_fires_in_a_worker(world, eventually):
    app, client = world.app(), world.app()
    declare(app)
    counter = declare(client)

    async def told():
        return await counter.at("c").told() == ["rung"]

    async with app.worker(), client:
        await counter.at("c").later("rung")
        await eventually(told)


async def test_it_can_be_deleted_and_begins_anew(world):
    app = world.app()
    counter = declare(app)
    async with app.worker():
        await counter.at("c").add(5)
        before = (await app.actor("Counter", "c").status()).version
        await app.actor("Counter", "c").delete()
        assert (await app.actor("Counter", "c").status()).state is None
        assert await counter.at("c").add() == 1
        assert (await app.actor("Counter", "c").status()).version > before


async def test_a_state_of_newer_code_is_refused_in_words(world):
    newer = world.app()
    counter = declare(newer, upcasters={1: lambda state: state})
    async with newer:
        await counter.at("c").add()
    older = world.app()
    counter = declare(older)
    async with older:
        with pytest.raises(hf.SerializationError, match="newer code"):
            await counter.at("c").add()


# ── Calls of other actors ───────────────────────────────────────────────────────────────────────────────────────────


def declare_with_total(app):
    class Total(hf.Actor, app=app):
        heard: list[int] = hf.field(default_factory=list)

        async def add(self, n: int) -> int:
            self.heard.append(n)
            return sum(self.heard)

        @hf.read
        async def get(self) -> list[int]:
            return self.heard

    class Counter(hf.Actor, app=app, optimistic=True):
        n: int = 0

        async def add(self, by: int) -> int:
            self.n += by
            return self.n

        async def report(self) -> int:
            return await Total.at("t").add(self.n)

        async def report_in_any_case(self) -> int:
            try:
                return await Total.at("t").add(self.n)
            except Exception:
                self.n = -1
                return self.n

        async def report_with_others(self) -> list[object]:
            return await asyncio.gather(*(Total.at("t").add(each) for each in (self.n, 0)), return_exceptions=True)

        async def take_over(self) -> int:
            self.n += len(await Total.at("t").get())
            return self.n

    return Counter, Total


@pytest.mark.parametrize(
    ("method", "answer", "heard"),
    [("report", 11, [11]), ("report_in_any_case", 11, [11]), ("report_with_others", [11, 11], [11, 0])],
)
async def test_another_actor_is_called_with_no_state_that_others_have_overtaken(world, method, answer, heard):
    """The process begins from what it has left, and another one has been faster."""
    one, other = world.app(), world.app()
    (here, total), (there, _) = declare_with_total(one), declare_with_total(other)
    async with one.worker(), other:
        assert await here.at("c").add(1) == 1
        assert await there.at("c").add(10) == 11
        assert await getattr(here.at("c", request_id="r"), method)() == answer
        assert await getattr(here.at("c", request_id="r"), method)() == answer
        assert await total.at("t").get() == heard
        assert await there.at("c").add(0) == 11


async def test_calls_that_call_others_from_several_processes_at_once_each_call_once(world):
    apps = [world.app() for _ in range(2)]
    declared = [declare_with_total(app) for app in apps]
    total = declared[0][1]
    async with apps[0].worker(), apps[1].worker():
        adding = [counter.at("c").add(1) for counter, _ in declared for _ in range(5)]
        reporting = [counter.at("c", request_id=f"r{n}").report() for counter, _ in declared for n in range(5)]
        await asyncio.gather(*adding, *reporting)
        assert len(await total.at("t").get()) == 5


async def test_reading_another_actor_takes_no_lease(world):
    client = world.app()
    counter, _ = declare_with_total(client)
    async with client:  # there is no worker to take one
        assert await counter.at("c").add(1) == 1
        assert await counter.at("c").take_over() == 1


# ── Messages that wait ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_call_comes_behind_what_its_caller_has_sent(world):
    app = world.app()
    counter = declare(app)
    async with app.worker():
        for n in range(20):
            at = counter.at(f"c{n}")
            await at.add()
            await hf.send(at.tell, "sent")
            await at.tell("called")
            assert await at.told() == ["sent", "called"]


async def test_a_call_of_a_client_waits_behind_what_it_has_sent(world):
    """There is no worker yet: the message waits, so the call does."""
    client, app = world.app(), world.app()
    away, counter = declare(client), declare(app)
    async with client:
        at = away.at("c")
        await at.add()
        await hf.send(at.tell, "sent")
        call = asyncio.create_task(at.tell("called"))
        early, _ = await asyncio.wait({call}, timeout=0.1)
        assert not early
        async with app.worker():
            await call
            assert await counter.at("c").told() == ["sent", "called"]


async def test_a_client_is_enough_again_when_nothing_waits(world, eventually):
    client, app = world.app(), world.app()
    away, _ = declare(client), declare(app)
    async with client:
        await hf.send(away.at("c").tell, "sent")
        async with app.worker():
            await eventually(lambda: told(away, 1))
        await away.at("c").tell("called")
        assert await away.at("c").told() == ["sent", "called"]


async def told(counter, count):
    return len(await counter.at("c").told()) == count
