"""The outside world: a bank whose ledger is a file. It accepts each idempotency key once, and notes every attempt.

Holdfast knows nothing of it, and nothing that happens to a worker takes a line back.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec
from msgspec import Struct

from holdfast.clock import SystemClock

ACCEPTED: Final = "accepted"
REPEAT: Final = "repeat"


class Attempt(Struct, frozen=True):
    """One line of the ledger: at what time (milliseconds), by which process, and whether it was the key's first."""

    at: int
    pid: int
    what: Literal["accepted", "repeat"]
    order: str
    cents: int
    key: str


class Bank:
    """The bank, as any process sees it that can open its ledger."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._clock = SystemClock()

    def charge(self, order: str, cents: int, key: str) -> str:
        """Charge once for this key, however often it is asked; answers the payment. On the disk when it returns."""
        with self._ledger.open("ab+") as ledger:
            fcntl.flock(ledger, fcntl.LOCK_EX)
            ledger.seek(0)
            known = any(attempt.key == key for attempt in _read(ledger))
            what: Literal["accepted", "repeat"] = REPEAT if known else ACCEPTED
            attempt = Attempt(self._clock.now_ms(), os.getpid(), what, order, cents, key)
            ledger.write(msgspec.json.encode(attempt) + b"\n")
            ledger.flush()
            os.fsync(ledger.fileno())
        return f"payment for {key}"

    def attempts(self) -> list[Attempt]:
        """Every attempt so far, in order."""
        with self._ledger.open("ab+") as ledger:
            fcntl.flock(ledger, fcntl.LOCK_SH)
            ledger.seek(0)
            return _read(ledger)


def _read(ledger: BinaryIO) -> list[Attempt]:
    return [msgspec.json.decode(line, type=Attempt) for line in ledger]
