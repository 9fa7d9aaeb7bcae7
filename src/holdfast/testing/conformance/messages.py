"""Messages and the heads that they are for: a store may keep both in one place, and nothing else may show it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from msgspec import UNSET

from holdfast.backends.memory import open_memory_home
from holdfast.items import (
    ABSENT,
    ALWAYS,
    EXISTS,
    UNOWNED,
    Delete,
    Item,
    Put,
    RevisionIs,
    StatusIn,
    Update,
    Write,
    place,
)
from holdfast.ports import Store
from holdfast.testing.conformance.histories import outcome
from holdfast.testing.conformance.suite import Opened, pages

MESSAGE_HISTORIES: Final = 40
MESSAGE_STEPS: Final = 30

PARTITIONS: Final = st.sampled_from(["a", "b"])
PLACES: Final = st.sampled_from(["i#1#me", "i#2#me", "i#2#you", "i#3#é'; --", "o#1#me", "o#2#me"])
BODIES: Final = st.sampled_from([b"", b"x", b"y" * 1_500, b"z" * 3_000])
HEADS: Final = st.sampled_from([EXISTS, UNOWNED, StatusIn(("", "open")), RevisionIs(1), RevisionIs(3)])


def _message(partition: str, sort: str, body: bytes) -> Put:
    return Put(Item(partition, sort, body=body), ABSENT)


def _segment(partition: str, number: int) -> Put:
    return Put(Item(partition, f"j/{number}"), ABSENT)


def _new_head(partition: str) -> Put:
    return Put(Item(partition, revision=1, status="open", due_at=5), ABSENT)


WRITES: Final[st.SearchStrategy[Write]] = st.one_of(
    st.builds(_message, PARTITIONS, PLACES, BODIES),
    st.builds(Delete, PARTITIONS, PLACES, st.sampled_from([ALWAYS, EXISTS])),
    st.builds(_segment, PARTITIONS, st.integers(1, 3)),
)
HEAD_WRITES: Final[st.SearchStrategy[Write]] = st.one_of(
    st.builds(_new_head, PARTITIONS),
    st.builds(
        Update,
        partition=PARTITIONS,
        when=HEADS,
        status=st.just(UNSET) | st.sampled_from(["open", "shut"]),
        owner=st.just(UNSET) | st.none() | st.just("me"),
        body=st.just(UNSET) | BODIES,
        add_revision=st.integers(0, 1),
        load=st.booleans(),
    ),
)
POSTS: Final = st.tuples(
    st.lists(st.builds(_message, st.just("a"), PLACES, BODIES), min_size=1, max_size=3),
    st.builds(
        Update,
        partition=st.just("a"),
        when=st.sampled_from([EXISTS, StatusIn(("", "open"))]),
        due_at=st.integers(5, 7),
        add_revision=st.just(1),
        wakes=st.sampled_from([True]),
    ),
).map(lambda parts: [*parts[0], parts[1]])


def _with_heads(parts: tuple[Sequence[Write], Sequence[Write]]) -> list[Write]:
    """A call: a message comes only with the write of its head."""
    heads, others = parts
    known = {place(head)[0] for head in heads}
    return [*(each for each in others if not isinstance(each, Put) or each.item.partition in known), *heads]


CALLS: Final = st.tuples(st.lists(HEAD_WRITES, max_size=2), st.lists(WRITES, max_size=4)).map(_with_heads)


class Messages(Opened):
    """Sending, taking and taking back, in any order."""

    message_histories = MESSAGE_HISTORIES
    """How many histories to play; more for a release."""

    large_bodies_are_late = False
    """Whether a call may be overtaken by later ones while its bodies are stored elsewhere."""

    def test_messages_are_where_their_keys_say(self, tmp_path: Path) -> None:
        """Every answer, every refusal and every page, wherever the store keeps a message."""
        numbers = itertools.count()

        def new_history() -> Mail:
            folder = tmp_path / f"mail-{next(numbers)}"
            folder.mkdir()
            return Mail(lambda: self.open_store(folder), one_by_one=self.large_bodies_are_late)

        run_state_machine_as_test(
            cast("Any", new_history),
            settings=settings(
                max_examples=self.message_histories,
                stateful_step_count=MESSAGE_STEPS,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )


class Mail(RuleBasedStateMachine):
    """One history of messages, played on the store and on the memory store."""

    def __init__(self, open_store: Callable[[], Coroutine[Any, Any, Store]], *, one_by_one: bool) -> None:
        super().__init__()
        self.one_by_one = one_by_one
        self.runner = asyncio.Runner()
        self.stores = (self.runner.run(open_store()), open_memory_home().store)

    def alike(self, ask: Callable[[Store], Coroutine[Any, Any, Any]]) -> None:
        """Both answer the same."""
        ours, theirs = (self.runner.run(ask(store)) for store in self.stores)
        assert ours == theirs

    @rule(call=CALLS)
    def write(self, call: list[Write]) -> None:
        """Heads with the messages for them, messages alone, both in two places."""

        async def ask(store: Store) -> Any:
            return await outcome(store.write(*call))

        self.alike(ask)

    @rule(calls=st.lists(POSTS, min_size=1, max_size=4))
    def post(self, calls: list[list[Write]]) -> None:
        """Messages that only wake their head, several calls at once: a store may gather them."""

        async def ask(store: Store) -> Any:
            if self.one_by_one:
                return [await outcome(store.write(*call)) for call in calls]
            return await asyncio.gather(*(outcome(store.write(*call)) for call in calls))

        self.alike(ask)

    @rule(partition=PARTITIONS, sort=PLACES)
    def get(self, partition: str, sort: str) -> None:
        """One message."""
        self.alike(lambda store: store.get(partition, sort))

    @rule(partition=PARTITIONS, prefix=st.sampled_from(["", "i#", "i#2", "o#", "j/"]), limit=st.integers(1, 5))
    def query(self, partition: str, prefix: str, limit: int) -> None:
        """The messages of a partition, page by page."""
        self.alike(lambda store: pages(partial(store.query, partition, prefix=prefix, limit=limit)))

    def teardown(self) -> None:
        """Close both."""
        for store in self.stores:
            self.runner.run(store.close())
        self.runner.close()
