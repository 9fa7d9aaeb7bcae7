"""The command ``overview``: how a home stands, from a handful of reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.actors import record as actors
from holdfast.actors.mailbox.parked import REGISTER
from holdfast.clock import moment
from holdfast.commands.context import Command, Context
from holdfast.commands.named import Named
from holdfast.commands.right import Right
from holdfast.kernel.backlog_count import PARKED_DUE_AT, due_at
from holdfast.messaging.listing import OUTBOX, QUEUES, places_of
from holdfast.messaging.outbox import PARTITION_PREFIX as OUTBOX_PREFIX
from holdfast.messaging.outbox import app_of, is_shard
from holdfast.workflows.record import (
    BLOCKED,
    COMPENSATION_FAILED,
    DELETED,
    FAILED,
    PARTITION_PREFIX,
    STATUSES,
    TIMED_OUT,
    describe_partition,
    is_there,
)
from holdfast.workflows.status import Status, status_of

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime
    from holdfast.messaging.publishing import Publishes

OVERDUE_MS: Final = 30_000
"""Work that has waited this long will not be picked up: the sweep runs every few seconds."""

LATELY_MS: Final = 86_400_000
"""What has failed since then is told apart from what is known for longer."""

BAD_ENDS: Final = (FAILED, TIMED_OUT, COMPENSATION_FAILED)

LAST_FAILURES: Final = 5
MOST_COUNTED: Final = 200
"""Where nothing is counted by an index, one page of this size is read, and that is the count."""

MOST_NOTES: Final = 1_000
MOST_APPS: Final = 5
"""The number of apps of the home whose queues are read."""


class Counted(Struct, frozen=True):
    """A number of things; with ``more``, there may be more than were counted."""

    count: int
    more: bool = False


class Overdue(Struct, frozen=True):
    """The work that has been due for longest: what, and since when."""

    what: str
    since: datetime


class HomeOverview(Struct, frozen=True, kw_only=True):
    """How a home stands. ``None`` is what cannot be counted there without reading the whole table.

    ``executions`` are the numbers by status. ``failed_lately`` is how many executions of a day ended badly, and
    ``failures`` are the newest that did. ``overdue`` is work that no worker takes up, ``blocked`` are executions that
    wait for code that fits, and ``parked`` those that wait to be resumed because processes died of them. ``halted`` are
    actors that have stopped at a message, ``parked_messages`` the dead letters. ``outbox``, ``bus`` and ``refused`` are
    events on their way: to consumers, to the bus, and not taken by it. ``processes`` have the home open, this one
    included.
    """

    home: str
    at: datetime
    executions: dict[str, int] | None
    failed_lately: Counted | None
    failures: tuple[Status, ...]
    overdue: Counted
    oldest_overdue: Overdue | None
    blocked: int | None
    parked: Counted
    halted: int | None
    parked_messages: Counted
    outbox: Counted
    bus: Counted
    refused: Counted
    processes: int | None


class Overview(Command[HomeOverview], frozen=True, tag="overview"):
    """How the home stands: executions by status, what is late, blocked or parked, what waits, the last failures."""

    async def perform(self, context: Context) -> HomeOverview:
        return await overview_of(context.app)


async def overview_of(app: Publishes) -> HomeOverview:
    """How a home stands. It asks the store nine times at most, and once for each of ``MOST_APPS`` apps of the
    home, or three times where there is a bus. Where writes are billed an outbox is seventeen partitions.
    """
    runtime = app.runtime()
    home, now = runtime.home, runtime.clock.now_ms()
    counts = None if home.census is None else await home.census.count(PARTITION_PREFIX)
    acting = None if home.census is None else await home.census.count(actors.PARTITION_PREFIX)
    ended_badly = [] if counts is None else await _ended_badly(runtime, [each for each in BAD_ENDS if counts.get(each)])
    overdue, parked = await _late(runtime, now)
    oldest = min(overdue[0], key=due_at, default=None)
    waiting = await _waiting(app)
    notes = await home.store.query(REGISTER, limit=MOST_NOTES)
    return HomeOverview(
        home=home.url,
        at=moment(now),
        executions=None if counts is None else {each: counts[each] for each in STATUSES if counts.get(each)},
        failed_lately=None if counts is None else _failed_lately(ended_badly, now),
        failures=tuple(_newest(ended_badly)),
        overdue=Counted(len(overdue[0]), overdue[1]),
        oldest_overdue=None if oldest is None else Overdue(_name_of(oldest), moment(due_at(oldest))),
        blocked=None if counts is None else max(0, counts.get(BLOCKED, 0) - parked.count),
        parked=parked,
        halted=None if acting is None else acting.get(actors.HALTED, 0),
        parked_messages=Counted(len(notes.items), notes.cursor is not None),
        outbox=waiting[0],
        bus=waiting[1],
        refused=waiting[2],
        processes=_processes(runtime),
    )


async def _ended_badly(runtime: Runtime, statuses: Sequence[str]) -> list[Status]:
    """The newest executions of each of these statuses, one page each."""
    now, found = runtime.clock.now_ms(), list[Status]()
    for status in statuses:
        page = await runtime.home.store.scan(PARTITION_PREFIX, status=status, limit=MOST_COUNTED)
        found += [status_of(head) for head in page.items if is_there(head, now)]
    return found


def _failed_lately(ended: Sequence[Status], now: int) -> Counted:
    """How many have ended in the last day. Of each status the newest were read; those that ran for more than a day
    may be behind them.
    """
    since = moment(now - LATELY_MS)
    lately = [each for each in ended if each.ended_at is not None and each.ended_at >= since]
    full = (status for status in BAD_ENDS if sum(each.status == status for each in ended) >= MOST_COUNTED)
    oldest = (min(each.created_at for each in ended if each.status == status) for status in full)
    return Counted(len(lately), more=any(created >= since for created in oldest))


def _newest(ended: Sequence[Status]) -> Iterator[Status]:
    ordered = sorted(ended, key=lambda each: each.ended_at or each.created_at, reverse=True)
    yield from ordered[:LAST_FAILURES]


async def _late(runtime: Runtime, now: int) -> tuple[tuple[list[Item], bool], Counted]:
    """What no worker takes up, and whether there is more of it; and the executions that wait to be resumed, which come
    first among what is due.
    """
    store = runtime.home.store
    page = await store.due(now - OVERDUE_MS, limit=MOST_COUNTED)
    due = [*page.items]
    if page.cursor is not None:
        page = await store.due(now - OVERDUE_MS, after=page.cursor, limit=MOST_COUNTED)
        due += page.items
    more = page.cursor is not None
    parked = [head for head in due if head.owner is None and head.due_at == PARKED_DUE_AT]
    late = [head for head in due if head not in parked and head.status != DELETED]
    return (late, more), Counted(len(parked), more and not late)


def _name_of(head: Item) -> str:
    if head.partition.startswith(PARTITION_PREFIX):
        return describe_partition(head.partition)
    if head.partition.startswith(actors.PARTITION_PREFIX):
        return actors.describe_partition(head.partition)
    return head.partition.replace("#", " ", 1)


async def _waiting(app: Publishes) -> list[Counted]:
    """How many events wait in each of the queues of the home's apps, or of this app where the home cannot list them."""
    home = app.runtime().home
    names, more_apps = [app.name], False
    if home.census is not None:
        page = await home.census.heads(OUTBOX_PREFIX, limit=MOST_APPS)
        names = [app_of(head.partition) for head in page.items if not is_shard(head.partition)]
        more_apps = page.cursor is not None
    totals = {queue: Counted(0, more_apps) for queue in QUEUES}
    for name in names:
        for of in places_of(name):
            has_none = not home.writes_are_paid if is_shard(of.partition) else home.bus is None and of.queue != OUTBOX
            if has_none:
                continue
            found = await home.store.query(of.partition, prefix=of.prefix, limit=MOST_COUNTED)
            known = totals[of.queue]
            totals[of.queue] = Counted(known.count + len(found.items), known.more or found.cursor is not None)
    return [totals[queue] for queue in QUEUES]


def _processes(runtime: Runtime) -> int | None:
    home = runtime.home
    if not home.hears_peers:
        return None
    return 1 + sum(home.doorbell.alive(peer) for peer in home.doorbell.peers())


COMMANDS: Final[tuple[Named, ...]] = (Named("overview", Overview, Right.READ),)
