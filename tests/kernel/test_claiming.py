"""A worker that finds much to do claims as it gets on: what it has claimed and not begun would only cost renewals."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.backends.memory.store import MemoryStore
from holdfast.items import Update
from holdfast.kernel.claims import CLAIMS_AT_ONCE
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

COUNT = 1_000
PER_SECOND = 100


class Narrow(MemoryStore):
    """It takes one write after another, a hundred a second, and counts claims and renewals."""

    def __init__(self, data: MemoryData) -> None:
        super().__init__(data)
        self._one = asyncio.Lock()
        self.claims = self.most_claims = self.renewals = 0

    async def write(self, *writes):
        (first, *_) = writes
        claims = isinstance(first, Update) and first.load and isinstance(first.owner, str)
        self.renewals += isinstance(first, Update) and isinstance(first.lease_until, int) and not first.add_epoch
        self.claims += claims
        self.most_claims = max(self.claims, self.most_claims)
        async with self._one:
            await asyncio.sleep(1 / PER_SECOND)
            self.claims -= claims
            return await super().write(*writes)


def test_claims_wait_for_each_other_and_few_leases_are_renewed():
    data, clock, stores = MemoryData(), VirtualClock(), list[Narrow]()

    def process(*, narrow: bool):
        async def open_home() -> Home:
            home = open_memory_home(data=data)
            if not narrow:
                return home
            stores.append(Narrow(data))
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
    assert 0 < store.most_claims <= CLAIMS_AT_ONCE
    assert store.renewals < COUNT // 4
