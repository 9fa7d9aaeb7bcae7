"""Messages that wait for a body: first in, first out, and none is lost to a task that is cancelled."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from holdfast.replay.mailbox import Mailbox


@pytest.fixture
def mailbox():
    return Mailbox()


def message(text: str) -> Raw:
    return Raw(text.encode())


async def begun(*coroutines) -> list[asyncio.Task]:
    tasks = [asyncio.create_task(each) for each in coroutines]
    await asyncio.sleep(0)
    return tasks


async def test_messages_are_taken_in_the_order_in_which_they_came(mailbox):
    for text in "abc":
        mailbox.put(message(text))
    assert [bytes(await mailbox.get()) for _ in range(3)] == [b"a", b"b", b"c"]


async def test_tasks_are_served_in_the_order_in_which_they_wait(mailbox):
    tasks = await begun(*[mailbox.get() for _ in range(3)])
    for text in "abc":
        mailbox.put(message(text))
    assert [bytes(each) for each in await asyncio.gather(*tasks)] == [b"a", b"b", b"c"]


async def test_it_tells_whether_a_task_waits(mailbox):
    assert not mailbox.waiting
    (task,) = await begun(mailbox.get())
    assert mailbox.waiting
    mailbox.put(message("a"))
    assert not mailbox.waiting
    await task
    (task,) = await begun(mailbox.get())
    task.cancel()
    await asyncio.wait([task])
    assert not mailbox.waiting


async def test_looking_at_what_is_unread_takes_nothing(mailbox):
    mailbox.put(message("a"))
    mailbox.put(message("b"))
    assert list(mailbox.unread) == [message("a"), message("b")]
    assert await mailbox.get() == message("a")
    assert list(mailbox.unread) == [message("b")]


async def test_a_task_that_is_cancelled_before_a_message_comes_takes_none(mailbox):
    first, second = await begun(mailbox.get(), mailbox.get())
    first.cancel()
    mailbox.put(message("a"))
    await asyncio.wait([first])
    assert await second == message("a")


async def test_a_task_that_is_cancelled_after_its_message_came_leaves_it_to_the_next(mailbox):
    first, second = await begun(mailbox.get(), mailbox.get())
    mailbox.put(message("a"))
    mailbox.put(message("b"))
    first.cancel()
    await asyncio.wait([first])
    assert await second == message("a")
    assert await mailbox.get() == message("b")
