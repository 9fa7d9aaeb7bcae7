"""Workers that divide their sweeps: together they look at everything, once, and what a dead one leaves is found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace
from tests.backends.aws import hostile

from holdfast.backends.aws import DynamoStore
from holdfast.backends.aws.shares import ABSENT_SECONDS, FEW, PRESENCE, SharedSweeps
from holdfast.clock import SystemClock
from holdfast.items import Item, Put, Update
from holdfast.ports import SALT_PARTITION

OpenStore = Callable[..., Awaitable[DynamoStore]]

WORKERS = 10
SWEEP_SECONDS = 5.0
BEFORE = 10_000


class Crew:
    """Workers on one table, and the time that they share."""

    def __init__(self, stores: list[DynamoStore]) -> None:
        self.now = 100.0
        self.stores = stores
        self.sweeps = [
            SharedSweeps(store, f"worker-{number}", SystemClock(), lambda: self.now)
            for number, store in enumerate(stores)
        ]
        self.code = ["same"] * len(stores)
        self.room = [True] * len(stores)
        self.down: set[int] = set()

    async def look(self) -> list[set[str]]:
        """What each finds in one sweep, one after another."""
        found: list[set[str]] = []
        for number, sweeps in enumerate(self.sweeps):
            found.append(set())
            after, more = None, number not in self.down
            while more:
                page = await sweeps.due(BEFORE, after=after, code=self.code[number], has_room=self.room[number])
                found[-1] |= {head.partition for head in page.items}
                after, more = page.cursor, page.cursor is not None
        self.now += SWEEP_SECONDS
        return found

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


async def crew(open_store: OpenStore, workers: int = WORKERS) -> Crew:
    stores = [await open_store() for _ in range(workers)]
    for store in stores[1:]:
        store.table = store._due._table = store._reader._table = stores[0].table
    return Crew(stores)


async def write(store: DynamoStore, heads: list[Item]) -> set[str]:
    await asyncio.gather(*(store.write(Put(head)) for head in heads))
    return {head.partition for head in heads}


def due(count: int) -> list[Item]:
    return [Item(f"wf#a#{number}", status="READY", due_at=number) for number in range(count)]


def is_divided(found: list[set[str]], every: set[str]) -> bool:
    return set[str]().union(*found) == every and sum(map(len, found)) == len(every)


async def test_ten_workers_read_as_much_as_one_of_what_is_at_work_elsewhere(open_store: OpenStore) -> None:
    """Each head is read once by one of them, and not once by each of them."""
    workers, count = await crew(open_store), 180
    leased = [replace(head, owner="elsewhere", lease_until=99_000, epoch=1) for head in due(count)]
    await write(workers.stores[0], [replace(head, partition=f"{head.partition}/a") for head in leased[: FEW + 1]])
    await workers.look()
    await workers.look()  # all know of each other
    for store in workers.stores:
        store.meter.reset()
    refused = hostile.refused()
    await write(workers.stores[0], leased)
    written = workers.stores[0].meter.total.write_units
    assert await workers.look() == [set()] * WORKERS
    used = [store.meter.total for store in workers.stores]
    units = sum(each.read_units for each in used)
    of_each = 2.5 + 1 + FEW + 1  # the index; who is there; what it knew before
    assert count <= units <= count + WORKERS * of_each
    requests = sum(each.requests for each in used) - (hostile.refused() - refused)
    assert requests <= count + WORKERS * 5, "five for each: index, presence, who, heads"
    assert sum(each.write_units for each in used) - written == WORKERS
    await workers.close()


async def test_what_is_due_is_found_by_one_of_them_each(open_store: OpenStore) -> None:
    workers = await crew(open_store, 4)
    every = await write(workers.stores[0], due(150))
    first = await workers.look()
    assert set[str]().union(*first) == every, "as long as they do not know of each other they all look"
    found = await workers.look()
    assert is_divided(found, every)
    assert all(20 <= len(each) <= 60 for each in found), "about the same for each"
    await workers.close()


async def test_those_that_start_together_divide_their_first_look_and_leave_nothing_to_others(
    open_store: OpenStore,
) -> None:
    """An older one may be dead: what would be its share is looked at by the new ones, too."""
    workers = await crew(open_store, 4)
    every = await write(workers.stores[0], due(150))
    older = workers.sweeps[3]
    older._started_at -= 60_000
    await older.due(BEFORE, after=None, code="same", has_room=True)
    pages = [each.due(BEFORE, after=None, code="same", has_room=True, is_new=True) for each in workers.sweeps[:3]]
    found = [{head.partition for head in page.items} for page in await asyncio.gather(*pages)]
    assert is_divided(found, every)
    assert all(found)
    await workers.close()


async def test_more_than_one_look_shows_is_divided_too(open_store: OpenStore) -> None:
    workers = await crew(open_store, 3)
    every = await write(workers.stores[0], due(450))
    await workers.look()
    assert is_divided(await workers.look(), every)
    await workers.close()


async def test_the_share_of_one_that_died_is_found_when_it_was_silent_for_as_long_as_a_lease_lasts(
    open_store: OpenStore,
) -> None:
    workers = await crew(open_store, 4)
    every = await write(workers.stores[0], due(100))
    await workers.look()
    of_the_dead = (await workers.look())[2]
    workers.down.add(2)
    waited = 0.0
    while not is_divided(found := await workers.look(), every):
        assert set[str]().union(*found) >= every - of_the_dead, "nothing else is lost from sight meanwhile"
        waited += SWEEP_SECONDS
    assert waited <= ABSENT_SECONDS
    workers.down.clear()  # it was only stopped
    await workers.look()
    assert is_divided(await workers.look(), every)
    await workers.close()


async def test_the_share_of_one_that_leaves_is_found_at_once(open_store: OpenStore) -> None:
    workers = await crew(open_store, 3)
    every = await write(workers.stores[0], due(60))
    await workers.look()
    assert is_divided(await workers.look(), every)
    await workers.sweeps[0].leave()
    workers.down.add(0)
    assert is_divided(await workers.look(), every)
    await workers.close()


async def test_a_note_that_comes_late_leaves_no_share_alone_for_longer_than_a_death(open_store: OpenStore) -> None:
    """A worker was stopped within the write of its note, left, and the note arrives after all, over no other or over a
    newer one.
    """
    workers = await crew(open_store, 3)
    every = await write(workers.stores[0], due(60))
    await workers.look()
    late = await workers.stores[0].get(SALT_PARTITION, f"{PRESENCE}worker-0")
    assert late is not None
    await workers.look()
    for leaves in (True, False):
        if leaves:
            await workers.sweeps[0].leave()
            workers.down.add(0)
            assert is_divided(await workers.look(), every)
        await workers.stores[0].write(Put(late))
        waited = 0.0
        while not is_divided(await workers.look(), every):
            waited += SWEEP_SECONDS
        assert waited <= ABSENT_SECONDS
        workers.down.clear()
        await workers.look()
    await workers.close()


async def test_one_that_has_as_much_as_it_can_work_on_gets_no_share(open_store: OpenStore) -> None:
    workers = await crew(open_store, 3)
    every = await write(workers.stores[0], due(60))
    await workers.look()
    workers.room[0] = False
    found = await workers.look()
    assert found[0] == set()
    assert is_divided(found, every)
    workers.room = [False] * 3
    await workers.look()
    assert await workers.look() == [every] * 3, "if none has room each looks, whichever has room first"
    await workers.close()


async def test_those_with_other_code_look_at_everything_too(open_store: OpenStore) -> None:
    """What one cannot work on must not be left to it."""
    workers = await crew(open_store, 4)
    workers.code = ["old", "old", "new", "new"]
    every = await write(workers.stores[0], due(60))
    await workers.look()
    found = await workers.look()
    assert is_divided(found[:2], every)
    assert is_divided(found[2:], every)
    await workers.close()


async def test_where_little_is_due_nothing_is_divided_and_nothing_written(open_store: OpenStore) -> None:
    workers = await crew(open_store, 3)
    every = await write(workers.stores[0], due(FEW))
    assert await workers.look() == [every] * 3
    await workers.sweeps[0].leave()
    assert (await workers.stores[0].query(SALT_PARTITION, prefix=PRESENCE)).items == ()
    assert sum(store.meter.total.write_units for store in workers.stores[1:]) == 0
    await workers.stores[0].write(Update(partition="wf#a#1", due_at=None))
    await workers.close()
