"""The marks of an actor: each numbered message is applied once, however late and however often it is delivered."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec import Raw

from holdfast.actors.mailbox.marks import MARK_PREFIX, MOST_MARKS, is_repeat, with_mark
from holdfast.actors.record import ActorRecord, decode_record, encode_record
from holdfast.backends.memory import open_memory_home
from holdfast.coordination.inbox import inbox_sort

PARTITION = "actor#Shop#s"
BLANK = ActorRecord(schema=1, state=Raw(b"{}"))


class Receiver:
    """An actor that takes in messages, and commits now and then. It rolls back what is not committed."""

    def __init__(self):
        self.store = open_memory_home().store
        self.record = self.committed = BLANK
        self.writes = []
        self.applied = []
        self.uncommitted = []

    async def take_in(self, sort):
        if await is_repeat(sort, self.record, self.committed, PARTITION, self.store):
            return False
        self.record, moved = with_mark(self.record, PARTITION, sort)
        self.writes += moved
        self.uncommitted.append(sort)
        return True

    async def commit(self):
        if self.writes:
            await self.store.write(*self.writes)
        self.committed = self.record = decode_record(encode_record(self.record))
        self.applied += self.uncommitted
        self.writes, self.uncommitted = [], []

    def roll_back(self):
        self.record, self.writes, self.uncommitted = self.committed, [], []


@pytest.mark.parametrize("seed", range(20))
def test_what_many_senders_deliver_again_at_any_time_is_applied_once(seed):
    random = Random(seed)
    senders = [f"{number:016x}" for number in range(random.choice((3, MOST_MARKS, 60)))]

    async def main():
        receiver, stamp, delivered = Receiver(), 0, []
        waiting = {sender: [] for sender in senders}
        for _ in range(400):
            stamp += random.randint(0, 3)
            match random.choice(("send", "deliver", "deliver", "again", "commit", "roll back")):
                case "send":
                    sender = random.choice(senders)
                    last = waiting[sender][-1] if waiting[sender] else ""
                    sort = inbox_sort(stamp, sender)
                    if sort > max([last, *(each for each in delivered if each.endswith(sender))]):
                        waiting[sender].append(sort)
                case "deliver":
                    sender = random.choice(senders)
                    if waiting[sender] and await receiver.take_in(waiting[sender][0]):
                        await receiver.commit()
                        delivered.append(waiting[sender].pop(0))
                case "again" if delivered:
                    assert not await receiver.take_in(random.choice(delivered))
                case "commit":
                    await receiver.commit()
                case _:
                    receiver.roll_back()
        assert receiver.applied == delivered
        assert len(receiver.record.marks) <= MOST_MARKS

    asyncio.run(main())


async def test_the_head_stays_small_and_what_moved_out_of_it_is_known():
    receiver = Receiver()
    sorts = [inbox_sort(number + 1, f"{number:016x}") for number in range(1_000)]
    for sort in sorts:
        assert await receiver.take_in(sort)
        await receiver.commit()
    assert len(encode_record(receiver.record)) < 1_024
    moved = await receiver.store.query(PARTITION, prefix=MARK_PREFIX)
    assert len(moved.items) < len(sorts) / 10
    assert not any([await receiver.take_in(sort) for sort in sorts])


async def test_what_has_moved_out_of_the_head_and_is_not_committed_is_known():
    receiver = Receiver()
    first = inbox_sort(1, "f" * 16)
    assert await receiver.take_in(first)
    await receiver.commit()
    for number in range(MOST_MARKS):
        assert await receiver.take_in(inbox_sort(number + 2, f"{number:016x}"))
    assert "f" * 16 not in receiver.record.marks
    assert not await receiver.take_in(first)


async def test_a_message_newer_than_all_that_moved_out_needs_no_look_into_the_store():
    receiver = Receiver()
    for number in range(MOST_MARKS * 2):
        await receiver.take_in(inbox_sort(number + 1, f"{number:016x}"))
    await receiver.commit()
    receiver.store = None
    assert await receiver.take_in(inbox_sort(10_000, "a" * 16))
