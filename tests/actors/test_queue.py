"""What waits for an actor, and which of it is next."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from holdfast.actors.mailbox.queue import ELSEWHERE, MOST_PASSED_OVER, PLENTY, Delivery, Queue
from holdfast.actors.record import NOT_BEGUN, ActorRecord, Call, FailureRecord, TimerRecord, encode
from holdfast.items import Item

NOW = 1_000_000
RECORD = ActorRecord(schema=1, state=NOT_BEGUN)


def call(name: str, sent_at: int = 0, not_before: int = 0) -> Call:
    return Call(id=name, method="note", args=Raw(b"{}"), sent_at=sent_at, not_before=not_before)


def message(name: str, sent_at: int = 0, not_before: int = 0) -> Item:
    return Item("actor#Note#1", f"i#{name}", body=encode(call(name, sent_at, not_before)))


def drained(queue: Queue, record: ActorRecord = RECORD, now: int = NOW) -> list[str]:
    found: list[str] = []
    while (delivery := queue.next(record, now, unread=False)) is not None:
        found.append(delivery.call.id)
    return found


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_calls_and_messages_run_in_the_order_they_were_sent(queue):
    queue.add_message(message("second", 2), NOW)
    queue.add_call(Delivery(call("first", 1)), unread=False)
    queue.add_call(Delivery(call("third", 3)), unread=False)
    assert drained(queue) == ["first", "second", "third"]


def test_a_message_is_taken_in_once(queue):
    for _ in range(2):
        queue.add_message(message("only"), NOW)
    assert drained(queue) == ["only"]


def test_a_message_waits_for_its_time(queue):
    queue.add_message(message("later", not_before=NOW + 5), NOW)
    assert (drained(queue), queue.has_later, queue.next_due(RECORD)) == ([], True, NOW + 5)
    assert drained(queue, now=NOW + 5) == ["later"]


def test_a_message_that_has_failed_holds_up_those_behind_it_until_it_is_tried_again(queue):
    record = ActorRecord(schema=1, state=NOT_BEGUN, failures={"i#first": FailureRecord(failed=1, again_at=NOW + 5)})
    queue.add_message(message("first", 1), NOW)
    queue.add_message(message("second", 2), NOW)
    assert (drained(queue, record), queue.next_due(record)) == ([], NOW + 5)
    assert drained(queue, record, NOW + 5) == ["first", "second"]


def test_a_timer_that_is_due_runs_before_all_that_waits(queue):
    timer = TimerRecord(method="remind", due_at=NOW, set_count=1, args=Raw(b"{}"))
    queue.add_message(message("waits"), NOW)
    found = queue.next(ActorRecord(schema=1, state=NOT_BEGUN, timers={"remind": timer}), NOW, unread=False)
    assert found is not None
    assert (found.place, found.tick, found.skips) == ("timer:remind", NOW, False)


def test_a_call_waits_for_the_look_that_was_asked_for_before_it(queue):
    queue.add_call(Delivery(call("hurried")), unread=True)
    assert queue.next(RECORD, NOW, unread=True) is None
    queue.looks += 1
    assert drained(queue) == ["hurried"]


def test_a_message_is_not_passed_over_for_ever(queue):
    queue.add_message(message("patient", sent_at=NOW), NOW)
    for number in range(MOST_PASSED_OVER + 5):
        queue.add_call(Delivery(call(str(number), sent_at=1)), unread=False)
    assert drained(queue).index("patient") == MOST_PASSED_OVER


def test_an_actor_that_ends_takes_along_what_was_to_come_later(queue):
    record = ActorRecord(schema=1, state=NOT_BEGUN, failures={"i#failed": FailureRecord(failed=1)})
    queue.add_message(message("failed"), NOW)
    queue.add_message(message("stays"), NOW)
    queue.add_message(message("later", not_before=NOW + 5), NOW)
    assert [each.place for each in queue.drop_delayed(record)] == ["i#failed", "i#later"]
    assert drained(queue, record, NOW + 5) == ["stays"]


async def test_starting_over_keeps_the_calls_that_are_awaited_in_their_order(queue):
    first, gone, last = (Delivery(call(name), answer=asyncio.Future()) for name in ("first", "gone", "last"))
    gone.answer.cancel()
    queue.add_call(last, unread=False)
    queue.add_message(message("read again"), NOW)
    queue.start_over([first, gone])
    assert (drained(queue), queue.known) == (["first", "last"], set())


async def test_callers_are_sent_to_where_the_actor_lives_now(queue):
    waiting, running = (Delivery(call(name), answer=asyncio.Future()) for name in ("waiting", "running"))
    queue.add_call(waiting, unread=False)
    queue.send_away([running])
    assert [await each.answer for each in (waiting, running)] == [ELSEWHERE, ELSEWHERE]
    assert drained(queue) == []


def test_a_call_waits_for_messages_that_were_sent_before_it_and_are_still_in_the_inbox(queue):
    queue.add_message(message("first", 1), NOW)
    queue.add_call(Delivery(call("call", 5)), unread=False)
    queue.more = True
    assert drained(queue) == ["first"]
    assert queue.runs_short
    queue.add_message(message("second", 2), NOW)
    queue.add_message(message("third", 6), NOW)
    assert drained(queue) == ["second", "call", "third"]


def test_the_inbox_is_looked_into_when_most_of_what_was_taken_in_has_run(queue):
    for number in range(PLENTY + 1):
        queue.add_message(message(f"{number:03}", 1), NOW)
    queue.more = True
    short = []
    while queue.next(RECORD, NOW, unread=False) is not None:
        short.append(queue.runs_short)
    assert short == [False, *[True] * PLENTY]
    queue.start_over()
    assert not (queue.more or queue.runs_short or queue.waits)
