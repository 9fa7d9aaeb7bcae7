"""The checks of ``holdfast doctor``: each examines one thing and finds it ok, worth a warning, or failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from shlex import join
from typing import Final

from msgspec import Struct

from holdfast.actors import record as actors
from holdfast.actors.mailbox.parked import REGISTER
from holdfast.backends.sqlite.checkup import Checkup, check_up
from holdfast.backends.sqlite.connection import FIRST_SOUND_SQLITE
from holdfast.backends.sqlite.schema import SCHEMA_VERSION
from holdfast.backends.sqlite.store import SqliteStore
from holdfast.clock import Clock, duration
from holdfast.errors import StoreUnusable
from holdfast.items import Item
from holdfast.kernel.backlog_count import PARKED_DUE_AT
from holdfast.paging import Items, heads, items
from holdfast.ports import Home, Store
from holdfast.workflows.record import (
    BLOCKED,
    CLAIMABLE,
    COMPENSATION_FAILED,
    FAILED,
    PARTITION_PREFIX,
    STATUSES,
    TIMED_OUT,
    decode_record,
    describe_partition,
    id_of,
    pinned_to,
    workflow_of,
)

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

OVERDUE_MS: Final = 30_000
"""Work that has waited this long will not be picked up: the sweep runs every few seconds."""

LATELY_MS: Final = 86_400_000
"""What has failed since then is told apart from what is known for longer."""

LITTLE_SPACE_BYTES: Final = 256 * 2**20
LARGE_LOG_BYTES: Final = 64 * 2**20
"""Well above the size to which the log is truncated. A larger log means that a process holds an old snapshot open."""

EXAMPLES: Final = 3
SYNCHRONOUS: Final = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
MEGABYTE: Final = 2**20


class Finding(Struct, frozen=True):
    """One line of the diagnosis."""

    level: str
    check: str
    told: str


# ── The file ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def check_file(home: Home) -> AsyncIterator[Finding]:
    """The findings about the database file, if there is one."""
    if not isinstance(home.transactions, SqliteStore):
        yield Finding(OK, "store", f"{home.url} has no file to examine")
        return
    facts = check_up(home.transactions)
    needed = ".".join(map(str, FIRST_SOUND_SQLITE))
    yield Finding(OK, "sqlite", f"version {facts.sqlite_version} ({needed} is the oldest sound one)")
    yield Finding(OK, "schema", f"version {facts.schema_version} (this Holdfast writes {SCHEMA_VERSION})")
    told = " ".join(f"{name}={_setting(name, value)}" for name, value in facts.settings.items())
    yield Finding(OK, "settings", told)
    wrong = await home.transactions.integrity()
    for line in wrong:
        yield Finding(FAIL, "integrity", line)
    if not wrong:
        yield Finding(OK, "integrity", "every page, index and reference was read and is sound")
    for finding in _check_permissions(facts):
        yield finding
    yield _check_space(facts)


def _setting(name: str, value: int | str) -> str:
    return SYNCHRONOUS.get(value, str(value)) if name == "synchronous" and isinstance(value, int) else str(value)


def _check_permissions(facts: Checkup) -> Iterator[Finding]:
    open_to_others = {path: mode for path, mode in facts.modes.items() if mode & 0o077}
    for path, mode in open_to_others.items():
        yield Finding(WARN, "permissions", f"{path} is open to other users ({mode:04o}): chmod go= {path}")
    for path in facts.foreign:
        yield Finding(WARN, "permissions", f"{path} belongs to a user other than the one running this command")
    if not open_to_others:
        modes = ", ".join(f"{path.rpartition('/')[2]} {mode:04o}" for path, mode in facts.modes.items())
        yield Finding(OK, "permissions", modes)


def _check_space(facts: Checkup) -> Finding:
    told = (
        f"the file has {facts.size_bytes / MEGABYTE:.1f} MB, its log {facts.log_bytes / MEGABYTE:.1f} MB, the disk "
        f"{facts.free_bytes / MEGABYTE:,.0f} MB free"
    )
    if facts.free_bytes < LITTLE_SPACE_BYTES:
        return Finding(WARN, "space", f"{told}: make room, a full disk stops all work")
    if facts.log_bytes > LARGE_LOG_BYTES:
        return Finding(WARN, "space", f"{told}: some process holds an old snapshot open, or hangs")
    return Finding(OK, "space", told)


# ── The work ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Census(Struct):
    """The executions of a home, counted."""

    statuses: Counter[str]
    workflows: Counter[str]
    blocked: list[str]
    parked: list[str]
    broken: list[str]
    failed: list[str]
    failed_lately: list[str]


async def check_work(home: Home, clock: Clock, known: Collection[str] | None) -> list[Finding]:
    """Whether the executions make progress. ``known`` are the workflows that have code here, if code was loaded."""
    census = await _census(home.store, clock.now_ms() - LATELY_MS)
    peers = sorted(peer for peer in home.doorbell.peers() if home.doorbell.alive(peer))
    findings = [
        _counted(census),
        _check_blocked(census),
        _check_crashes(census),
        *_check_undos(census),
        _check_failed(census),
    ]
    if known is not None:
        findings.append(_check_known(census, known))
    findings.append(await _check_halted(home.store))
    findings.append(await _check_parked(home.store))
    findings.append(await _check_overdue(home, clock.now_ms()))
    findings.append(_check_peers(peers, census) if _can_hear(home) else _unheard(census))
    return findings


async def _census(store: Store, lately: int) -> Census:
    census = Census(Counter(), Counter(), [], [], [], [], [])
    async for head in heads(store, PARTITION_PREFIX):
        census.statuses[head.status] += 1
        if head.status in CLAIMABLE:
            census.workflows[workflow_of(head.partition)] += 1
        if head.status == BLOCKED:
            _note_blocked(head, census)
        elif head.status == COMPENSATION_FAILED:
            census.broken.append(head.partition)
        elif head.status in (FAILED, TIMED_OUT):
            census.failed.append(head.partition)
            if _ended_at(head) >= lately:
                census.failed_lately.append(head.partition)
    return census


def _ended_at(head: Item) -> int:
    try:
        return decode_record(head.body).ended_at or 0
    except StoreUnusable:
        return 0


def _note_blocked(head: Item, census: Census) -> None:
    name = describe_partition(head.partition)
    try:
        record = decode_record(head.body)
    except StoreUnusable as error:
        census.blocked.append(f"{name} (damaged: {error})")
        return
    why = f": {record.blocked}" if record.blocked else ""
    if record.parked:
        census.parked.append(f"{name}{why}")
        return
    published = f", published as {record.published}" if record.published else ""
    census.blocked.append(f"{name} (code {pinned_to(record)}{published}){why}")


def _counted(census: Census) -> Finding:
    counts = ", ".join(f"{census.statuses[each]:,} {each}" for each in STATUSES if census.statuses[each])
    return Finding(OK, "executions", counts or "none")


def _check_blocked(census: Census) -> Finding:
    if not census.blocked:
        return Finding(OK, "blocked", "no execution waits for code that fits")
    told = (
        f"{len(census.blocked):,} executions wait for code that fits, {_named(census.blocked, str)}. They continue by "
        "themselves once a worker has it: roll back, deploy code that fits, or holdfast move. holdfast ls --status "
        "BLOCKED lists them"
    )
    return Finding(WARN, "blocked", told)


def _check_crashes(census: Census) -> Finding:
    if not census.parked:
        return Finding(OK, "crashes", "no execution was parked because its processes died")
    told = (
        f"{len(census.parked):,} executions are parked because their processes died, {_named(census.parked, str)}. "
        "Fix the cause, then holdfast resume each; holdfast ls --status BLOCKED lists them"
    )
    return Finding(WARN, "crashes", told)


def _check_undos(census: Census) -> Iterator[Finding]:
    if census.broken:
        told = f"an undo of {_named(census.broken)} gave up: see holdfast show, fix the cause, then holdfast retry"
        yield Finding(WARN, "compensation", told)


def _check_failed(census: Census) -> Finding:
    if not census.failed:
        return Finding(OK, "failed", "no execution has failed")
    if not census.failed_lately:
        return Finding(OK, "failed", f"{len(census.failed):,} executions have failed, none in the last day")
    first = census.failed_lately[0]
    show = join(("holdfast", "show", workflow_of(first), id_of(first)))
    told = (
        f"{len(census.failed):,} executions have failed, {len(census.failed_lately):,} of them in the last day, "
        f"{_named(census.failed_lately)}: {show} shows why, holdfast ls --status FAILED lists them"
    )
    return Finding(WARN, "failed", told)


def _check_known(census: Census, known: Collection[str]) -> Finding:
    unknown = {name: count for name, count in census.workflows.items() if name not in known}
    if unknown:
        told = ", ".join(f"{name!r} ({count} unfinished)" for name, count in sorted(unknown.items()))
        return Finding(WARN, "unknown", f"the app has no code for {told}")
    return Finding(OK, "unknown", "the app has code for every unfinished execution")


async def _check_halted(store: Store) -> Finding:
    halted = [head.partition async for head in heads(store, actors.PARTITION_PREFIX, status=actors.HALTED)]
    if not halted:
        return Finding(OK, "halted", "no actor or consumer has halted at a message")
    named = _named(halted, actors.describe_partition)
    show = join(("holdfast", "actor", "show", actors.actor_of(halted[0]), actors.key_of(halted[0])))
    told = (
        f"{len(halted):,} halted at a message that fails, {named}: inspect it with {show}, fix the cause, then "
        "holdfast actor resume"
    )
    return Finding(WARN, "halted", told)


async def _check_parked(store: Store) -> Finding:
    count = sum([1 async for _ in items(store, REGISTER)])
    if not count:
        return Finding(OK, "parked", "no message or event is parked")
    told = f"{count:,} messages are parked because they failed: list them with holdfast dlq ls"
    return Finding(WARN, "parked", f"{told}, fix the cause, then holdfast dlq redrive")


async def _check_overdue(home: Home, now: int) -> Finding:
    due = Items(lambda after: home.store.due(now - OVERDUE_MS, after=after))
    # An entity with an owner is not among them: its lease is renewed. A parked one is not late.
    late = [_look_at(head) async for head in due if head.status in CLAIMABLE and head.due_at != PARKED_DUE_AT]
    if late:
        told = f"{len(late)} executions are overdue, the first for {duration(now - min(late))}: is a worker up?"
        return Finding(WARN, "overdue", told)
    return Finding(OK, "overdue", f"nothing has waited for a worker for more than {duration(OVERDUE_MS)}")


def _can_hear(home: Home) -> bool:
    """Whether this process can see the other processes of the home. Where each write is billed they run on other
    machines, and the only sign of life of an owner is its lease.
    """
    return home.hears_peers


def _look_at(head: Item) -> int:
    return (head.due_at if head.owner is None else head.lease_until) or 0


def _unheard(census: Census) -> Finding:
    waiting = sum(census.workflows.values())
    return Finding(OK, "peers", f"processes on other machines cannot be seen; {waiting} executions are unfinished")


def _check_peers(peers: Collection[str], census: Census) -> Finding:
    if peers:
        ids = ", ".join(peer.partition("-")[0] for peer in peers)
        return Finding(OK, "peers", f"{len(peers)} other processes have it open: {ids}")
    waiting = sum(census.workflows.values())
    if waiting:
        return Finding(WARN, "peers", f"no other process has it open, and {waiting} executions are unfinished")
    return Finding(OK, "peers", "no other process has it open, and nothing is unfinished")


def _named(partitions: Iterable[str], describe: Callable[[str], str] = describe_partition) -> str:
    everyone = list(partitions)
    told = ", ".join(describe(partition) for partition in everyone[:EXAMPLES])
    more = len(everyone) - EXAMPLES
    return f"{told} and {more} more" if more > 0 else told
