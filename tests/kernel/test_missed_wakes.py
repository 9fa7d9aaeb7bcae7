"""A wake-up is never lost, whatever the turn of its entity is doing: no other process may have been woken for it.

Each test lets one wake-up come in one gap of a turn: after the store has done what the turn asked for, and before the
turn hears of it. No sweep and no other process would find the entity, so it must be claimed again for that wake-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from msgspec import UNSET
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Item, Put, Update
from holdfast.kernel.wakeups import Invocations
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

OTHER = "another process"


@dataclass
class Placed:
    number: int


class Gaps:
    """A store that lets something happen between an answer and the process that waits for it."""

    def __init__(self, store):
        self._store = store
        self._gaps = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def once(self, is_meant, happens):
        """Let something happen in the answer of the next request that ``is_meant``."""
        self._gaps.append((is_meant, happens))

    @property
    def is_over(self):
        return not self._gaps

    async def write(self, *writes):
        try:
            return await self._store.write(*writes)
        finally:
            await self._answer(writes)

    async def get(self, partition, sort=HEAD):
        found = await self._store.get(partition, sort)
        await self._answer((partition, sort))
        return found

    async def _answer(self, asked):
        for gap in list(self._gaps):
            is_meant, happens = gap
            if is_meant(asked):
                self._gaps.remove(gap)
                await happens()


class Setting:
    """An app with every model on one store, and one entity of the model that a test is about."""

    def __init__(self):
        self.data = MemoryData()
        self.clock = VirtualClock()
        self.rung = []
        """Those that another process was called for."""
        self.store: Gaps
        self.app: hf.App
        self.partition = ""

    async def open_home(self) -> Home:
        home = open_memory_home(data=self.data)
        self.store = Gaps(home.store)
        return replace(home, store=self.store)

    def wake_at(self, partition, due_at):
        self.rung.append(partition)

    @property
    def host(self):
        return self.app.runtime().host

    @property
    def head(self):
        return self.data.find(self.partition, HEAD)

    async def wake(self):
        self.host.check(self.partition)

    async def until(self, is_so: Callable[[], bool]):
        async with asyncio.timeout(60):
            while not is_so():
                await asyncio.sleep(0.01)

    async def until_released(self):
        await self.until(lambda: self.head.owner is None and self.host.is_quiet)

    async def until_claimed_after(self, epoch: int):
        """Nothing but the wake-up leads to a claim in this time."""
        await self.until(lambda: self.head.epoch > epoch)

    async def take_away(self):
        """Another process takes the entity over."""
        self.data.listeners[OTHER] = lambda _partition: None
        await self.store.write(
            Update(partition=self.partition, owner=OTHER, lease_until=self.clock.now_ms() + 3_600_000, add_epoch=1)
        )

    async def give_back(self):
        """The other process releases it; something has come for it, and this process is woken."""
        await self.store.write(Update(partition=self.partition, owner=None, lease_until=None, add_revision=1))
        await self.wake()

    def releases(self, asked):
        return any(
            isinstance(write, Update) and write.partition == self.partition and write.owner is None for write in asked
        )

    def claims(self, asked):
        return any(
            isinstance(write, Update) and write.partition == self.partition and write.owner not in {None, UNSET}
            for write in asked
        )


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


@asynccontextmanager
async def open_setting(of_model: Callable[[Setting], Awaitable[None]], **limits: float):
    setting = Setting()
    setting.app = app = hf.App(
        "shop", home=setting.open_home, clock=setting.clock, limits=hf.Limits(sweep_seconds=3600.0, **limits)
    )
    app.to_bus(Placed)

    @app.consumer(Placed)
    async def bill(event: Placed) -> None: ...

    async with app.worker():
        await of_model(setting)
        await setting.until(lambda: setting.head is not None)
        yield setting


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
