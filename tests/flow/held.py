"""Executions that say how many of them have begun and have not ended, and stay until they are told to go."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import holdfast as hf
from holdfast.flow.record import GateRecord, decode_gate, shards_of


class Stay:
    """The step of a workflow: it notes who is inside, and waits until ``go`` lets it out."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.order: list[str] = []
        self.most = 0
        self.most_of: Counter[str] = Counter()
        self._out = asyncio.Semaphore(0)

    async def __call__(self, name: str) -> str:
        self.inside.append(name)
        self.order.append(name)
        self.most = max(self.most, len(self.inside))
        key = name.partition("-")[0]
        self.most_of[key] = max(self.most_of[key], sum(each.startswith(f"{key}-") for each in self.inside))
        try:
            await self._out.acquire()
        finally:
            self.inside.remove(name)
        return name

    def go(self, number: int = 1) -> None:
        for _ in range(number):
            self._out.release()


def declare(app: hf.App, stay: Stay, **numbers: Any) -> hf.Workflow[[str], str]:
    """A workflow whose executions stay, in a queue with these numbers. The key is what comes before the hyphen."""
    queue = app.queue("mail", **numbers)

    @app.step
    async def inside(name: str) -> str:
        return await stay(name)

    @app.workflow(queue=queue)
    async def letter(name: str) -> str:
        return await inside(name)

    return letter


async def start(letter: hf.Workflow[[str], str], *names: str) -> list[hf.Handle[str]]:
    """Start one for each name, under that id, with its key."""
    return [await letter.start(name, id=name, queued=hf.Queued(key=name.partition("-")[0])) for name in names]


async def gate_of(app: hf.App, queue: str = "mail") -> GateRecord:
    head = await app.runtime().home.store.get(app.registry.queues[queue].partition)
    assert head is not None
    return decode_gate(head.body)


async def places(app: hf.App, queue: str = "mail") -> list[str]:
    """The sort keys of all places of a queue."""
    store = app.runtime().home.store
    pages = [await store.query(shard) for shard in shards_of(app.registry.queues[queue].partition)]
    return [item.sort for page in pages for item in page.items]
