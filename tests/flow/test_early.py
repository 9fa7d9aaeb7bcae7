"""Places that are written before their executions, where writes are paid: none is lost, and none stays for nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import Refused
from holdfast.flow.record import PLACE_PREFIX, Queueing, decode_gate, make_due, place_put, queueing_in, shards_of
from holdfast.items import HEAD, Item, Put, Update, Write
from holdfast.ports import Home
from holdfast.testing import PATIENT, VirtualClock, run_virtual

WRITES = Callable[..., Awaitable[Sequence[Item | None]]]


class Paid:
    """Apps with one queue, on a home where each write is paid for."""

    def __init__(self) -> None:
        self.data, self.clock = MemoryData(), VirtualClock()

    async def _open(self) -> Home:
        return replace(open_memory_home(data=self.data), writes_are_paid=True)

    def app(self, limits: hf.Limits = PATIENT) -> tuple[hf.App, hf.Queue, hf.Workflow[[int], int]]:
        app = hf.App("shop", home=self._open, clock=self.clock, limits=limits)
        mail = app.queue("mail", limit=1, limit_per_key=1)

        @app.workflow(queue=mail)
        async def letter(number: int) -> int:
            await hf.sleep(1)
            return number

        return app, mail, letter

    async def places(self, queue: hf.Queue) -> list[str]:
        store = open_memory_home(data=self.data).store
        pages = [await store.query(shard, prefix=PLACE_PREFIX) for shard in shards_of(queue.partition)]
        return [item.sort for page in pages for item in page.items]


@pytest.fixture
def paid() -> Paid:
    return Paid()


def is_head(writes: Sequence[Write]) -> bool:
    return any(isinstance(each, Put) and each.item.sort == HEAD and each.item.body for each in writes)


def is_release(write: Write, partition: str) -> bool:
    return isinstance(write, Update) and write.partition == partition and write.owner is None and write.due_at is None


def test_nothing_is_due_for_what_waits_but_its_queue(paid: Paid) -> None:
    async def main() -> None:
        app, mail, letter = paid.app()
        async with app.worker():
            await mail.pause()
            await letter.start(1, id="1")
            store = app.runtime().home.store
            head, gate = await store.get("wf#letter#1"), await store.get(mail.partition)
            assert head is not None and head.due_at is None
            assert gate is not None and gate.due_at is not None
            await mail.resume()
            assert await letter.handle("1") == 1
            await asyncio.sleep(60)  # the queue rests
            gate = await store.get(mail.partition)
            assert gate is not None and gate.due_at is None and not decode_gate(gate.body).awake
            assert await paid.places(mail) == []

    run_virtual(main)


def test_what_a_start_leaves_that_dies_behind_its_place_goes_and_its_id_stays_free(paid: Paid) -> None:
    async def main() -> None:
        app, mail, letter = paid.app()
        async with app.worker():
            store, now = app.runtime().home.store, paid.clock.now_ms()
            await store.write(place_put("wf#letter#1", Queueing(gate=mail.partition, since=now, epoch=0)))
            await store.write(make_due(mail.partition, now))
            await asyncio.sleep(30)
            assert len(await paid.places(mail)) == 1, "its head may be on its way"
            assert await (await letter.start(2, id="2")) == 2  # it holds up nothing
            await asyncio.sleep(60)
            assert await paid.places(mail) == []
            assert await (await letter.start(1, id="1")) == 1

    run_virtual(main)


def test_what_a_start_leaves_that_dies_does_not_fill_a_queue_that_stands_still(
    paid: Paid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for long is looked at once, a few at a time."""
    monkeypatch.setattr("holdfast.flow.early.MOST_SEEN", 2)

    async def main() -> None:
        app, mail, letter = paid.app()
        async with app.worker():
            assert await letter(7) == 7
            await mail.pause()
            (done,) = [each.id for each in (await app.executions("letter")).executions]
            handles = [await letter.start(number, id=f"{number}") for number in range(3)]
            store, now, partitions = (
                app.runtime().home.store,
                paid.clock.now_ms(),
                [f"wf#letter#{each}" for each in ("9", "a", "b", done)],
            )
            for partition in partitions:
                await store.write(place_put(partition, Queueing(gate=mail.partition, since=now, epoch=0)))
            get, read = store.get, Counter[str]()

            async def counted(partition: str, sort: str = HEAD) -> Item | None:
                read[partition] += 1
                return await get(partition, sort)

            await asyncio.sleep(50)
            assert len(await paid.places(mail)) == 7, "their heads may be on their way"
            monkeypatch.setattr(store, "get", counted)
            await asyncio.sleep(60)
            assert len(await paid.places(mail)) == 3
            gate = await get(mail.partition)
            assert gate is not None and decode_gate(gate.body).waiting == 3
            assert [read[f"wf#letter#{number}"] for number in range(3)] == [1, 1, 1]
            await mail.resume()
            assert await asyncio.gather(*handles) == [0, 1, 2]

    run_virtual(main)


def test_a_start_that_is_stopped_behind_its_place_begins_anew_after_it_was_given_up(
    paid: Paid, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        app, mail, letter = paid.app()
        client, _, from_client = paid.app()
        async with app.worker(), client:
            store: Any = client.runtime().home.store
            write: WRITES = store.write
            stops = [300.0]

            async def stopped(*writes: Write) -> Sequence[Item | None]:
                if is_head(writes) and stops:
                    await asyncio.sleep(stops.pop())
                return await write(*writes)

            monkeypatch.setattr(store, "write", stopped)
            handle = await from_client.start(1, id="1")
            assert not stops
            assert await asyncio.wait_for(handle.result(), 120) == 1
            assert (await letter.handle("1").status()).status == "COMPLETED"
            await asyncio.sleep(60)
            assert await paid.places(mail) == []

    run_virtual(main)


def test_a_head_that_comes_in_the_moment_in_which_it_is_given_up_stays(
    paid: Paid, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        app, mail, _ = paid.app()
        client, _, from_client = paid.app()
        async with app.worker(), client:
            here: Any = app.runtime().home.store
            there: Any = client.runtime().home.store
            write: WRITES = here.write
            late: list[Sequence[Write]] = []
            came = asyncio.Event()

            async def held_back(*writes: Write) -> Sequence[Item | None]:
                if not is_head(writes):
                    return await write(*writes)
                late.append(writes)
                await came.wait()
                return [None] * len(writes)

            async def overtaken(*writes: Write) -> Sequence[Item | None]:
                if is_head(writes) and late:
                    await write(*late.pop())
                    came.set()
                return await write(*writes)

            monkeypatch.setattr(there, "write", held_back)
            monkeypatch.setattr(here, "write", overtaken)
            handle = await from_client.start(1, id="1")
            assert came.is_set() and not late
            assert await asyncio.wait_for(handle.result(), 120) == 1
            assert await paid.places(mail) == []

    run_virtual(main)


def test_a_start_that_another_one_has_overtaken_leaves_no_place_and_changes_no_key(paid: Paid) -> None:
    async def main() -> None:
        app, mail, letter = paid.app()
        async with app.worker():
            await mail.pause()
            store = app.runtime().home.store
            await letter.start(1, id="1", queued=hf.Queued(key="ann"))
            await asyncio.sleep(1)
            await letter.start(1, id="1", queued=hf.Queued(key="bob"))
            assert len(await paid.places(mail)) == 1
            head = await store.get("wf#letter#1")
            assert head is not None
            waits = queueing_in(head)
            assert waits is not None
            await store.write(place_put(head.partition, replace(waits, key="bob")))  # of a start in the same moment
            await mail.resume()
            while not (status := await mail.status()).slots:
                await asyncio.sleep(0.1)
            assert status.slots[0].key == "ann"
            assert await letter.handle("1") == 1

    run_virtual(main)


@pytest.mark.parametrize("while_it_rests", [False, True])
def test_a_start_that_no_process_hears_of_is_seen_although_its_queue_rests(
    paid: Paid, monkeypatch: pytest.MonkeyPatch, *, while_it_rests: bool
) -> None:
    async def main() -> None:
        app, mail, letter = paid.app(hf.Limits())
        client, _, from_client = paid.app(hf.Limits())
        async with app.worker(), client:
            store: Any = app.runtime().home.store
            write: WRITES = store.write
            started: list[str] = []

            async def start() -> None:
                monkeypatch.setattr("holdfast.workflows.launch.tell_gate", lambda *_: None)
                started.append((await from_client.start(2, id="2")).id)

            async def released(*writes: Write) -> Sequence[Item | None]:
                if not started and any(is_release(each, mail.partition) for each in writes):
                    await start()  # it has read all places, and is about to rest
                return await write(*writes)

            if while_it_rests:
                monkeypatch.setattr(store, "write", released)
            assert await (await letter.start(1, id="1")) == 1
            await asyncio.sleep(60)
            if not while_it_rests:
                await start()
            assert started
            assert await asyncio.wait_for(letter.handle("2").result(), 120) == 2

    run_virtual(main)


def test_a_decision_that_arrives_behind_a_later_one_is_refused(paid: Paid, monkeypatch: pytest.MonkeyPatch) -> None:
    decisions: list[Update] = []

    async def main() -> None:
        app, mail, letter = paid.app()
        async with app.worker():
            store = app.runtime().home.store
            write: WRITES = store.write

            async def noting(*writes: Write) -> Sequence[Item | None]:
                of_the_queue = (
                    each for each in writes if isinstance(each, Update) and each.partition == mail.partition
                )
                decisions.extend(each for each in of_the_queue if each.body and each.owner is UNSET)
                return await write(*writes)

            monkeypatch.setattr(store, "write", noting)
            await asyncio.gather(*[await letter.start(number, id=f"{number}") for number in range(3)])
            head = await store.get(mail.partition)
            assert head is not None and head.owner == app.runtime().home.owner
            for late in decisions:
                with pytest.raises(Refused):
                    await write(late)

    run_virtual(main)
    assert len(decisions) >= 3
