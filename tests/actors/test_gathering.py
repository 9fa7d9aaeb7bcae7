"""Where each write is billed, messages that nobody waits for share one: they wait for the next, but never for long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace
from tests.kernel.gaps import Setting, open_setting

import holdfast as hf
from holdfast.actors.turn.commit import GATHERING_SECONDS
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Item, Update, Write
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

COMMIT_SECONDS = 10.0
AT_ONCE = 1e-9


class SlowCommits:
    """A store in which the commits of actors take their time."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        first = writes[0]
        if isinstance(first, Update) and first.body is not UNSET:
            await asyncio.sleep(COMMIT_SECONDS)
        return await self._store.write(*writes)


def test_what_has_run_while_a_commit_was_under_way_does_not_wait_for_a_call_that_takes_long():
    data, clock, noted = MemoryData(), VirtualClock(), []

    async def open_home() -> Home:
        home = open_memory_home(data=data)
        return replace(home, writes_are_paid=True, store=SlowCommits(home.store))

    app = hf.App("shop", home=open_home, clock=clock)

    class Log(hf.Actor, app=app):
        async def note(self, what: str) -> None:
            noted.append((what, asyncio.get_running_loop().time()))

    class Desk(hf.Actor, app=app):
        async def pass_on(self, what: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            await hf.send(Log.at("l").note, what)

        async def think(self) -> None:
            await asyncio.sleep(3600)

    async def main() -> None:
        async with app:
            for what, seconds in (("first", 0.0), ("second", 0.1), ("third", 0.0)):
                await hf.send(Desk.at("d").pass_on, what, seconds)
            await hf.send(Desk.at("d").think)
        async with app.worker():
            await asyncio.sleep(2 * 3600)
        assert [what for what, _ in noted] == ["first", "second", "third"]
        assert all(at < 5 * COMMIT_SECONDS for _, at in noted), noted

    run_virtual(main)


def test_what_waits_for_its_commit_is_committed_before_the_turn_reads_its_head():
    """Else that commit comes while the head is read, which shows an epoch that is not the turn's any more."""

    async def a_desk(setting: Setting) -> None:
        all_sent = asyncio.Event()

        class Desk(hf.Actor, app=setting.app):
            noted: int = 0

            async def note(self) -> None:
                self.noted += 1
                if self.noted == 1:
                    await all_sent.wait()
                if self.noted == 3:  # what the second one has left waits by now
                    setting.store.once(lambda asked: asked == (setting.partition, HEAD), longer_than_a_commit_waits)
                    await setting.wake()

        async def longer_than_a_commit_waits() -> None:
            await asyncio.sleep(2 * GATHERING_SECONDS)

        setting.partition = "actor#Desk#d"
        for _ in range(3):
            await hf.send(Desk.at("d").note)
        all_sent.set()
        await setting.until(lambda: setting.store.is_over and setting.host.is_quiet)

    async def main() -> None:
        async with open_setting(a_desk, paid=True, slice_seconds=AT_ONCE) as setting:
            assert setting.app.telemetry.counts["fenced"] == 0

    run_virtual(main)
