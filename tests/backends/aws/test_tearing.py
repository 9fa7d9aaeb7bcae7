"""Pages that are read while others write are torn, and nothing is taken out of its order or lost (G6, G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from dataclasses import dataclass
from random import Random
from types import ModuleType
from typing import Any

import pytest
from tests.backends.aws.tearing import LONG_SECONDS, Tears
from tests.backends.aws.world import DynamoDatabase

import holdfast as hf
from holdfast.actors.turn import stages as actor_stages
from holdfast.items import Item
from holdfast.messaging import relay
from holdfast.ports import Home
from holdfast.replay import stages as execution_stages
from holdfast.testing import Ledger, World, run_virtual
from holdfast.testing.world import swift

SENDERS = 3
BURSTS = 12
BURST = 3
EACH = BURSTS * BURST
APART_SECONDS = 0.05
SEEDS = 4
SEEDS_OF_A_BUG = 60
TORN_AT_LEAST = SEEDS


@dataclass
class Entered:
    entry: str


class Crowd:
    """Processes that send to one actor and to one execution, in bursts, while another process reads what has come."""

    def __init__(self, client: Any, seed: int) -> None:
        self.seed = seed
        self.entered: list[str] = []
        self.signalled: list[str] = []
        self.handled: list[str] = []
        self._client = client

    def build(self, app: hf.App, _ledger: Ledger) -> Any:
        crowd = self

        class Book(hf.Actor, app=app):
            entries: list[str] = hf.field(default_factory=list)

            async def enter(self, entry: str) -> None:
                self.entries = [*self.entries, entry]
                await app.publish(Entered(entry))

            @hf.read
            async def all(self) -> list[str]:
                return self.entries

        @app.consumer(Entered)
        async def note(event: Entered) -> None:
            crowd.handled.append(event.entry)

        @app.workflow
        async def gather(count: int) -> list[str]:
            taken: list[str] = []
            while len(taken) < count:
                taken.append(await hf.signal("entry", str))
                crowd.signalled = list(taken)
            return taken

        async def start() -> Any:
            return await gather.start(SENDERS * EACH, id="one")

        async def send(sender: str) -> None:
            random, handle, book = Random(f"{crowd.seed}/{sender}"), await start(), Book.at("one")
            for first in range(0, EACH, BURST):
                await asyncio.sleep(random.random() * APART_SECONDS)
                for number in range(first, first + BURST):
                    await hf.send(book.enter, f"{sender} {number}")
                    await handle.signal("entry", f"{sender} {number}")

        async def user() -> Any:
            return await start(), Book.at("one"), send

        return user

    async def play(self) -> None:
        """Send everything, and wait until all of it was taken."""
        self.database = DynamoDatabase(self._client)
        self.database.tears = Tears(self.seed, LONG_SECONDS)
        world = World(self.build, limits=swift(), database=self.database)
        worker = await world.boot()
        handle, book, _ = await worker.call(worker.user)
        clients = [await world.client() for _ in range(SENDERS)]

        async def send_from(client: Any, number: int) -> None:
            *_, send = await client.user()
            await send(f"sender {number}")

        await asyncio.gather(
            *(client.call(lambda c=client, n=number: send_from(c, n)) for number, client in enumerate(clients))
        )
        async with asyncio.timeout(600):
            self.signalled = await worker.call(handle.result)
            await worker.call(world.quiet)
        self.entered = await worker.call(book.all)
        await worker.stop()
        for client in clients:
            await client.stop()
        await world.close()

    def gaps(self) -> list[str]:
        """Whether signals were passed over, of an execution that has not ended."""
        for number in range(SENDERS):
            sender = f"sender {number}"
            taken = [each for each in self.signalled if each.startswith(sender)]
            if taken != [f"{sender} {n}" for n in range(len(taken))]:
                return ["signals"]
        return []

    def wrong(self) -> list[str]:
        """What was taken out of its order, or not once."""
        found: list[str] = []
        for name, taken in (("messages", self.entered), ("signals", self.signalled)):
            for number in range(SENDERS):
                sender = f"sender {number}"
                if [each for each in taken if each.startswith(sender)] != [f"{sender} {n}" for n in range(EACH)]:
                    found.append(name)
        return found + ["events"] * (self.handled != self.entered)


def played(client: Any, seed: int) -> Crowd:
    crowd = Crowd(client, seed)
    run_virtual(crowd.play)
    return crowd


def found(client: Any, seed: int) -> list[str]:
    """What was wrong. An execution that waits for a signal that was passed over does not end."""
    crowd = Crowd(client, seed)
    try:
        run_virtual(crowd.play)
    except TimeoutError:
        return crowd.gaps()
    return crowd.wrong()


def test_what_comes_while_it_is_read_is_taken_once_and_in_order(client: Any, dynamodb: str) -> None:
    crowds = [played(client, seed) for seed in range(SEEDS)]
    assert [crowd.wrong() for crowd in crowds] == [[]] * SEEDS
    assert sum(crowd.database.tears.torn for crowd in crowds) >= TORN_AT_LEAST, "pages not torn prove nothing"


async def one_reading(home: Home, partition: str, prefix: str, limit: int | None = None) -> list[Item]:
    return list((await home.store.query(partition, prefix=prefix, limit=limit or 1000)).items)


async def one_page(home: Home, partition: str, prefix: str, known: Container[str]) -> tuple[Sequence[Item], bool]:
    page = await home.store.query(partition, prefix=prefix)
    return page.items, page.cursor is not None


@pytest.mark.parametrize(
    ("reader", "name", "read", "told"),
    [
        (actor_stages, "arrived_next", one_page, "messages"),
        (execution_stages, "arrived", one_reading, "signals"),
        (relay, "arrived", one_reading, "events"),
    ],
)
def test_a_reader_that_takes_what_one_reading_shows_is_found(
    reader: ModuleType, name: str, read: Any, told: str, client: Any, dynamodb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, name, read)
    assert any(told in found(client, seed) for seed in range(SEEDS_OF_A_BUG))
