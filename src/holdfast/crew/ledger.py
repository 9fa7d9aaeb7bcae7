"""The outside world: a bank whose ledger is a file. It accepts each idempotency key once, and notes every attempt.

It is independent of Holdfast, and no crash of a worker removes an entry.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

from holdfast.clock import SystemClock

LEDGER_FILE: Final = "ledger.jsonl"

ACCEPTED: Final = "accepted"
REPEAT: Final = "repeat"
REFUSED: Final = "refused"
REFUND: Final = "refund"
CLOSED: Final = "closed"


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the ledger: its time (milliseconds), its process, and the outcome."""

    at: int
    what: str
    order: str
    cents: int
    key: str | None = None
    """The idempotency key of a charge; other entries have none."""
    payment: str | None = None
    pid: int = 0


class Bank:
    """The bank. Any process that can open the ledger sees the same one. Every entry is on the disk when a method
    returns.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._clock = SystemClock()
        self._entries: list[Entry] = []
        self._bytes_read = 0

    def entries(self) -> list[Entry]:
        """All that has been noted so far, in order."""
        with self._locked():
            return [*self._entries]

    def charge(self, order: str, cents: int, key: str) -> Entry:
        """Charge once for this key, however often it is requested. A closed order takes no new charge."""
        with self._locked() as ledger:
            payments = {each.key: each.payment for each in self._entries if each.what == ACCEPTED}
            if key in payments:
                return self._write(ledger, REPEAT, order, cents, key, payments[key])
            if self._is_closed(order):
                return self._write(ledger, REFUSED, order, cents, key)
            return self._write(ledger, ACCEPTED, order, cents, key, f"pay-{len(payments) + 1:05}")

    def refund(self, order: str) -> int:
        """Give back all that an order has paid, once, and close it to late charges. Returns the cents."""
        with self._locked() as ledger:
            entries = [each for each in self._entries if each.order == order]
            refunded = {each.payment for each in entries if each.what == REFUND}
            kept = [each for each in entries if each.what == ACCEPTED and each.payment not in refunded]
            if not self._is_closed(order):
                self._write(ledger, CLOSED, order, 0)
            for each in kept:
                self._write(ledger, REFUND, order, each.cents, payment=each.payment)
            return sum(each.cents for each in kept)

    def note(self, what: str, order: str, cents: int, key: str) -> None:
        """Note a failed attempt to charge, and why."""
        with self._locked() as ledger:
            self._write(ledger, what, order, cents, key)

    def _is_closed(self, order: str) -> bool:
        return any(each.what == CLOSED and each.order == order for each in self._entries)

    @contextmanager
    def _locked(self) -> Generator[BinaryIO]:
        """The locked ledger, after all its entries have been read."""
        with self._ledger.open("ab+") as ledger:
            fcntl.flock(ledger, fcntl.LOCK_EX)
            ledger.seek(self._bytes_read)
            self._entries += [msgspec.json.decode(line, type=Entry) for line in ledger]
            self._bytes_read = ledger.tell()
            yield ledger

    def _write(
        self, ledger: BinaryIO, what: str, order: str, cents: int, key: str | None = None, payment: str | None = None
    ) -> Entry:
        now = self._clock.now_ms()
        entry = Entry(at=now, what=what, order=order, cents=cents, key=key, payment=payment, pid=os.getpid())
        ledger.write(msgspec.json.encode(entry) + b"\n")
        ledger.flush()
        os.fsync(ledger.fileno())
        return entry
