"""A commit of which nobody knows whether it was written knows itself again, and takes nobody else's for its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.coordination.lease import Fenced
from holdfast.errors import StoreUnavailable
from holdfast.items import Item, Update, Write
from holdfast.kernel.renewal import renew
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual


class Cut:
    """A store that does not answer while ``is_cut``, and has not written what it was asked to."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        if self.is_cut:
            raise StoreUnavailable("no answer")
        return await self._store.write(*writes)


@pytest.mark.parametrize("billed", [False, True])
@pytest.mark.parametrize("who", ["another", "itself"])
def test_what_a_call_without_a_lease_leaves_is_not_taken_for_a_commit_under_one(billed, who, errors_expected):
    data, clock, cuts = MemoryData(), VirtualClock(), []

    async def open_home() -> Home:
        home = open_memory_home(data=data)
        cuts.append(Cut(home.store))
        return replace(home, writes_are_paid=billed, store=cuts[-1])

    def shop() -> tuple[hf.App, Any, asyncio.Event]:
        app, go = hf.App("shop", home=open_home, clock=clock), asyncio.Event()

        class Count(hf.Actor, app=app, optimistic=True):
            n: int = 0

            async def hold(self) -> None:
                await go.wait()

            async def add(self) -> int:
                self.n += 1
                return self.n

        return app, Count, go

    first, count, go = shop()
    second, same, _ = shop()

    async def main() -> None:
        async with first.worker(), second:
            assert await same.at("c").add() == 1
            await hf.send(count.at("c").hold)
            await asyncio.sleep(1)
            adding = asyncio.create_task(count.at("c").add())
            await asyncio.sleep(0.1)
            cuts[0].is_cut = True
            go.set()
            await asyncio.sleep(30)  # its lease has lapsed
            if who == "another":
                applied = await same.at("c").add()
            else:
                cuts[0].is_cut = False
                applied = await count.at("c").add()
            cuts[0].is_cut = False
            try:
                answers = [applied, await adding]
            except StoreUnavailable:
                answers = [applied]  # nobody knows, and nobody says that he does
            await asyncio.sleep(60)
            assert await same.at("c").add() == 2 + len(answers), answers

    run_virtual(main)


@pytest.mark.parametrize("named", [True, False])
def test_a_method_of_an_optimistic_actor_calls_others_although_an_earlier_lease_is_lost(named):
    """Its release is written and not answered yet, and the next renewal finds no lease. The call waits for that turn:
    the method that calls another actor needs a lease.
    """
    data = MemoryData()
    released, answer = asyncio.Event(), asyncio.Event()

    class Silent(Cut):
        async def write(self, *writes: Write) -> Sequence[Item | None]:
            done = await super().write(*writes)
            head = writes[0]
            releases = isinstance(head, Update) and head.partition == "actor#Count#c" and head.owner is None
            if releases and not released.is_set():
                released.set()
                await answer.wait()
                raise StoreUnavailable("no answer")
            return done

    async def open_home() -> Home:
        home = open_memory_home(data=data)
        return replace(home, store=Silent(home.store))

    app = hf.App("shop", home=open_home, clock=VirtualClock())

    class Total(hf.Actor, app=app):
        n: int = 0

        async def add(self, by: int) -> int:
            self.n += by
            return self.n

    class Count(hf.Actor, app=app, optimistic=True):
        n: int = 0

        async def add(self) -> None:
            self.n += 1

        async def report(self) -> int:
            return await Total.at("t").add(self.n)

    async def main() -> int:
        async with app.worker():
            await hf.send(Count.at("c").add)
            await released.wait()
            host = app.runtime().host
            await renew(host)
            assert host.entities["actor#Count#c"].lost
            reporting = asyncio.create_task(Count.at("c", request_id="r" if named else None).report())
            await asyncio.sleep(1)
            answer.set()
            counted = await reporting
            assert await Total.at("t").add(0) == counted
            return counted

    assert run_virtual(main) == 1


@pytest.mark.parametrize("optimistic", [True, False])
def test_that_a_caller_has_a_newer_owner_is_no_outcome_of_its_call(optimistic):
    app, runs = hf.App("shop", home="memory://", clock=VirtualClock()), []

    class Count(hf.Actor, app=app, optimistic=optimistic):
        n: int = 0

        async def add(self) -> int:
            self.n += 1
            runs.append(self.n)
            if len(runs) == 1:
                raise Fenced("as a call of another actor does")
            return self.n

    async def main() -> list[int]:
        async with app.worker():
            return [await Count.at("c", request_id="r").add() for _ in range(2)]

    assert run_virtual(main) == [1, 1]
    assert runs == [1, 1]
