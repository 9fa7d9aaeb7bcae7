"""Named fault points: at a chosen write, just before it leaves or just after it is durable, the process dies or stops.

They exist only where the environment variable ``HOLDFAST_TORTURE_FAULTS`` is set: the home's store is wrapped, the
engine itself knows nothing of them. A process that stops itself between its claim and its next write is a zombie: when
it is resumed, others have taken its work over, and it must find out before it can do harm (G3).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import UNSET
from msgspec.structs import replace
from tests.torture.plants import planted_write

from holdfast.backends.sqlite import open_sqlite_home
from holdfast.backends.sqlite.store import SqliteStore
from holdfast.coordination.inbox import INBOX_PREFIX, USED
from holdfast.items import HEAD, Item, OwnerIs, Put, Update, Write
from holdfast.ports import Home, SqlCursor
from holdfast.replay.entries import TakenOver, decode_entries
from holdfast.replay.journal import SEGMENT_PREFIX

T = TypeVar("T")

FAULTS: Final = "HOLDFAST_TORTURE_FAULTS"
"""The environment variable with the faults of one process: a JSON list of ``[kind, moment, action, number]``."""

KINDS: Final = (
    "launch",
    "claim",
    "takeover",
    "fence",
    "append",
    "transaction",
    "receipt",
    "post",
    "renewal",
    "settle",
    "conclude",
)
"""The writes of the engine, by what they mean."""

CLIENT_KINDS: Final = ("launch", "post")
"""Those that clients do too."""

MOMENTS: Final = ("before", "after")
ACTIONS: Final = ("kill", "stop")

STOP_AT_LEAST_SECONDS: Final = 0.25
"""A stop signal sent to oneself may take a moment to arrive; the parent lets no stop be shorter than this."""


class Fault(NamedTuple):
    """Do ``action`` at the ``number``-th write of this kind (1 is the next)."""

    kind: str
    moment: str
    action: str
    number: int = 1

    @property
    def point(self) -> str:
        return f"{self.kind}:{self.moment}"


POINTS: Final = tuple(f"{kind}:{moment}" for kind in KINDS for moment in MOMENTS)


def kind_of(writes: Sequence[Write]) -> str:
    """What a call of the store's ``write`` means to the engine."""
    for write in writes:
        match write:
            case Put(item=Item(sort=sort, body=body)) if sort.startswith(SEGMENT_PREFIX):
                return "fence" if _fences(body) else "append"
            case Put(item=Item(sort=sort)) if sort == HEAD:
                return "launch"
            case Put(item=Item(sort=sort, status=status)) if sort.startswith(INBOX_PREFIX) and status != USED:
                return "post"
            case Update(sort=sort) if sort == HEAD and (kind := _kind_of_head_update(write)):
                return kind
            case _:
                pass
    return "receipt"


def _kind_of_head_update(update: Update) -> str | None:
    if update.owner is None:
        return "conclude" if update.body is not UNSET else "settle"
    if update.owner is not UNSET:
        return "takeover" if _asks_for_owner(update) else "claim"
    return "renewal" if update.lease_until is not UNSET else None


def _asks_for_owner(update: Update) -> bool:
    conditions: list[Any] = [update.when]
    while conditions:
        condition = conditions.pop()
        if isinstance(condition, OwnerIs):
            return True
        conditions += getattr(condition, "conditions", ())
    return False


# ── Telling the parent ──────────────────────────────────────────────────────────────────────────────────────────────


def tell(**facts: Any) -> None:
    """One line to the parent. It arrives whole, and even if we die in the next instruction."""
    os.write(1, json.dumps(facts).encode() + b"\n")


def stop_oneself() -> float:
    """Be stopped until the parent sends SIGCONT; answers how many seconds that took."""
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGSTOP)
    while time.monotonic() - began < STOP_AT_LEAST_SECONDS:
        time.sleep(0.001)  # the signal is on its way
    return round(time.monotonic() - began, 3)


# ── The store ───────────────────────────────────────────────────────────────────────────────────────────────────────


class TorturedStore:
    """A store with one armed fault at a time; the next is armed when it has happened."""

    def __init__(self, store: SqliteStore, faults: Sequence[Fault]) -> None:
        self._store = store
        self._apply = planted_write(store)
        self._faults = list(faults)
        self._to_go = faults[0].number if faults else 0
        self.get = store.get
        self.query = store.query
        self.due = store.due
        self.scan = store.scan
        self.close = store.close

    def disarm(self) -> None:
        """No more faults."""
        self._faults.clear()

    def write(self, *writes: Write) -> Awaitable[Sequence[Item | None]]:
        """See ``Store.write``."""
        return self._at(kind_of(writes), partial(self._apply, *writes))

    def transact(self, work: Callable[[SqlCursor], tuple[Sequence[Write], T]]) -> Awaitable[T]:
        """See ``SqlTransactions.transact``."""
        return self._at("transaction", partial(self._store.transact, work))

    def _at(self, kind: str, apply: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        fault = self._falling_due(kind)
        if fault is None:
            return apply()
        return self._strike_before(fault, apply) if fault.moment == "before" else self._strike_after(fault, apply)

    def _falling_due(self, kind: str) -> Fault | None:
        if not self._faults or self._faults[0].kind != kind:
            return None
        self._to_go -= 1
        if self._to_go > 0:
            return None
        fault = self._faults.pop(0)
        self._to_go = self._faults[0].number if self._faults else 0
        return fault

    async def _strike_before(self, fault: Fault, apply: Callable[[], Awaitable[T]]) -> T:
        await self._strike(fault)
        return await apply()

    async def _strike_after(self, fault: Fault, apply: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await apply()
        except BaseException:  # refused, say: then after the next one
            self._faults.insert(0, fault)
            self._to_go = 1
            raise
        await self._strike(fault)
        return answer

    async def _strike(self, fault: Fault) -> None:
        if fault.action == "kill":
            tell(hit=fault.point, action="kill")
            os.kill(os.getpid(), signal.SIGKILL)
        # Stopped inside a transaction we would hold the file's write lock, and nobody could take anything over.
        writer = self._store._writer
        while True:
            if not writer._in_thread:
                break
            await asyncio.sleep(0.0005)
        tell(hit=fault.point, action="stop")
        tell(resumed=fault.point, after_seconds=stop_oneself())


async def open_tortured_home(path: Path) -> Home:
    """The home of one process of the run, with the faults and the planted bug that its environment asks for."""
    home = await open_sqlite_home(path)
    if FAULTS not in os.environ:
        return home
    assert isinstance(home.store, SqliteStore)
    faults = [Fault(*each) for each in json.loads(os.environ[FAULTS])]
    store = TorturedStore(home.store, faults)
    signal.signal(signal.SIGUSR1, lambda *_: store.disarm())
    tell(opened=home.owner)
    return replace(home, store=store, transactions=store)


def _fences(body: bytes) -> bool:
    """Whether a segment only claims its place, and says perhaps that a process has died."""
    return all(isinstance(entry, TakenOver) for entry in decode_entries(body))
