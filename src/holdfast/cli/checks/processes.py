"""The findings of ``holdfast doctor`` about processes and leases: which died, which are stopped, which hold on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from holdfast.backends.sqlite.bell_folder import beside
from holdfast.cli.checks.finding import OK, WARN, Finding, Group
from holdfast.clock import duration, moment
from holdfast.patterns.lease_list import LAPSED, list_leases
from holdfast.patterns.workers import WorkerStatus, list_workers
from holdfast.process_state import is_stopped, pid_of

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

MOST_LISTED: Final = 1_000

LONG_MS: Final = 3_600_000
"""A lease that one owner has held for longer may be one that it forgot."""

START_ONE: Final = "start one with holdfast run MODULE:APP"


async def check_processes(runtime: Runtime, unfinished: int, *, disk_is_full: bool = False) -> list[Finding]:
    """``unfinished`` is how many executions a worker has to work on."""
    if not runtime.home.hears_peers:
        told = f"processes on other machines cannot be seen; {unfinished} executions are unfinished"
        return [Finding(OK, "peers", told), await _check_leases(runtime)]
    page = await list_workers(runtime, after=None, limit=MOST_LISTED, scan=True)
    others = [each for each in page.items if not each.here]
    living = [each for each in others if each.alive]
    return [
        _check_peers(living, unfinished),
        _check_dead([each for each in others if not each.alive and (each.executions or each.actors)], living),
        _check_stopped(living, runtime.clock.now_ms(), disk_is_full=disk_is_full),
        await _check_leases(runtime),
    ]


def _check_peers(living: list[WorkerStatus], unfinished: int) -> Finding:
    if living:
        ids = ", ".join(pid_of(peer.owner) for peer in living)
        return Finding(OK, "peers", f"{len(living)} other processes have it open: {ids}")
    if unfinished:
        told = f"no other process has it open, and {unfinished} executions are unfinished: {START_ONE}"
        return Finding(WARN, "peers", told)
    return Finding(OK, "peers", "no other process has it open, and nothing is unfinished")


def _check_dead(dead: list[WorkerStatus], living: list[WorkerStatus]) -> Finding:
    if not dead:
        return Finding(OK, "died", "no process has died at work that waits for another")
    group = Group()
    for each in dead:
        group.note(f"process {pid_of(each.owner)} died", f"it worked on {', '.join(each.examples)}")
    remedy = "a running worker takes their work over in seconds" if living else f"no worker takes it over: {START_ONE}"
    return Finding(WARN, "died", f"{group.count:,} processes died at work; {remedy}", group.told())


def _check_stopped(living: list[WorkerStatus], now: int, *, disk_is_full: bool) -> Finding:
    group = Group()
    why = (
        "the disk is full, and it keeps what it has done until there is room"
        if disk_is_full
        else "its event loop hangs"
    )
    for each in living:
        pid, work = pid_of(each.owner), ", ".join(each.examples) or "nothing"
        if each.stopped:
            group.note(_continues(pid), f"it has {work}")
        elif each.until is not None and each.until < moment(now):
            late = duration((moment(now) - each.until).total_seconds() * 1000)
            group.note(f"process {pid} has not renewed its leases for {late}: {why}", f"it has {work}")
    if not group.count:
        return Finding(OK, "stopped", "no process is stopped or hangs")
    told = f"{group.count:,} processes live and do no work; others take their work over when its leases lapse"
    return Finding(WARN, "stopped", f"{told}. holdfast workers lists them", group.told())


def check_stopped_beside(url: str) -> list[Finding]:
    """The stopped processes that have a file open which cannot be read now: one may have stopped in a transaction."""
    folder, group = beside(os.path.realpath(url.removeprefix("sqlite:///"))), Group()
    for pid in sorted({pid_of(bell.name) for bell in folder.glob("*-*-*")}):
        if is_stopped(pid):
            group.note(_continues(pid))
    if not group.count:
        return []
    told = f"{group.count:,} processes that have the file open are stopped, perhaps in a transaction"
    return [Finding(WARN, "stopped", told, group.told())]


def _continues(pid: str) -> str:
    return f"kill -CONT {pid} continues process {pid}, which a signal or a debugger has stopped"


async def _check_leases(runtime: Runtime) -> Finding:
    page = await list_leases(runtime, after=None, limit=MOST_LISTED, scan=True)
    now, held, group = moment(runtime.clock.now_ms()), 0, Group()
    for each in page.items:
        held += each.owner is not None
        if each.owner is None:
            continue
        long = 0 if each.since is None else (now - each.since).total_seconds() * 1000
        holder = f"process {pid_of(each.owner)}"
        if each.status != LAPSED and long > LONG_MS:
            group.note(f"{each.kind} {each.name}", f"{holder} has held it for {duration(long)}")
    if not group.count:
        return Finding(OK, "leases", f"{held:,} leases are held, none for more than {duration(LONG_MS)}")
    told = (
        f"{group.count:,} leases have had one owner for more than {duration(LONG_MS)}: look at what it does with them; "
        "they are free when it leaves the block or its process ends. holdfast leases lists them"
    )
    return Finding(WARN, "leases", told, group.told())
