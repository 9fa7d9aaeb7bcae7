"""The findings of ``holdfast doctor`` about executions: whether they make progress, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.cli.checks.finding import OK, WARN, Finding, Group, show
from holdfast.cli.checks.waiting import Waiting
from holdfast.clock import duration
from holdfast.commands.overview import BAD_ENDS, LATELY_MS, OVERDUE_MS
from holdfast.errors import StoreUnusable
from holdfast.failure import in_one_line
from holdfast.kernel.backlog_count import PARKED_DUE_AT, due_at
from holdfast.kernel.ownership import BLOCKED_RECHECK_MS
from holdfast.paging import Items, heads
from holdfast.ports import Home, Store
from holdfast.workflows.record import (
    BLOCKED,
    CLAIMABLE,
    COMPENSATION_FAILED,
    PARTITION_PREFIX,
    STATUSES,
    ExecutionRecord,
    decode_record,
    partition_of,
    pinned_to,
    workflow_of,
)

if TYPE_CHECKING:
    from holdfast.items import Item


class Executions(Struct):
    """The executions of a home, counted. ``unfinished`` are those that a worker has to work on, by workflow."""

    now: int
    statuses: Counter[str]
    workflows: Counter[str]
    unfinished: Counter[str]
    blocked: Group
    parked: Group
    broken: Group
    failed: Group
    failed_before: int
    waiting: Waiting
    alive: Callable[[str], bool]

    def note(self, head: Item) -> None:
        """One more."""
        self.workflows[workflow_of(head.partition)] += 1
        if head.status in CLAIMABLE:
            self.unfinished[workflow_of(head.partition)] += 1
        elif head.status not in BAD_ENDS:
            return
        try:
            record = decode_record(head.body)
        except StoreUnusable as error:
            damaged = {COMPENSATION_FAILED: self.broken, BLOCKED: self.blocked}.get(head.status)
            if damaged is not None:
                damaged.note(show(head.partition), f"damaged: {error}")
            return
        self._note(head, record)

    def _note(self, head: Item, record: ExecutionRecord) -> None:
        what = show(head.partition)
        if head.status == BLOCKED and record.parked:
            self.parked.note(what, record.blocked)
        elif head.status == BLOCKED:
            published = f", published as {record.published}" if record.published else ""
            self.blocked.note(f"{what} (code {pinned_to(record)}{published})", record.blocked)
        elif head.status == COMPENSATION_FAILED:
            self.broken.note(what, _error(record))
        elif head.status in CLAIMABLE:
            held = head.owner is not None and self.alive(head.owner)
            self.waiting.note(head.partition, record.waits, held=held)
        elif (record.ended_at or 0) >= self.now - LATELY_MS:
            self.failed.note(what, _error(record))
        else:
            self.failed_before += 1


def _error(record: ExecutionRecord) -> str | None:
    return None if record.error is None else in_one_line(record.error)


def none_yet(home: Home, now: int) -> Executions:
    """No execution was counted yet."""
    counts = Counter[str](), Counter[str](), Counter[str]()
    return Executions(now, *counts, Group(), Group(), Group(), Group(), 0, Waiting(now), home.doorbell.alive)


async def count_executions(home: Home, now: int) -> Executions:
    """The executions of a home. Where it counts them by an index, only those are read that are not over and well."""
    found = none_yet(home, now)
    if home.census is None:
        async for head in heads(home.store, PARTITION_PREFIX):
            found.statuses[head.status] += 1
            found.note(head)
        return found
    found.statuses.update(await home.census.count(PARTITION_PREFIX))
    for status in (*CLAIMABLE, *BAD_ENDS):
        async for head in heads(home.store, PARTITION_PREFIX, status=status):
            found.note(head)
    return found


async def check_due(home: Home, now: int, known: Collection[str] | None) -> list[Finding]:
    """What the index of what is due shows: blocked executions are due again within a minute, and parked ones always.
    It is all that is read, for a home where everything else would take reading the whole table.
    """
    found = none_yet(home, now)
    async for head in Items(lambda after: home.store.due(now + BLOCKED_RECHECK_MS, after=after)):
        if head.partition.startswith(PARTITION_PREFIX):
            whole = head if head.body else await home.store.get(head.partition)
            found.note(head if whole is None else whole)
    about_code = [] if known is None else [_check_known(found, known)]
    return [
        _check_blocked(found.blocked),
        _check_crashes(found.parked),
        *about_code,
        await _check_overdue(home.store, now),
    ]


async def check_executions(home: Home, counted: Executions, known: Collection[str] | None) -> list[Finding]:
    """``known`` are the workflows that have code here, if code was loaded."""
    about_code = [] if known is None else [*await _check_home(home, counted, known), _check_known(counted, known)]
    return [
        _count(counted),
        _check_blocked(counted.blocked),
        _check_crashes(counted.parked),
        *_check_undos(counted.broken),
        _check_failed(counted),
        *counted.waiting.findings(),
        *about_code,
        await _check_overdue(home.store, counted.now),
    ]


def _count(counted: Executions) -> Finding:
    counts = ", ".join(f"{counted.statuses[each]:,} {each}" for each in STATUSES if counted.statuses[each])
    return Finding(OK, "executions", counts or "none")


def _check_blocked(blocked: Group) -> Finding:
    if not blocked.count:
        return Finding(OK, "blocked", "no execution waits for code that fits")
    told = (
        f"{blocked.count:,} executions wait for code that fits. They continue by themselves once a worker has it: roll "
        "back, deploy code that fits, or holdfast move what is pinned. holdfast ls --status BLOCKED lists them"
    )
    return Finding(WARN, "blocked", told, blocked.told())


def _check_crashes(parked: Group) -> Finding:
    if not parked.count:
        return Finding(OK, "crashes", "no execution was parked because its processes died")
    told = (
        f"{parked.count:,} executions are parked because their processes died. Fix the cause, then holdfast resume "
        "each. holdfast ls --status BLOCKED lists them"
    )
    return Finding(WARN, "crashes", told, parked.told())


def _check_undos(broken: Group) -> Iterator[Finding]:
    if broken.count:
        told = f"undos of {broken.count:,} executions gave up: fix the cause, then holdfast retry each"
        yield Finding(WARN, "compensation", told, broken.told())


def _check_failed(counted: Executions) -> Finding:
    failed, before = counted.failed, counted.failed_before
    if not failed.count:
        told = f"{before:,} executions have failed, none in the last day" if before else "no execution has failed"
        return Finding(OK, "failed", told)
    told = (
        f"{failed.count + before:,} executions have failed, {failed.count:,} of them in the last day: fix the cause, "
        "then holdfast retry each. holdfast ls --status FAILED lists them"
    )
    return Finding(WARN, "failed", told, failed.told())


async def _check_home(home: Home, counted: Executions, known: Collection[str]) -> list[Finding]:
    """Whether this is a home of the app."""
    total = sum(counted.statuses.values())
    if not (total and known) or not counted.workflows.keys().isdisjoint(known):
        return []
    if home.census is not None:
        for name in known:  # those that are over and well were not read
            if (await home.census.heads(partition_of(name, ""), limit=1)).items:
                return []
    told = f"none of the {total:,} executions here is of a workflow of the app: is this the home that you mean?"
    return [Finding(WARN, "home", f"{told} --home URL names another")]


def _check_known(counted: Executions, known: Collection[str]) -> Finding:
    unknown = {name: count for name, count in counted.unfinished.items() if name not in known}
    if unknown:
        told = ", ".join(f"{name!r} ({count} unfinished)" for name, count in sorted(unknown.items()))
        return Finding(WARN, "unknown", f"the app has no code for {told}")
    return Finding(OK, "unknown", "the app has code for every unfinished execution")


async def _check_overdue(store: Store, now: int) -> Finding:
    due = Items(lambda after: store.due(now - OVERDUE_MS, after=after))
    # An entity with an owner is not among them: its lease is renewed. A parked one is not late.
    late = [due_at(head) async for head in due if head.status in CLAIMABLE and head.due_at != PARKED_DUE_AT]
    if late:
        told = f"{len(late)} executions are overdue, the first for {duration(now - min(late))}: is a worker up?"
        return Finding(WARN, "overdue", f"{told} holdfast workers lists them; holdfast run MODULE:APP starts one")
    return Finding(OK, "overdue", f"nothing has waited for a worker for more than {duration(OVERDUE_MS)}")
