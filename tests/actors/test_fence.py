"""Fences: a number for effects outside the store that never goes backwards (G3)."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import pytest
from tests.kernel.gaps import Setting, open_setting

import holdfast as hf
from holdfast.actors.record import REPLY_PREFIX
from holdfast.items import ABSENT, Item, Put, Update
from holdfast.kernel.entity import Lost
from holdfast.testing import run_virtual


@dataclass
class Paid:
    order: str


def declare(app, seen, **options):
    class Till(hf.Actor, app=app, **options):
        n: int = 0

        async def charge(self) -> int:
            self.n += 1
            fence = hf.current().fence
            seen.append(fence)
            return fence

        async def fail(self) -> None:
            seen.append(hf.current().fence)
            raise ValueError("no")

    return Till


@pytest.mark.parametrize("optimistic", [False, True])
async def test_it_never_goes_backwards_whichever_process_runs_it(world, optimistic):
    seen = []
    apps = [world.app() for _ in range(2)]
    tills = [declare(app, seen, optimistic=optimistic) for app in apps]
    for _ in range(2):
        for app, till in zip(apps, tills, strict=True):
            async with app.worker():
                await till.at("1").charge()
                with pytest.raises(ValueError, match="no"):
                    await till.at("1").fail()
                await till.at("1").charge()
    assert len(seen) == 12
    assert seen == sorted(seen)
    assert seen[0] >= 1
    first_of_each = seen[::3]
    assert first_of_each == sorted(set(first_of_each))


async def test_it_grows_when_an_actor_begins_anew(world):
    app, seen = world.app(), []
    till = declare(app, seen)
    async with app.worker():
        before = await till.at("1").charge()
        await app.actor("Till", "1").delete()
        assert await till.at("1").charge() > before


async def test_whoever_takes_over_has_a_higher_one_than_who_comes_back_late(memory_world):
    stale, fresh, seen = memory_world.app(), memory_world.app(), []
    paused, go = asyncio.Event(), asyncio.Event()

    class Till(hf.Actor, app=stale, timeout=None):
        n: int = 0

        async def charge(self) -> int:
            paused.set()
            await go.wait()
            seen.append(("late", hf.current().fence))
            return 0

    async with stale.worker(), fresh.worker():
        late = asyncio.create_task(Till.at("1", request_id="r").charge())
        await paused.wait()
        partition = "actor#Till#1"
        await stale.runtime().home.store.write(Update(partition=partition, owner=None, lease_until=None, add_epoch=1))
        till = declare(fresh, taken := [])
        await till.at("1").charge()
        go.set()
        await late
    assert taken[0] > seen[0][1]


@pytest.fixture
def stubborn(app):
    class Stubborn(hf.Actor, app=app):
        @hf.method(timeout="20ms")
        async def cling(self) -> None:
            fences.append(hf.current().fence)
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue

        async def go_on(self) -> None:
            fences.append(hf.current().fence)

    let_go, fences = asyncio.Event(), []
    return Stubborn, let_go, fences


async def test_one_that_is_left_behind_has_a_lower_one_than_who_goes_on(app, stubborn, errors_expected):
    actor, let_go, fences = stubborn
    async with app.worker():
        with pytest.raises(hf.CallTimeout):
            await actor.at("1").cling()
        await actor.at("1").go_on()
        let_go.set()
    assert fences[0] < fences[1]


async def test_one_that_is_left_behind_has_a_lower_one_than_a_call_that_waited_for_it(app, stubborn, errors_expected):
    """A call begins beside the commits of those before it, but not beside the one that shuts this one out."""
    actor, let_go, fences = stubborn
    async with app.worker():
        await actor.at("1").go_on()
        left_behind, _ = await asyncio.gather(actor.at("1").cling(), actor.at("1").go_on(), return_exceptions=True)
        let_go.set()
    assert isinstance(left_behind, hf.CallTimeout)
    assert fences[1] < fences[2]


def test_one_that_is_left_behind_has_a_lower_one_although_nothing_can_be_written_of_those_before_it(errors_expected):
    """They run again, because another process has started the execution that the first one starts."""
    fences, began = [], []

    async def an_actor(setting: Setting) -> None:
        @setting.app.workflow
        async def job() -> None: ...

        class Stubborn(hf.Actor, app=setting.app):
            async def start(self) -> None:
                fences.append(hf.current().fence)
                handle = await job.start(id="1")
                if len(fences) == 1:
                    began.append(handle)
                    await setting.store.write(Put(Item("wf#job#1", status="COMPLETED"), ABSENT))

            @hf.method(timeout="1s")
            async def cling(self) -> None:
                fences.append(hf.current().fence)
                while len(fences) == 2:
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(1)

        setting.partition = "actor#Stubborn#1"
        await asyncio.gather(Stubborn.at("1").start(), Stubborn.at("1").cling(), return_exceptions=True)

    async def main() -> None:
        async with open_setting(an_actor):
            assert len(fences) == 4
            assert fences[1] < fences[2]

    run_virtual(main)


def test_a_call_that_waits_for_the_store_does_not_begin_once_the_lease_is_known_to_be_lost():
    begun = []

    async def an_actor(setting: Setting) -> None:
        class Till(hf.Actor, app=setting.app):
            async def is_taken_away(self) -> None:
                begun.append(hf.current().fence)
                if len(begun) == 1:
                    await setting.take_away()

            async def charge(self) -> None:
                begun.append(hf.current().fence)

        def looks_for_an_earlier_reply(asked) -> bool:
            return asked[0] == setting.partition and asked[1].startswith(REPLY_PREFIX)

        async def until_lost() -> None:
            await setting.until(lambda: isinstance(setting.host.entities[setting.partition].hold, Lost))

        setting.partition = "actor#Till#1"
        setting.store.once(looks_for_an_earlier_reply, until_lost)
        till = Till.at("1")
        calls = asyncio.gather(till.is_taken_away(), Till.at("1", request_id="r").charge())
        await setting.until(lambda: setting.store.is_over and not setting.host.entities)
        assert len(begun) == 1
        await setting.give_back()
        await calls

    async def main() -> None:
        async with open_setting(an_actor):
            assert min(begun[1:]) > begun[0]

    run_virtual(main)


async def test_consumers_and_steps_have_one_too(app, eventually):
    seen = []

    @app.consumer(Paid)
    async def bill(event: Paid) -> None:
        seen.append(hf.current().fence)

    @app.step
    async def charge() -> int:
        return hf.current().fence

    @app.workflow
    async def order() -> list[int]:
        first = await charge()
        await hf.sleep("1ms")
        return [first, await charge()]

    async with app.worker():
        await app.publish(Paid("1"))
        await eventually(lambda: seen)
        first, second = await order()
    assert seen[0] >= 1
    assert 1 <= first <= second


async def test_what_only_reads_has_none(app):
    class Till(hf.Actor, app=app):
        @hf.read
        async def look(self) -> int:
            return hf.current().fence

    async with app.worker():
        with pytest.raises(hf.InvalidInput, match="no identity"):
            await Till.at("1").look()
