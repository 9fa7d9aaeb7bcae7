"""The outside world, as steps change it: a ledger that honours idempotency keys, and remembers every attempt.

Exactly once is true only inside the store (G10), so two things are counted separately: *attempts* of an effect, of
which a crash may cause more than one, and *accepted* effects, of which there is one per key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from copy import copy
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct

from holdfast.testing.happenings import Happening
from holdfast.testing.virtual_time import current_scope
from holdfast.workflows.scope import StepInfo, current

T = TypeVar("T")


class Watch(Protocol):
    """A listener that gets every attempt."""

    def __call__(self, key: str, process: str, *, excused: bool) -> None:
        """``process`` performs the operation ``key``; ``excused``: it may have been overtaken without knowing."""
        ...


class Allowed(Struct):
    """How many executions of a queue may have begun and not have ended, in all and of each key."""

    limit: int
    limit_per_key: int | None = None


class Attempt(Struct, frozen=True):
    """One call of the ledger: when (virtual seconds), by which process, under which key."""

    at: float
    process: str
    key: str


class Ledger:
    """Where the steps of a simulation leave their effects. ``violations`` lists what must not have happened."""

    def __init__(self, watch: Watch | None = None) -> None:
        self.accepted: dict[str, Any] = {}
        self.attempts: Counter[str] = Counter()
        self.log: list[Attempt] = []
        self.violations: list[str] = []
        self.notes: dict[str, Any] = {}
        """Notes between a user and the steps, outside of everything durable."""
        self.happened: Counter[Happening] = Counter()
        self.allowed: dict[str, Allowed] = {}
        """What may have begun, by queue: as the tests say it, and not the code under test."""
        self._watch = watch
        self._parts: dict[str, Ledger] = {}

    def part(self, name: str) -> Ledger:
        """The same ledger with its own notes: those of one scenario, apart from other scenarios."""
        if name not in self._parts:
            part = self._parts[name] = copy(self)
            part.notes = {}
        return self._parts[name]

    def allow(self, queue: str, limit: int, limit_per_key: int | None = None) -> None:
        """Say how many executions of a queue may have begun and not have ended, from now on. Where it was less before,
        nothing is known of when more may.
        """
        known = self.allowed.setdefault(queue, Allowed(limit, limit_per_key))
        known.limit = max(known.limit, limit)
        known.limit_per_key = limit_per_key

    def effect(self, value: T, *, key: str | None = None) -> T:
        """Change the world from inside a step, under the step's idempotency key. Returns ``value``.

        A dead process changes nothing. A key that was accepted with another value is a violation: an effect was
        performed on the basis of a result that was not durable (G7).
        """
        name = self.attempt(key=key)
        if name is not None:
            if name in self.accepted and self.accepted[name] != value:
                self.violations.append(f"{name} took effect as {self.accepted[name]!r} and then as {value!r} (G7)")
            self.accepted.setdefault(name, value)
        return value

    def attempt(self, *, key: str | None = None) -> str | None:
        """Count an attempt without an effect. Returns its key, or ``None`` if the process is dead."""
        name = cast("StepInfo", current()).idempotency_key if key is None else key
        process: Any = current_scope.get()
        if process is not None and process.dead:
            return None
        self.attempts[name] += 1
        self.log.append(Attempt(asyncio.get_running_loop().time(), str(process), name))
        if self._watch is not None and process is not None:
            self._watch(name, str(process), excused=process.late)
        return name

    @property
    def processes(self) -> int:
        """How many processes have made an attempt."""
        return len({attempt.process for attempt in self.log})

    def attempts_of(self, step: str) -> int:
        """How often a step of this name was attempted, in all executions together."""
        return sum(count for key, count in self.attempts.items() if f"/{step}#" in key)
