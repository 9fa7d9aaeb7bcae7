"""Traces, as the core knows them: a context that is carried along, and who is told of what became durable.

The context is a ``traceparent`` ("Trace Context", W3C Recommendation, section 3.2,
https://www.w3.org/TR/trace-context/#traceparent-header): version, trace id, parent id and flags. The core stores it and
passes it on, and never asks what it means. ``holdfast.otel`` makes spans, and is the only module that knows
OpenTelemetry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
LONGEST_CHARACTERS: Final = 512

_within: Final[ContextVar[str]] = ContextVar("holdfast_trace", default="")


def checked(traceparent: str) -> str:
    """A ``traceparent`` as version 00 writes it; empty for a damaged one, which counts as absent (section 4.3 there).

    A higher version may have more fields, which are left out ("Versioning of traceparent", section 3.2.4).

    >>> checked("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    >>> checked("00-00000000000000000000000000000000-00f067aa0ba902b7-01"), checked("nonsense")
    ('', '')
    """
    if len(traceparent) > LONGEST_CHARACTERS:
        return ""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return ""
    version, trace, parent, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None) or not int(trace, 16) or not int(parent, 16):
        return ""
    return f"00-{trace}-{parent}-{flags}"


# ── The context of the code that runs ───────────────────────────────────────────────────────────────────────────────


class Hook:
    """How ``holdfast.otel`` tells the context of users' own spans."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: Callable[[], str] | None = None


hook: Final = Hook()
"""Empty until ``holdfast.otel.trace`` is called in this process."""


def here() -> str:
    """The ``traceparent`` in which this code runs: that of the span around it, else what came with what it handles."""
    if hook.current is not None and (found := hook.current()):
        return found
    return _within.get()


def ids_here() -> dict[str, str]:
    """``trace_id`` and ``span_id`` of the span around this code, in hexadecimal digits; empty if there is none."""
    if hook.current is None or not (found := hook.current()):
        return {}
    _, trace, span, _ = found.split("-")
    return {"trace_id": trace, "span_id": span}


@contextmanager
def within(traceparent: str) -> Generator[None]:
    """Run code in the context that came with what it handles. A damaged one is none."""
    before = _within.get()
    _within.set(checked(traceparent))
    try:
        yield
    finally:
        _within.set(before)  # no token: code that was left behind ends in another context


# ── Who is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Tracer(Protocol):
    """Makes spans of what became durable. It must not block. What it raises costs nothing but its spans."""

    def attempt(self, partition: str, record: Any, op: str, attempt: int, began: int) -> None:
        """An attempt of a step begins in this task: spans of the users' code nest below the attempt's."""
        ...

    def context(self, partition: str, record: Any) -> str:
        """The ``traceparent`` of what an execution sends and starts. Raises nothing."""
        ...

    def recorded(self, partition: str, record: Any, entries: Sequence[Any]) -> None:
        """These entries of the journal are durable now (G7). They never are again: a replay records nothing."""
        ...

    def ended(self, partition: str, record: Any, status: str) -> None:
        """The execution has ended so, durably."""
        ...

    def handling(self, handling: Any) -> AbstractContextManager[None]:
        """The context of users' code that handles a call of an actor: their spans nest below the attempt's. It raises
        nothing of its own.
        """
        ...

    def handled(self, handled: Any) -> None:
        """An attempt to handle a call of an actor is durable now (G7), or had nothing to write."""
        ...
