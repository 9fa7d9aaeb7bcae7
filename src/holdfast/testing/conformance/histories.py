"""Histories from Hypothesis, played on the store and on the memory store: both must answer alike."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.backends.memory import open_memory_home
from holdfast.errors import InvalidInput, Refused
from holdfast.items import (
    ABSENT,
    ALWAYS,
    EXISTS,
    HEAD,
    UNOWNED,
    AllOf,
    AnyOf,
    Condition,
    Delete,
    EpochIs,
    Expired,
    Item,
    LeaseLapsed,
    OwnerIs,
    Put,
    RevisionIs,
    StatusIn,
    Update,
    Write,
)
from holdfast.ports import Page, Store
from holdfast.testing.conformance.suite import Opened, pages

HISTORIES: Final = 60
"""How many histories a run of the suite plays."""

STEPS: Final = 40
"""The longest history."""

T = TypeVar("T")

# Few of everything, so that histories touch the same items again and again.
PARTITIONS: Final = st.sampled_from(["a", "a/1", "a/2", "b", "é'; --"])
SORTS: Final = st.sampled_from([HEAD, HEAD, HEAD, "!", "j/1", "j/2", "j/10", "z"])
NUMBERS: Final = st.integers(0, 4)
TIMES: Final = st.none() | st.integers(0, 9)
STATUSES: Final = st.sampled_from(["", "running", "done"])
OWNERS: Final = st.sampled_from(["me", "you"])
BODIES: Final = st.sampled_from([b"", b"x", b"\xff\x00"])  # none begins like a reference to a blob

SIMPLE: Final = st.one_of(
    st.sampled_from([ALWAYS, ABSENT, EXISTS, UNOWNED]),
    st.builds(RevisionIs, NUMBERS),
    st.builds(EpochIs, NUMBERS),
    st.builds(OwnerIs, OWNERS, NUMBERS),
    st.builds(LeaseLapsed, st.integers(0, 9)),
    st.builds(StatusIn, st.lists(STATUSES, max_size=2).map(tuple)),
    st.builds(Expired, st.integers(0, 9)),
)


def _compound(inside: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(inside, max_size=3).map(tuple)
    return st.builds(AllOf, several) | st.builds(AnyOf, several)


CONDITIONS: Final[st.SearchStrategy[Condition]] = st.recursive(SIMPLE, _compound, max_leaves=6)
ITEMS: Final = st.builds(
    Item,
    PARTITIONS,
    SORTS,
    revision=NUMBERS,
    status=STATUSES,
    owner=st.none() | OWNERS,
    lease_until=TIMES,
    epoch=NUMBERS,
    due_at=TIMES,
    expires_at=TIMES,
    body=BODIES,
)
UPDATES: Final = st.builds(
    Update,
    partition=PARTITIONS,
    sort=SORTS,
    when=CONDITIONS,
    status=st.just(UNSET) | STATUSES,
    owner=st.just(UNSET) | st.none() | OWNERS,
    lease_until=st.just(UNSET) | TIMES,
    due_at=st.just(UNSET) | TIMES,
    expires_at=st.just(UNSET) | TIMES,
    body=st.just(UNSET) | BODIES,
    add_revision=NUMBERS,
    add_epoch=st.integers(0, 1),
    load=st.booleans(),
)
WRITES: Final[st.SearchStrategy[Write]] = st.one_of(
    st.builds(Put, ITEMS, CONDITIONS), UPDATES, st.builds(Delete, PARTITIONS, SORTS, CONDITIONS)
)
# Mostly one write, and sometimes two of the same item, which is an error.
CALLS: Final = st.lists(WRITES, min_size=1, max_size=4)
LIMITS: Final = st.integers(1, 5)


class Histories(Opened):
    """The contract as a whole."""

    histories = HISTORIES
    """How many histories to play; more for a release."""

    def test_the_store_tells_the_same_as_the_memory_store(self, tmp_path: Path) -> None:
        """Every answer, every refusal and every page, after any earlier calls."""
        numbers = itertools.count()

        def new_history() -> History:
            folder = tmp_path / f"history-{next(numbers)}"
            folder.mkdir()
            return History(lambda: self.open_store(folder), leased_heads_are_due=self.leased_heads_are_due)

        run_state_machine_as_test(
            # Any callable will do, as the documentation says; the annotation requires a class.
            cast("Any", new_history),
            settings=settings(
                max_examples=self.histories,
                stateful_step_count=STEPS,
                deadline=None,
                # A slow disk is no reason to fail.
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )


class History(RuleBasedStateMachine):
    """One history, played on both stores on an event loop of its own."""

    def __init__(self, open_store: Callable[[], Coroutine[Any, Any, Store]], *, leased_heads_are_due: bool) -> None:
        super().__init__()
        self.leased_heads_are_due = leased_heads_are_due
        self.runner = asyncio.Runner()
        self.store = self.runner.run(open_store())
        self.model: Store = open_memory_home().store

    def both(self, ask: Callable[[Store], Coroutine[Any, Any, T]]) -> tuple[T, T]:
        """The answers of both stores."""
        return self.runner.run(ask(self.store)), self.runner.run(ask(self.model))

    @rule(calls=st.lists(CALLS, min_size=1, max_size=4))
    def write(self, calls: list[list[Write]]) -> None:
        """Calls of one tick of the event loop, which may share a transaction."""

        async def ask(store: Store) -> list[Any]:
            return [await outcome(answer) for answer in [store.write(*call) for call in calls]]

        ours, theirs = self.both(ask)
        assert ours == theirs

    @rule(partition=PARTITIONS, sort=SORTS)
    def get(self, partition: str, sort: str) -> None:
        """One item."""
        ours, theirs = self.both(lambda store: store.get(partition, sort))
        assert ours == theirs

    @rule(partition=PARTITIONS, prefix=st.sampled_from(["", "@", "j/", "j/1", "x"]), limit=LIMITS)
    def query(self, partition: str, prefix: str, limit: int) -> None:
        """A partition, page by page."""
        ours, theirs = self.both(lambda store: pages(partial(store.query, partition, prefix=prefix, limit=limit)))
        assert ours == theirs

    @rule(before=st.integers(0, 9), limit=LIMITS)
    def due(self, before: int, limit: int) -> None:
        """What is due, page by page, without bodies; at the same time in any order. Leased heads may be left out, if
        that is agreed.
        """
        ours, theirs = self.both(lambda store: pages(partial(store.due, before, limit=limit)))
        ours, theirs = ([replace(head, body=b"") for head in heads] for heads in (ours, theirs))
        if not self.leased_heads_are_due:
            assert {repr(head) for head in ours} <= {repr(head) for head in theirs}
            ours = [head for head in ours if head.lease_until is None]
            theirs = [head for head in theirs if head.lease_until is None]
        assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
        assert [_due(head) for head in ours] == [_due(head) for head in theirs]

    @rule(prefix=st.sampled_from(["", "a", "a/", "é'"]), status=st.none() | STATUSES, limit=LIMITS)
    def scan(self, prefix: str, status: str | None, limit: int) -> None:
        """Heads, page by page, in any order: an entry may have reserved its head's place before the head came."""
        ours, theirs = self.both(lambda store: pages(partial(store.scan, prefix, status=status, limit=limit)))
        assert sorted(map(repr, ours)) == sorted(map(repr, theirs))

    @rule(now=st.integers(0, 9), limit=LIMITS)
    def purge(self, now: int, limit: int) -> None:
        """Delete what has expired, if the store leaves that to its user."""
        if not hasattr(self.store, "purge"):
            return

        async def ask(store: Any) -> int:
            total = 0
            while deleted := await store.purge(now, limit):
                assert deleted <= limit
                total += deleted
            return total

        ours, theirs = self.both(ask)
        assert ours == theirs

    def teardown(self) -> None:
        """Compare all there is, then close."""
        ours, theirs = self.both(_everything)
        assert ours == theirs
        self.runner.run(self.store.close())
        self.runner.close()


async def outcome(answer: Awaitable[Sequence[Item | None]]) -> Any:
    """What a call of ``Store.write`` was answered, as a value."""
    try:
        return list(await answer)
    except Refused as refused:
        return refused.index, refused.item
    except InvalidInput:
        return InvalidInput


async def _everything(store: Store) -> list[Page]:
    return [await store.query(partition) for partition in ("a", "a/1", "a/2", "b", "é'; --")]


def _due(head: Item) -> int | None:
    return head.due_at if head.lease_until is None else head.lease_until
