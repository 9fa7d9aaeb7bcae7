"""Several real processes on one file: nothing is lost, nothing doubled, and the dead are known to be dead."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.backends.sqlite import SqliteStore
from holdfast.items import HEAD, Item, Put

pytestmark = pytest.mark.process

CHILD = Path(__file__).with_name("child.py")


class Child:
    def __init__(self, process: Process) -> None:
        self.process = process

    async def hear(self) -> str:
        """The next line it says."""
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")

    async def ends(self, code: int = 0) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        assert await self.process.wait() == code


@asynccontextmanager
async def children(count: int, command: str, path: Path, number: int = 0) -> AsyncIterator[list[Child]]:
    """So many processes, ready to begin; killed at the end if they still run. No test takes longer than a minute."""
    async with asyncio.timeout(60):
        arguments = [sys.executable, "-W", "error", str(CHILD), command, str(path), str(number)]
        started = [
            Child(await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE)) for _ in range(count)
        ]
        try:
            for child in started:
                assert await child.hear() == "ready"
            yield started
        finally:
            for child in started:
                if child.process.returncode is None:
                    child.process.kill()
                await child.process.wait()


async def test_processes_that_open_a_new_file_together_all_succeed(path) -> None:
    async with children(6, "nothing", path) as processes:
        for child in processes:
            child.go()
        for child in processes:
            assert await child.hear() == "0"
            await child.ends()
    store = SqliteStore.open(str(path))
    assert await store.integrity() == []
    await store.close()


async def test_increments_of_several_processes_add_up(path) -> None:
    count, turns = 3, 150
    async with children(count, "increment", path, turns) as processes:
        for child in processes:
            child.go()
        for child in processes:
            assert await child.hear() == "done"
            await child.ends()
    store = SqliteStore.open(str(path))
    assert await store.get("counter") == Item("counter", revision=count * turns)
    notes = [item.sort for item in (await store.query("counter")).items if item.sort != HEAD]
    assert len(notes) == count * turns
    assert len({note.split("/")[0] for note in notes}) == count
    assert await store.integrity() == []
    await store.close()


async def test_a_killed_process_leaves_a_sound_file_with_all_it_acknowledged(path) -> None:
    for round_number in range(4):
        file = path.with_name(f"{round_number}.db")
        async with children(1, "fill", file) as (child,):
            child.go()
            acknowledged = 0
            while acknowledged < 40 * (round_number + 1):
                acknowledged = int(await child.hear())
            child.process.send_signal(signal.SIGKILL)
            await child.process.wait()
            while line := await child.hear():  # what it had said before it died
                acknowledged = int(line)
        store = SqliteStore.open(str(file))
        assert await store.integrity() == []
        # Every acknowledged call is there, and every call is there as a whole or not at all.
        for number in range(acknowledged + 100):
            head, entry = await store.get(f"p{number}"), await store.get(f"p{number}", "j/1")
            assert (head is None) == (entry is None)
            assert head is not None or number >= acknowledged
        await store.write(Put(Item("next")))
        await store.close()


async def test_a_killed_writer_does_not_block_the_living(path, open_home) -> None:
    async with open_home() as home, children(2, "fill", path.with_name("shared.db")) as (one, two):
        one.go()
        assert int(await one.hear()) >= 8
        one.process.kill()
        await one.process.wait()
        two.go()
        # It meets what the first has written, and is refused, which ends it: but it could write.
        assert await two.process.wait() == 1
        await home.store.write(Put(Item("p")))


async def test_rings_travel_between_processes(path, open_home) -> None:
    async with open_home() as home, children(2, "listen", path) as processes:
        owners = set()
        heard: asyncio.Queue[str | None] = asyncio.Queue()
        home.doorbell.listen(heard.put_nowait)
        for child in processes:
            child.go()
            owners.add(await child.hear())
        while home.doorbell.peers() != owners:
            await asyncio.sleep(0)
        for partition in ("w/checkout/1", "it's"):
            home.doorbell.ring(partition)
            for child in processes:
                assert await child.hear() == partition
        for child in processes:
            await child.ends()
        assert home.doorbell.peers() == frozenset()
        assert heard.empty()


async def test_the_dead_the_stopped_and_the_departed(path, open_home) -> None:
    async with open_home() as home, children(3, "listen", path) as (killed, stopped, leaving):
        names = []
        for child in (killed, stopped, leaving):
            child.go()
            names.append(await child.hear())
        assert [home.doorbell.alive(name) for name in names] == [True, True, True]

        killed.process.kill()
        await killed.process.wait()
        assert [home.doorbell.alive(name) for name in names] == [False, True, True]

        os.kill(stopped.process.pid, signal.SIGSTOP)
        assert [home.doorbell.alive(name) for name in names] == [False, True, True]

        await leaving.ends()
        assert [home.doorbell.alive(name) for name in names] == [False, True, False]
        assert home.doorbell.peers() == {names[1]}

        home.doorbell.ring("while stopped")
        os.kill(stopped.process.pid, signal.SIGCONT)
        assert await stopped.hear() == "while stopped"


async def test_a_process_stopped_with_the_file_open_does_not_stop_the_others(path, open_home) -> None:
    async with open_home() as home, children(1, "listen", path) as (child,):
        child.go()
        await child.hear()
        os.kill(child.process.pid, signal.SIGSTOP)
        await home.store.write(Put(Item("p")))
        assert await home.store.get("p") == Item("p")
        os.kill(child.process.pid, signal.SIGCONT)
        await child.ends()
