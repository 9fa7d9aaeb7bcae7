"""A wake-up is never lost, whatever the turn of its entity is doing: no other process may have been woken for it.

Each test lets one wake-up come in one gap of a turn: after the store has done what the turn asked for, and before the
turn hears of it. No sweep and no other process would find the entity, so it must be claimed again for that wake-up.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest
from tests.kernel.gaps import OTHER, Placed, Setting, open_setting

import holdfast as hf
from holdfast.items import HEAD, Item, Put, Update
from holdfast.kernel.wakeups import Invocations
from holdfast.replay.journal import MOST_NOTES_IN_HEAD
from holdfast.testing import run_virtual


async def a_workflow(setting: Setting) -> None:
    @setting.app.workflow
    async def job() -> None:
        await hf.signal("go")

    await job.start(id="1")
    setting.partition = "wf#job#1"


async def an_actor(setting: Setting) -> None:
    class Cart(hf.Actor, app=setting.app):
        async def add(self) -> None: ...

    await Cart.at("1").add()
    setting.partition = "actor#Cart#1"


async def a_relay(setting: Setting) -> None:
    await setting.app.publish(Placed(1))
    setting.partition = setting.app.outbox.partition


async def a_bus_relay(setting: Setting) -> None:
    await setting.app.publish(Placed(1))
    setting.partition = setting.app.outbox.bus_partition


MODELS = [a_workflow, an_actor, a_relay, a_bus_relay]
every_model = pytest.mark.parametrize("of_model", MODELS, ids=lambda of_model: of_model.__name__)


@every_model
def test_a_wake_up_while_a_claim_is_being_refused(of_model):
    async def main() -> None:
        async with open_setting(of_model, linger_seconds=0.0, near_seconds=0.0) as setting:
            await setting.until_released()
            await setting.take_away()
            taken = setting.head.epoch
            setting.store.once(setting.claims, setting.give_back)
            await setting.wake()
            await setting.until_claimed_after(taken)
            assert setting.store.is_over

    run_virtual(main)


@every_model
def test_a_wake_up_while_a_turn_finds_out_that_it_is_fenced(of_model):
    async def main() -> None:
        async with open_setting(of_model, linger_seconds=1000.0) as setting:
            await setting.until(lambda: setting.head.owner is not None)
            await asyncio.sleep(1)
            await setting.take_away()
            taken = setting.head.epoch
            setting.store.once(lambda asked: asked == (setting.partition, HEAD), setting.give_back)
            await setting.wake()
            await setting.until_claimed_after(taken)
            assert setting.store.is_over
            assert setting.app.telemetry.counts["fenced"] == 1

    run_virtual(main)


@every_model
def test_a_wake_up_while_an_entity_is_being_released(of_model):
    async def main() -> None:
        async with open_setting(of_model, linger_seconds=0.0, near_seconds=0.0) as setting:
            await setting.until_released()
            epoch = setting.head.epoch
            setting.store.once(setting.releases, setting.wake)
            await setting.wake()
            await setting.until_claimed_after(epoch + 1)
            assert setting.store.is_over

    run_virtual(main)


@every_model
def test_a_wake_up_while_a_process_that_stops_releases_an_entity(of_model):
    """It has no time for it any more, so another one is called, where that is how they are woken."""

    async def main() -> None:
        async with open_setting(of_model, linger_seconds=1000.0) as setting:
            await setting.until(lambda: setting.head.owner is not None)
            await asyncio.sleep(1)
            setting.host.wakeups = Invocations(setting)
            setting.store.once(setting.releases, setting.wake)
        assert setting.store.is_over
        assert setting.rung == [setting.partition]

    run_virtual(main)


def test_a_wake_up_while_an_execution_is_being_blocked():
    async def a_stuck_workflow(setting: Setting) -> None:
        @setting.app.workflow
        async def job() -> None:
            await asyncio.Event().wait()

        setting.store.once(setting.releases, setting.wake)
        setting.partition = "wf#job#1"
        await job.start(id="1")

    async def main() -> None:
        async with open_setting(a_stuck_workflow, linger_seconds=0.0) as setting:
            await setting.until(lambda: setting.head.status == "BLOCKED")
            await setting.until_claimed_after(1)
            await setting.until_released()
            assert setting.head.epoch == 2, "one wake-up, one more look"

    run_virtual(main)


def test_what_comes_to_the_loop_of_a_body_just_before_its_execution_is_released():
    """No revision shows it. It comes while the waits of the body are written, which are too many for the head."""
    answer: Future[int] = Future()

    async def answers() -> None:
        answer.set_result(42)
        await asyncio.sleep(0)  # the loop of the host hears of it

    async def an_intruded_workflow(setting: Setting) -> None:
        @setting.app.workflow
        async def job() -> None:
            waits = (hf.signal(f"go-{number}") for number in range(MOST_NOTES_IN_HEAD + 1))
            await asyncio.gather(asyncio.wrap_future(answer), *waits)

        setting.partition = "wf#job#1"
        setting.store.once(setting.writes_its_journal, answers)
        await job.start(id="1")

    async def main() -> None:
        async with open_setting(an_intruded_workflow, linger_seconds=0.0, near_seconds=0.0) as setting:
            await setting.until(lambda: setting.head.status == "FAILED")
            assert setting.store.is_over

    run_virtual(main)


def test_an_execution_that_is_retried_while_its_end_is_being_written():
    ran = []

    async def a_failing_workflow(setting: Setting) -> None:
        @setting.app.workflow
        async def job() -> str:
            ran.append("job")
            if len(ran) == 1:
                raise ValueError
            return "done"

        setting.partition = "wf#job#1"
        setting.store.once(setting.releases, job.handle("1").retry)
        await job.start(id="1")

    async def main() -> None:
        async with open_setting(a_failing_workflow) as setting:
            await setting.until(lambda: setting.head.status == "COMPLETED")

    run_virtual(main)


def test_a_head_that_was_set_back_is_left_alone_until_it_is_looked_at_again():
    """Its journal has a newer writer, so each turn is fenced; without a wake-up none follows at once."""

    async def main() -> None:
        async with open_setting(a_workflow, linger_seconds=0.0, near_seconds=0.0) as setting:
            await setting.until_released()
            await setting.store.write(
                Put(Item(setting.partition, f"j#{0:06d}#{0:010d}", owner=OTHER, epoch=1_000, body=b"[]")),
                Update(partition=setting.partition, add_revision=1, add_epoch=1),
            )
            await setting.wake()
            await asyncio.sleep(1)
            assert setting.app.telemetry.counts["fenced"] == 1

    run_virtual(main)


@pytest.mark.parametrize("has_callers", [True, False])
async def test_what_callers_of_this_process_wait_for_is_not_left_to_another(has_callers, monkeypatch) -> None:
    app, busy, go = hf.App("shop", home="memory://", limits=hf.Limits(running=1)), asyncio.Event(), asyncio.Event()

    class Till(hf.Actor, app=app):
        async def stay(self) -> None:
            busy.set()
            await go.wait()

        async def look(self) -> None:
            return None

    async with app.worker():
        await Till.at("b").look()
        host = app.runtime().host
        monkeypatch.setattr(type(host.wakeups), "passed_on", lambda _self, _partition: True)
        there = host.entities["actor#Till#b"]
        while there.turn is not None:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(type(there), "has_callers", property(lambda _self: has_callers))
        staying = asyncio.create_task(Till.at("a").stay())
        await busy.wait()
        assert host.check("actor#Till#b")
        assert (there.turn is not None) is has_callers
        monkeypatch.undo()
        go.set()
        await staying
