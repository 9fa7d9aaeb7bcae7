"""What earlier code asked for, and whether the code that replays it now still fits (G13).

Replay cannot know why code changed. So it goes on only where nothing can go wrong, and says what it needs to know where
something could: an operation that finished, or is under way, is never run again under another identity, and its value
never handed to another call.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from holdfast.replay.entries import TIMER, Done, Entry, Failed, Intended, Pending, Tried

SIGNAL_PREFIX: Final = "signal:"
"""Before the name of a signal: the operation that waits for one."""


def name_of(op: str) -> str:
    """The bare name in an operation's identity: ``charge`` of ``ship#1/charge#0``."""
    return op.rpartition("/")[2].rpartition("#")[0] or op


class EarlierCode:
    """The operations and waits that other code has asked for, and which of them this code has not asked for yet."""

    __slots__ = (
        "_by_name",
        "_fingerprints",
        "_gone",
        "_removed",
        "_signals",
        "_steps",
        "_unasked",
        "_waits",
        "_waits_left",
        "known",
    )

    def __init__(self, recorded: Sequence[Entry], *, known: bool, steps: Container[str] | None = None) -> None:
        self.known = known
        """Whether what earlier code waited for last is recorded: if its process died at once, it is not."""
        self._fingerprints: dict[str, str] = {}
        self._waits: set[str] = set()
        self._steps: set[str] = set()
        for entry in recorded:
            self._learn(entry)
        self._unasked = set(self._fingerprints)
        self._waits_left = set(self._waits)
        self._by_name: dict[str, list[str]] = {}
        for op in self._fingerprints:
            self._by_name.setdefault(name_of(op), []).append(op)
        self._signals: dict[str, int] = {}
        for wait in self._waits:
            if _is_signal(wait):
                self._signals[name_of(wait)] = self._signals.get(name_of(wait), 0) + 1
        self._removed: set[str] = set()
        self._gone: set[str] = set() if steps is None else {op for op in self._steps if step_name_of(op) not in steps}

    def _learn(self, entry: Entry) -> None:
        match entry:
            case Done(op=op, kind=kind) | Failed(op=op, kind=kind) if kind == TIMER:
                self._waits.add(op)
            case Done(op=op, fingerprint=fingerprint) | Failed(op=op, fingerprint=fingerprint):
                self._fingerprints[op] = fingerprint
            case Tried(op=op, fingerprint=fingerprint) | Intended(op=op, fingerprint=fingerprint):
                self._fingerprints.setdefault(op, fingerprint)
            case Pending(operations=operations, waits=waits, others=others):
                self._steps.update(op for op in operations if op not in others)
                for op, fingerprint in operations.items():
                    self._fingerprints.setdefault(op, fingerprint)
                self._waits.update(waits)
            case _:
                pass

    # ── What this code asks for ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def passed(self) -> bool:
        """Whether earlier code had come further than this code has now."""
        return bool(self._unasked or self._waits_left)

    def knows(self, op: str) -> bool:
        """Whether earlier code asked for this too."""
        return op in self._fingerprints or op in self._waits

    def asks(self, op: str) -> None:
        """This code asks for an operation, or a wait, that earlier code asked for too."""
        self._unasked.discard(op)
        self._waits_left.discard(op)

    def fingerprint(self, op: str) -> str:
        """The digest of the arguments that earlier code gave to this operation; empty if it is not known."""
        return self._fingerprints.get(op, "")

    def conflict(self, op: str, name: str, fingerprint: str) -> str | None:
        """Why this code may not ask for an operation that earlier code has not asked for; ``None`` if it may.

        ``name`` is what it is called in the code, however it is identified.
        """
        if not self.passed:
            return None
        if gone := sorted(self._gone & self._unasked):
            return (
                f"earlier code finished or began {gone[0]}, this code has no step of that name, and asks for {op} now. "
                f"If that is the same step under another name, it would run again: keep the old name "
                f'(@app.step(name="{step_name_of(gone[0])}")), or declare hf.removed("{step_name_of(gone[0])}")'
            )
        same = self._by_name.get(name, ())
        path = op.rpartition("#")[0]
        for other in self._unasked:
            if "#" not in other and self._fingerprints[other] == fingerprint:  # named by the body itself
                return (
                    f"earlier code asked for {other!r}, and this code asks for {op} with the same arguments. If it is "
                    "the same call without that name, it would run again"
                )
        for other in same:
            if other in self._unasked:
                return (
                    f"earlier code asked for {other}, and this code asks for {op} instead. If it was moved, it would "
                    "run again"
                )
            if other.rpartition("#")[0] == path and self._fingerprints[other] == fingerprint:
                return (
                    f"this code calls {name!r} once more than earlier code did ({op}), with the arguments of "
                    f"{other}. Nobody can tell which of the calls is the new one"
                )
        return None

    def conflicting_signal(self, wait: str) -> str | None:
        """Why this code may not wait for a signal once more than earlier code did; ``None`` if it may."""
        name = name_of(wait)
        count = self._signals.get(name)
        if count is None:
            return None
        self._signals[name] = count - 1
        if count > 0 or not self.passed:
            return None
        return (
            f"this code waits for {name.removeprefix(SIGNAL_PREFIX)!r} once more than earlier code did, and would take "
            "a signal that was meant for the next wait"
        )

    # ── What it does not ask for ────────────────────────────────────────────────────────────────────────────────────

    def remove(self, names: Iterable[str]) -> None:
        """The code declares that it does without operations of these names."""
        self._removed.update(names)
        self._unasked = {op for op in self._unasked if not self.is_removed(op)}

    def is_removed(self, op: str) -> bool:
        """Whether the code does without this operation, as it says."""
        return op in self._removed or name_of(op) in self._removed

    def pass_over(self, waits: Iterable[str]) -> None:
        """These waits are over, and this code does without them."""
        self._waits_left.difference_update(waits)

    def unasked(self) -> list[str]:
        """The operations that this code has not asked for, and does not declare removed."""
        return sorted(self._unasked)


def step_name_of(op: str) -> str:
    """The name of the step behind an operation: that of its undo is the undone step's."""
    return name_of(op).removesuffix(".undo")


def _is_signal(wait: str) -> bool:
    return name_of(wait).startswith(SIGNAL_PREFIX)
