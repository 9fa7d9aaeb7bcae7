"""Caches against a model of one number: nobody is answered with less than what had been invalidated before he asked.

The source counts up. Several processes read it through caches and change it, with delays everywhere and a shared tier
that comes and goes. Each answer is held against the highest count whose invalidation had returned before the question:
in this process, or long enough before in another.
"""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patterns.shared import SharedCache

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.testing import run_virtual

MEMORY_TTL = 0.5
KEYS = "abc"
ALL = "all"


class Source:
    """Numbers that only grow, and the books: what was invalidated when, by whom."""

    def __init__(self, random):
        self.random = random
        self.count = dict.fromkeys(KEYS, 0)
        self.loading = {}
        self.known = []  # (when, who, key, count): so much had been made known to them by then
        self.wrong = []

    async def read(self, process, key):
        place = (process, key)
        await asyncio.sleep(self.random.random() * 0.3)
        answer = self.count[key]
        self.loading[place] = self.loading.get(place, 0) + 1
        await asyncio.sleep(self.random.random() * 1.5)
        return answer

    def least(self, process, key, asked_at):
        """What must at least be answered: all that this process knows of, and what all have long heard of."""
        ours = [c for when, by, k, c in self.known if by == process and k == key and when <= asked_at]
        theirs = [c for when, by, k, c in self.known if by == ALL and k == key and when + MEMORY_TTL < asked_at]
        return max(*ours, *theirs, 0, 0)


async def process(source, shared, name, steps, random):
    async def open_home():
        return open_memory_home()

    app = hf.App("shop", home=open_home, cache=shared)

    @app.cache(ttl="5s", memory_ttl=MEMORY_TTL, fill_timeout="1s", max_entries=2)
    async def number(key: str) -> int:
        return await source.read(name, key)

    async def read(key):
        asked_at = asyncio.get_running_loop().time()
        least = source.least(name, key, asked_at)
        answer = await number(key)
        if answer < least:
            source.wrong.append(f"{name} read {key}={answer} at {asked_at:.3f}, after {least} was made known")

    async def change(key):
        source.count[key] += 1
        count = source.count[key]
        knows = (name, ALL)
        try:
            await (number.invalidate(key) if random.random() < 0.8 else number.invalidate_all())
        except hf.StoreError:
            knows = (name,)
        now = asyncio.get_running_loop().time()
        source.known += [(now, who, key, count) for who in knows]

    async with app:
        tasks = []
        for _ in range(steps):
            await asyncio.sleep(random.random() ** 2)
            work = read if random.random() < 0.8 else change
            tasks.append(asyncio.ensure_future(work(random.choice(KEYS))))
        await asyncio.gather(*tasks)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), processes=st.integers(0, 4), outages=st.booleans())
def test_no_answer_is_older_than_what_was_invalidated_before_the_question(seed, processes, outages):
    """No processes that share: one alone, with memory only."""

    async def main():
        random = Random(seed)
        source, shared = Source(random), SharedCache()
        shared.latency = lambda: random.random() ** 3 * 0.4

        async def outage():
            while outages:
                await asyncio.sleep(random.random() * 10)
                shared.down = not shared.down

        failing = asyncio.ensure_future(outage())
        if processes:
            await asyncio.gather(*(process(source, shared.open, f"p{n}", 60, random) for n in range(processes)))
        else:
            await process(source, None, "alone", 60, random)
        failing.cancel()
        assert source.wrong == []
        assert sum(source.loading.values()) < max(processes, 1) * 60, "something was answered without a load"

    run_virtual(main, seed=seed)
