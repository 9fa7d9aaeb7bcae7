"""What an actor in memory keeps together: its state, what runs, and what has run and is not durable."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.actors.mailbox.queue import Delivery, Replied
from holdfast.actors.record import NOT_BEGUN, ActorRecord, Call, FailureRecord, decode_record, encode_record
from holdfast.actors.turn import commit
from holdfast.actors.turn.commit import begin_commit
from holdfast.actors.turn.entity import ActorEntity, Loaded, Writing
from holdfast.actors.turn.performed import Finished, Performed, Version

BEFORE = Version(ActorRecord(schema=1, state=NOT_BEGUN), b"0")
AFTER = Version(ActorRecord(schema=1, state=NOT_BEGUN), b"1")
CALL = Call(id="1", method="add", args=NOT_BEGUN)
PAID: Any = SimpleNamespace(home=SimpleNamespace(writes_are_paid=True))


@pytest.fixture
def actor() -> ActorEntity:
    """One that has run a call."""
    kind: Any = SimpleNamespace(passing=lambda _key: False)
    model: Any = None
    actor = ActorEntity("actor#Counter#a", model, kind)
    actor.state = Loaded(BEFORE, BEFORE, None)
    actor.apply(Performed(AFTER, (Finished(Delivery(CALL), Replied(b"1"), AFTER),)))
    return actor


def test_failures_are_stored_under_their_first_name():
    record = ActorRecord(schema=1, state=NOT_BEGUN, failures={"i#1": FailureRecord(failed=1)})
    stored = b'{"schema":1,"state":null,"trouble":{"i#1":{"failed":1}}}'
    assert encode_record(record) == stored
    assert decode_record(stored) == record


def test_a_reset_goes_back_to_what_is_durable(actor):
    actor.reset()
    assert actor.state.version is BEFORE
    assert actor.settled
    assert actor.unread


async def test_no_second_commit_begins_while_the_turn_itself_writes(actor):
    actor.uncommitted.phase = writing = Writing()
    begin_commit(actor, PAID, PAID)
    assert actor.uncommitted.phase is writing


async def test_what_was_dropped_while_it_gathered_is_not_written(actor, monkeypatch):
    written = []
    monkeypatch.setattr(commit, "GATHERING_SECONDS", 0)
    monkeypatch.setattr(commit, "_commit_from_now", lambda *given: written.append(given))
    begin_commit(actor, PAID, PAID)
    gathering = actor.uncommitted.phase
    actor.reset()
    actor.apply(Performed(AFTER, (Finished(Delivery(CALL), Replied(b"1"), AFTER),)))
    commit._end_gathering(gathering, actor, PAID, PAID)
    await asyncio.sleep(0)
    assert written == []
    begin_commit(actor, PAID, PAID)
    commit._end_gathering(actor.uncommitted.phase, actor, PAID, PAID)
    assert len(written) == 1
