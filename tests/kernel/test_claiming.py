"""A worker that finds much to do claims as it gets on: what it has claimed and not begun would only cost renewals. And
it takes on nothing more while it is late with those of what it has.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.backends.memory.store import MemoryStore
from holdfast.items import Update
from holdfast.kernel.pace import AT_ONCE
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

COUNT = 1_000


class Narrow(MemoryStore):
    """It takes one write after another, so many a second, and counts claims and renewals."""

    def __init__(self, data: MemoryData, per_second: int) -> None:
        super().__init__(data)
        self._seconds = 1 / per_second
        self._one = asyncio.Lock()
        self.claims = self.most_claims = self.renewals = 0

    async def write(self, *writes):
        (first, *_) = writes
        claims = isinstance(first, Update) and first.load and isinstance(first.owner, str)
        self.renewals += isinstance(first, Update) and isinstance(first.lease_until, int) and not first.add_epoch
        self.claims += claims
        self.most_claims = max(self.claims, self.most_claims)
        async with self._one:
            await asyncio.sleep(self._seconds)
            self.claims -= claims
            return await super().write(*writes)


def test_claims_wait_for_each_other_and_few_leases_are_renewed():
    data, clock, stores = MemoryData(), VirtualClock(), list[Narrow]()

    def process(*, narrow: bool):
        async def open_home() -> Home:
            home = open_memory_home(data=data)
            if not narrow:
                return home
            stores.append(Narrow(data, 100))
            return replace(home, store=stores[-1])

        app = hf.App("shop", home=open_home, clock=clock)

        @app.workflow
        async def job(number: int) -> int:
            return number

        return app, job

    async def main() -> None:
        before, job = process(narrow=False)
        async with before:
            await asyncio.gather(*(job.start(number, id=str(number)) for number in range(COUNT)))
        app, _ = process(narrow=True)
        async with app.worker():
            for number in range(COUNT):
                assert await app.handle("job", str(number)) == number

    run_virtual(main)
    (store,) = stores
    assert 0 < store.most_claims <= AT_ONCE
    assert store.renewals < COUNT // 4


def test_no_step_runs_twice_though_a_parent_starts_more_than_its_store_takes_in_the_time_of_a_lease():
    """What a living worker works on is not taken over because its requests are slow."""
    data, clock, ran = MemoryData(), VirtualClock(), Counter[int]()

    def process(name: str):
        async def open_home() -> Home:
            home = open_memory_home(data=data, owner=name)
            home.doorbell.ring = lambda _hint: None
            return replace(home, store=Narrow(data, 40), writes_are_paid=True, hears_peers=False)

        app = hf.App("shop", home=open_home, clock=clock)

        @app.step
        async def note(number: int) -> None:
            ran[number] += 1
            await asyncio.sleep(30)

        @app.workflow
        async def one(number: int) -> None:
            await note(number)

        @app.workflow
        async def many() -> None:
            await asyncio.gather(*(one(number) for number in range(COUNT)))

        return app, many

    async def main() -> None:
        (first, many), (second, _) = process("one"), process("two")
        async with first.worker(), second.worker():
            await (await many.start(id="all"))

    run_virtual(main)
    assert ran == Counter(range(COUNT))
