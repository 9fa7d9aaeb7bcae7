"""The payment service of the demonstration, in a process of its own: accepts each idempotency key at most once.

It writes down every attempt before it answers: one line of JSON each, synced to the disk. Cards behave by their names:

| card | what happens |
|---|---|
| ``tok_declined_…`` | 402 |
| ``tok_flaky_…`` | 503 at the first attempt, then as usual |
| ``tok_slow_…`` | the charge is accepted, but the first answer takes longer than anybody waits |
| ``tok_hang_…`` | the charge is accepted, and no answer ever comes in time |
"""

from __future__ import annotations

import json
import os
import sys
import threading
from random import Random
from typing import Any, Final

from holdfast.clock import SystemClock
from holdfast.demo.loopback import Answer, serve

USUAL_SECONDS: Final = (0.02, 0.12)
TOO_LATE_SECONDS: Final = 1.6
"""Longer than the shop's time-out of one second."""


class Bank:
    """What has been charged, refunded and refused; the ledger file is its memory for others."""

    def __init__(self, ledger_path: str) -> None:
        self._ledger = open(ledger_path, "a", encoding="utf-8")  # noqa: PTH123, SIM115 - open as long as the process
        self._lock = threading.Lock()
        self._clock = SystemClock()
        self._payments: dict[str, dict[str, Any]] = {}
        self._refunded: set[str] = set()
        self._closed: set[str] = set()
        self._attempts: dict[str, int] = {}

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def handle(self, path: str, data: dict[str, Any]) -> Answer:
        """One request."""
        if path == "/refund":
            with self._lock:
                return self._refund(data)
        with self._lock:
            attempt = self._attempts[data["key"]] = self._attempts.get(data["key"], 0) + 1
            what, answer = self._charge(data, attempt)
            self._note(what, data["order"], data["cents"], key=data["key"], payment=answer[1].get("payment"))
        # Past the lock: a slow answer keeps nobody else waiting.
        threading.Event().wait(_delay_seconds(data["card"], data["key"], attempt))
        return answer

    def _charge(self, data: dict[str, Any], attempt: int) -> tuple[str, Answer]:
        key, card = data["key"], data["card"]
        if key in self._payments:
            return "repeat", (200, {"payment": self._payments[key]["payment"]})
        if data["order"] in self._closed:
            return "refused", (409, {"reason": "this order was refunded; it takes no more charges"})
        if card.startswith("tok_declined"):
            return "declined", (402, {"reason": "insufficient funds"})
        if card.startswith("tok_flaky") and attempt == 1:
            return "unavailable", (503, {"reason": "try again"})
        payment = f"pay-{len(self._payments) + 1:05}"
        self._payments[key] = {"payment": payment, "order": data["order"], "cents": data["cents"]}
        return "accepted", (200, {"payment": payment})

    def _refund(self, data: dict[str, Any]) -> Answer:
        """Give back all that an order has paid, once, and let no late charge of it through."""
        order = data["order"]
        self._closed.add(order)
        cents = 0
        for payment in self._payments.values():
            if payment["order"] == order and payment["payment"] not in self._refunded:
                self._refunded.add(payment["payment"])
                self._note("refund", order, payment["cents"], key=None, payment=payment["payment"])
                cents += payment["cents"]
        return 200, {"refunded_cents": cents}

    def _note(self, what: str, order: str, cents: int, *, key: str | None, payment: str | None) -> None:
        entry = {"at": self._clock.now_ms(), "what": what, "order": order, "cents": cents, "key": key}
        self._ledger.write(json.dumps({**entry, "payment": payment}) + "\n")
        self._ledger.flush()
        os.fsync(self._ledger.fileno())


def _delay_seconds(card: str, key: str, attempt: int) -> float:
    if card.startswith("tok_hang") or (card.startswith("tok_slow") and attempt == 1):
        return TOO_LATE_SECONDS
    return Random(f"{key}/{attempt}").uniform(*USUAL_SECONDS)


if __name__ == "__main__":
    serve(Bank(sys.argv[1]).handle)
