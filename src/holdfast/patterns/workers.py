"""The processes of a home: those that can be seen, and those that own something. Nothing is written for it (G14)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.actors import record as actors
from holdfast.clock import moment
from holdfast.coordination.census import reads_all
from holdfast.keys import LARGEST_PAGE, check_limit
from holdfast.patterns.lease_list import LeaseStatus, list_leases
from holdfast.process_state import is_stopped
from holdfast.workflows import record as workflows

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime

HORIZON_MS: Final = 60_000
"""Leases of workers are a quarter of this long, unless the limits of an app say otherwise. Longer ones are not seen."""

MOST_READS: Final = 3
"""How many pages of leased heads are read."""

EXAMPLES: Final = 5
"""How many of the things that a process owns are named."""


class WorkerStatus(Struct, frozen=True, kw_only=True):
    """A process that has the home open, or owns something in it.

    ``here`` is the process that answers. ``alive`` is whether it lives, as far as this machine knows; ``None`` on a
    home whose processes are elsewhere. ``stopped``: it lives, and a signal or a debugger has stopped it.
    ``executions``, ``actors`` and ``others`` count what it works on now, ``leases`` what its code holds, ``examples``
    names some of both. ``until`` is when the first of its leases lapses unless it is renewed: one in the past is of a
    process that has died, hangs, or was stopped.
    """

    owner: str
    here: bool
    alive: bool | None
    stopped: bool = False
    executions: int = 0
    actors: int = 0
    others: int = 0
    leases: int = 0
    examples: tuple[str, ...] = ()
    until: datetime | None = None


class WorkerPage(Struct, frozen=True):
    """Some processes, by the names under which they own things. ``whole``: all that is owned was read; else the counts
    are at least so high, and a process may be missing.
    """

    items: tuple[WorkerStatus, ...]
    after: str | None
    whole: bool = True


class Owned(Struct):
    """What one process owns."""

    executions: int = 0
    actors: int = 0
    others: int = 0
    leases: int = 0
    examples: list[str] = []
    until_ms: int | None = None

    def note(self, what: str, until_ms: int | None) -> None:
        """One more thing that it owns."""
        if len(self.examples) < EXAMPLES:
            self.examples.append(what)
        if until_ms is not None:
            self.until_ms = min(until_ms, until_ms if self.until_ms is None else self.until_ms)


async def list_workers(runtime: Runtime, *, after: str | None, limit: int, scan: bool = False) -> WorkerPage:
    """One page of the processes of a home. It reads ``MOST_READS`` pages of heads at most, and one of leases.

    On a home whose processes are elsewhere, only those that own something are known. If its table would have to be read
    for the leases, they are left out without ``scan``.
    """
    check_limit(limit)
    home = runtime.home
    owned: dict[str, Owned] = {home.owner: Owned()} | {peer: Owned() for peer in home.doorbell.peers()}
    leased, all_heads = await _leased_heads(runtime)
    for head in leased:
        _note_head(owned.setdefault(head.owner or "", Owned()), head)
    held, all_leases = await _held_leases(runtime, scan=scan)
    for lease in held:
        _note_lease(owned.setdefault(lease.owner or "", Owned()), lease)
    names = [name for name in sorted(owned) if after is None or name > after]
    items = tuple(_status(name, owned[name], runtime) for name in names[:limit])
    return WorkerPage(items, names[limit - 1] if len(names) > limit else None, all_heads and all_leases)


async def _leased_heads(runtime: Runtime) -> tuple[list[Item], bool]:
    """The heads with an owner, and whether that is all of them."""
    horizon_ms = max(HORIZON_MS, 2 * runtime.limits.lease_ms)
    before, after = runtime.clock.now_ms() + horizon_ms, None
    found: list[Item] = []
    for _ in range(MOST_READS):
        page = await runtime.home.store.due(before, after=after, limit=LARGEST_PAGE)
        found += [head for head in page.items if head.owner is not None]
        if (after := page.cursor) is None:
            return found, True
    return found, False


async def _held_leases(runtime: Runtime, *, scan: bool) -> tuple[Iterable[LeaseStatus], bool]:
    if reads_all(runtime.home) and not scan:
        return (), False
    page = await list_leases(runtime, after=None, limit=LARGEST_PAGE, scan=scan)
    return [lease for lease in page.items if lease.owner is not None], page.after is None


def _note_head(owned: Owned, head: Item) -> None:
    if head.partition.startswith(workflows.PARTITION_PREFIX):
        owned.executions += 1
        name = f"{workflows.workflow_of(head.partition)} {workflows.id_of(head.partition)}"
    elif head.partition.startswith(actors.PARTITION_PREFIX):
        owned.actors += 1
        name = f"{actors.actor_of(head.partition)} {actors.key_of(head.partition)}"
    else:
        owned.others += 1
        name = head.partition.replace("#", " ", 1)
    owned.note(name, head.lease_until)


def _note_lease(owned: Owned, lease: LeaseStatus) -> None:
    owned.leases += 1
    owned.note(f"{lease.kind} {lease.name}", None if lease.until is None else round(lease.until.timestamp() * 1000))


def _status(name: str, owned: Owned, runtime: Runtime) -> WorkerStatus:
    home, here = runtime.home, name == runtime.home.owner
    alive = True if here else home.doorbell.alive(name) if home.hears_peers else None
    return WorkerStatus(
        owner=name,
        here=here,
        alive=alive,
        stopped=bool(alive) and is_stopped(name),
        executions=owned.executions,
        actors=owned.actors,
        others=owned.others,
        leases=owned.leases,
        examples=tuple(owned.examples),
        until=None if owned.until_ms is None else moment(owned.until_ms),
    )
