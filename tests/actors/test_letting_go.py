"""Whoever lets go of an actor says when to look at it again, and has seen everything that he answers for (G1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Bounds, Item, Update, Write
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

Before = Callable[[Sequence[Write]], Coroutine[Any, Any, None]]


class Watched:
    """A store that has something happen before it writes, and keeps every version of one head."""

    def __init__(self, store: Any, partition: str, before: Before) -> None:
        self._store = store
        self._partition = partition
        self._before = before
        self.heads: list[tuple[Item, list[str]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        await self._before(writes)
        answers = await self._store.write(*writes)
        if (head := await self._store.get(self._partition)) is not None:
            waiting = await self._store.query(self._partition, prefix="i#")
            self.heads.append((head, [each.sort for each in waiting.items]))
        return answers

    @property
    def blocked(self) -> list[Item]:
        """The versions in which messages waited and nobody would have looked, had the process died then."""
        return [head for head, waiting in self.heads if waiting and head.due_at is None]


def on_watched(before: Before, *, billed: bool = True, bounds: Bounds | None = None) -> tuple[hf.App, list[Watched]]:
    data, clock, opened = MemoryData(), VirtualClock(), []

    async def open_home() -> Home:
        home = open_memory_home(data=data)
        opened.append(Watched(home.store, "actor#Desk#d", before))
        return replace(home, writes_are_paid=billed, store=opened[-1], bounds=bounds)

    return hf.App("shop", home=open_home, clock=clock), opened


def is_commit(writes: Sequence[Write]) -> bool:
    first = writes[0]
    return isinstance(first, Update) and (first.partition, first.sort) == ("actor#Desk#d", HEAD) and first.add_epoch > 0


def desk_of(app: hf.App) -> type[Any]:
    class Desk(hf.Actor, app=app, optimistic=False):
        heard: list[str] = hf.field(default_factory=list)

        async def tell(self, what: str) -> None:
            await hf.send(Desk.at("d").hear, what)

        async def hear(self, what: str) -> None:
            self.heard = [*self.heard, what]

        @hf.read
        async def said(self) -> list[str]:
            return self.heard

        async def nothing(self) -> int:
            self.heard = [*self.heard, "nothing"]
            return 1

    return Desk


@pytest.mark.parametrize("billed", [False, True])
def test_what_an_actor_sends_to_itself_while_its_process_stops_is_found_by_the_next(billed):
    stop = asyncio.Event()

    async def before(writes: Sequence[Write]) -> None:
        if is_commit(writes) and len(writes) > 1 and not stop.is_set():
            stop.set()
            await asyncio.sleep(1)

    app, opened = on_watched(before, billed=billed)
    desk = desk_of(app)

    async def main() -> None:
        async with app.worker():
            telling = asyncio.create_task(desk.at("d").tell("hello"))
            await stop.wait()
        await telling
        assert not opened[-1].blocked
        async with app.worker():
            await asyncio.sleep(60)
            assert await desk.at("d").said() == ["hello"]

    run_virtual(main)


def test_a_message_that_comes_between_the_commit_and_the_end_of_a_process_is_found_by_the_next():
    stop, sent = asyncio.Event(), asyncio.Event()

    async def before(writes: Sequence[Write]) -> None:
        if is_commit(writes) and not writes[0].load and not stop.is_set():
            stop.set()
            await sent.wait()

    app, opened = on_watched(before)
    desk = desk_of(app)
    other = hf.App("shop", home=app._home, clock=app._clock)
    same = desk_of(other)

    async def main() -> None:
        async with other, app.worker():
            calling = asyncio.create_task(desk.at("d").nothing())
            await stop.wait()
            await hf.send(same.at("d").hear, "hello")
            ending = asyncio.create_task(app.employed.host.drain(5.0))
            await asyncio.sleep(0)
            sent.set()
            await ending
            await calling
        assert not any(each.blocked for each in opened)

    run_virtual(main)


def test_a_commit_in_parts_does_not_let_go_of_what_its_first_part_has_sent():
    async def before(_writes: Sequence[Write]) -> None: ...

    app, opened = on_watched(before, bounds=Bounds(writes=11, body_bytes=1_000_000))

    class Desk(hf.Actor, app=app, optimistic=False):
        count: int = 0

        async def tell(self) -> None:
            for _ in range(2):
                await hf.send(Desk.at("d").hear)

        async def pass_on(self, to: str) -> None:
            for n in range(3):
                await hf.send(Desk.at(f"{to}{n}").hear)

        async def hear(self) -> None:
            self.count += 1

        @hf.read
        async def seen(self) -> int:
            return self.count

    async def main() -> None:
        async with app:
            await hf.send(Desk.at("d").tell)
            await hf.send(Desk.at("d").pass_on, "a")
            await hf.send(Desk.at("d").pass_on, "b")
        async with app.worker():
            await asyncio.sleep(60)
            assert (await Desk.at("d").seen()) == 2
        assert not opened[-1].blocked

    run_virtual(main)
