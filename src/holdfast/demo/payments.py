"""The payment service of the demonstration, in a process of its own: accepts each idempotency key at most once.

It writes down every attempt before it answers: one line of JSON each, synced to the disk. Cards behave by their names:

| card | what happens |
|---|---|
| ``tok_declined_…`` | 402 |
| ``tok_flaky_…`` | 503 at the first attempt, then as usual |
| ``tok_slow_…`` | the charge is accepted, but the first answer takes longer than any client waits |
| ``tok_hang_…`` | the charge is accepted, and no answer ever comes in time |
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

from holdfast.crew.ledger import REFUSED, Bank
from holdfast.demo.loopback import Answer, serve

USUAL_SECONDS: Final = (0.02, 0.12)
TOO_LATE_SECONDS: Final = 1.6
"""Longer than the shop's time-out of one second."""


class Payments:
    """The bank, for cards that behave by their names."""

    def __init__(self, ledger: Path) -> None:
        self._bank = Bank(ledger)
        self._lock = threading.Lock()
        self._attempts: Counter[str] = Counter()

    def handle(self, path: str, data: dict[str, Any]) -> Answer:
        """One request."""
        if path == "/refund":
            return 200, {"refunded_cents": self._bank.refund(data["order"])}
        key, card = data["key"], data["card"]
        with self._lock:
            self._attempts[key] += 1
            attempt = self._attempts[key]
        answer = self._charge(card, attempt, data["order"], data["cents"], key)
        threading.Event().wait(_delay_seconds(card, key, attempt))
        return answer

    def _charge(self, card: str, attempt: int, order: str, cents: int, key: str) -> Answer:
        if card.startswith("tok_declined"):
            self._bank.note("declined", order, cents, key)
            return 402, {"reason": "insufficient funds"}
        if card.startswith("tok_flaky") and attempt == 1:
            self._bank.note("unavailable", order, cents, key)
            return 503, {"reason": "try again"}
        entry = self._bank.charge(order, cents, key)
        if entry.what == REFUSED:
            return 409, {"reason": "this order was refunded; it takes no more charges"}
        return 200, {"payment": entry.payment}


def _delay_seconds(card: str, key: str, attempt: int) -> float:
    if card.startswith("tok_hang") or (card.startswith("tok_slow") and attempt == 1):
        return TOO_LATE_SECONDS
    return Random(f"{key}/{attempt}").uniform(*USUAL_SECONDS)


if __name__ == "__main__":
    serve(Payments(Path(sys.argv[1])).handle)
