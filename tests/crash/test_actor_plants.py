"""Planted bugs in the engine of actors, to check the checker: each must be found by the crash tests."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace
from tests.scenarios import scenario

from holdfast.actors.record import REPLY_PREFIX
from holdfast.actors.turn import commit, replies
from holdfast.actors.turn.entity import ActorEntity
from holdfast.actors.turn.performed import Finished, Version
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import StoreUnavailable
from holdfast.items import EXISTS, Delete, Put, Update, Write, place
from holdfast.testing import crash_at_every_write, pause_at_every_write, run_scenario
from holdfast.testing.faulty import FaultyStore
from holdfast.testing.world import STORE_ANSWERED

MOMENT_SECONDS = 0.05

write_really = commit._write
send_really = FaultyStore.write


@contextmanager
def without_the_epoch() -> Generator[None]:
    """A commit does not ask whether the lease is still ours."""
    with mock.patch.object(commit, "OwnerIs", return_value=EXISTS):
        yield


@contextmanager
def reply_before_its_commit() -> Generator[None]:
    """Whoever waits for a reply hears it a moment before it is durable."""

    async def early(batch: Sequence[Finished], *others: Any) -> None:
        for each in batch:
            each.delivery.resolve(each.outcome)
        await asyncio.sleep(MOMENT_SECONDS)
        await write_really(batch, *others)

    with mock.patch.object(commit, "_write", early):
        yield


@contextmanager
def timers_apart() -> Generator[None]:
    """That a timer has fired is written after what it has done."""

    async def apart(batch: Sequence[Finished], after: Version, actor: ActorEntity, *others: Any) -> None:
        assert actor.state is not None
        before = actor.state.committed
        if after.record.timers != before.record.timers:
            early = Version(replace(after.record, timers=before.record.timers), after.state)
            await write_really(batch, early, actor, *others)
            batch = []
        await write_really(batch, after, actor, *others)

    with mock.patch.object(commit, "_write", apart):
        yield


@contextmanager
def timers_unseen() -> Generator[None]:
    """A commit that sets a timer leaves it to the release to say so."""
    with mock.patch.object(commit, "next_timer", return_value=None):
        yield


@contextmanager
def messages_to_oneself_unseen() -> Generator[None]:
    """A commit with a message to its own actor does not say that it is due."""
    update_really = commit._update

    def update(version: Version, _rung: int, *others: Any) -> Update:
        return replace(update_really(version, 0, *others), add_revision=1)

    with mock.patch.object(commit, "_update", update):
        yield


@contextmanager
def request_ids_ignored() -> Generator[None]:
    """Nobody looks for the reply that a request was given before."""

    async def none(*_given: object) -> None:
        return None

    in_memory = mock.patch.object(replies, "known_reply", return_value=None)
    with in_memory, mock.patch.object(replies, "stored_reply", none):
        yield


@contextmanager
def written_apart(is_apart: Callable[[Write, Write], bool], *, first: bool) -> Generator[None]:
    """Some of the writes that belong together are written on their own, ``first`` or last."""

    def write(store: FaultyStore, *writes: Write) -> asyncio.Future[Any]:
        apart = [each for each in writes if is_apart(each, writes[0])]
        others = [each for each in writes if each not in apart]

        async def in_parts() -> Any:
            parts = (apart, others) if first else (others, apart)
            return [await send_really(store, *part) for part in parts][1 if first else 0]

        return asyncio.ensure_future(in_parts()) if apart and others else send_really(store, *writes)

    with mock.patch.object(FaultyStore, "write", write):
        yield


def is_receipt(write: Write, head: Write) -> bool:
    return isinstance(write, Delete) and write.sort.startswith(INBOX_PREFIX)


def is_reply(write: Write, head: Write) -> bool:
    return place(write)[1].startswith(REPLY_PREFIX)


def is_sent(write: Write, head: Write) -> bool:
    """A message or a ring to another actor, with a commit; a message from outside has its place first."""
    return not isinstance(head, Put) and place(write)[0] != place(head)[0]


PLANTS = {
    "a commit without its epoch": (without_the_epoch, pause_at_every_write, "requests"),
    "a reply before its commit": (reply_before_its_commit, crash_at_every_write, "durable replies"),
    "a reply after its commit": (partial(written_apart, is_reply, first=False), crash_at_every_write, "requests"),
    "a message removed before the commit": (
        partial(written_apart, is_receipt, first=True),
        crash_at_every_write,
        "sent by a client",
    ),
    "a message removed after the commit": (
        partial(written_apart, is_receipt, first=False),
        crash_at_every_write,
        "sent by a method",
    ),
    "a message sent after the commit": (
        partial(written_apart, is_sent, first=False),
        crash_at_every_write,
        "sent by a method",
    ),
    "a message sent before the commit": (
        partial(written_apart, is_sent, first=True),
        crash_at_every_write,
        "sent by a method",
    ),
    "a timer that fires again": (timers_apart, crash_at_every_write, "timers"),
    "a timer that is not due": (timers_unseen, crash_at_every_write, "timers"),
    "a message that is not due": (messages_to_oneself_unseen, crash_at_every_write, "sent by a method"),
    "request ids ignored": (request_ids_ignored, crash_at_every_write, "chain of calls"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    plant, enumerate_faults, victim = PLANTS[name]  # ``test_actors`` plays the same without the plant
    with plant(), pytest.raises(AssertionError) as found:
        enumerate_faults(scenario(victim))
    print(f"{name}: {str(found.value).splitlines()[0]}")


@pytest.mark.parametrize(
    ("error", "told"),
    [(StoreUnavailable(), []), (LookupError(), [f"telemetry had 1 times: {STORE_ANSWERED}"])],
    ids=repr,
)
def test_where_the_store_may_fail_a_turn_that_fails_by_anything_else_is_told_of(
    error: Exception, told: list[str]
) -> None:
    errors = [error]

    async def fails_once(*given: Any) -> None:
        if errors:
            raise errors.pop()
        await write_really(*given)

    with mock.patch.object(commit, "_write", fails_once):
        run = run_scenario(dataclasses.replace(scenario("requests"), unsteady=True))
    assert (errors, run.events["turn_failed"], run.violations) == ([], 1, told)
