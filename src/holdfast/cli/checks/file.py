"""The findings of ``holdfast doctor`` about the database file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

from holdfast.backends.sqlite.checkup import Checkup, check_up
from holdfast.backends.sqlite.connection import FIRST_SOUND_SQLITE
from holdfast.backends.sqlite.schema import SCHEMA_VERSION
from holdfast.backends.sqlite.store import SqliteStore
from holdfast.cli.checks.finding import FAIL, OK, WARN, Finding
from holdfast.ports import Home

NO_SPACE_BYTES: Final = 2**20
"""Less than the log of a home at work: its next write fails, if this one did not."""

LITTLE_SPACE_BYTES: Final = 256 * 2**20
LARGE_LOG_BYTES: Final = 64 * 2**20
"""Well above the size to which the log is truncated. A larger log means that a process holds an old snapshot open."""

SYNCHRONOUS: Final = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
MEGABYTE: Final = 2**20


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
    if facts.free_bytes < NO_SPACE_BYTES:
        return Finding(
            FAIL,
            "space",
            f"the disk is full: {told}; free some space, and workers go on by themselves",
        )
    if facts.free_bytes < LITTLE_SPACE_BYTES:
        return Finding(WARN, "space", f"{told}: make room, a full disk stops all work")
    if facts.log_bytes > LARGE_LOG_BYTES:
        return Finding(WARN, "space", f"{told}: some process holds an old snapshot open, or hangs")
    return Finding(OK, "space", told)
