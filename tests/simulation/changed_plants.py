"""Planted bugs of replay under changed code: each leaves out one rule of G13, in one place."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from msgspec.structs import replace

from holdfast.replay import activation, past
from holdfast.replay.backlog import Backlog
from holdfast.replay.earlier import EarlierCode
from holdfast.replay.entries import TIMER, Cancelled, Entry, Intended, Pending, Received, Replayed, Tried
from holdfast.workflows import versioning
from holdfast.workflows.execution import Execution


def learning(change: Any) -> AbstractContextManager[object]:
    """Let ``change`` decide what is learned of an entry of earlier code; of ``None`` nothing is."""
    learn = EarlierCode._learn

    def planted(earlier: EarlierCode, entry: Entry) -> None:
        if (changed := change(entry)) is not None:
            learn(earlier, changed)

    return mock.patch.object(EarlierCode, "_learn", planted)


def told_but(words: str) -> AbstractContextManager[object]:
    """A new call is refused for one reason less."""
    conflict = EarlierCode.conflict

    def planted(earlier: EarlierCode, op: str, fingerprint: str) -> str | None:
        told = conflict(earlier, op, fingerprint)
        return None if told is not None and words in told else told

    return mock.patch.object(EarlierCode, "conflict", planted)


def hasty_messages() -> AbstractContextManager[object]:
    """A message does not wait for what was recorded before it."""
    take = Backlog.take

    def planted(backlog: Backlog, requested: Any) -> Replayed | None:
        for position, entry in enumerate(backlog._entries):
            is_message = isinstance(entry, (Received, Cancelled))
            if is_message and not backlog.strict and not backlog._gone[position]:
                backlog._leave(position)
                return entry
        return take(backlog, requested)

    return mock.patch.object(Backlog, "take", planted)


def forgotten_steps() -> AbstractContextManager[object]:
    """What earlier code finished and this code does not ask for is passed over."""
    return mock.patch.object(EarlierCode, "unasked", return_value=[])


def moved_call_runs() -> AbstractContextManager[object]:
    """A call under another identity than the one that earlier code asked for runs."""
    return told_but("instead")


def renamed_step_runs() -> AbstractContextManager[object]:
    """A step runs under a new name although this code has no step of the old one."""
    return told_but("no step of that name")


def body_alone_is_the_version() -> AbstractContextManager[object]:
    """A version does not cover the functions that the body calls."""
    return mock.patch.object(versioning, "_called_functions", return_value=[])


def doubled_call_runs() -> AbstractContextManager[object]:
    """One more call with the arguments of a finished one runs, and nobody knows which is which."""
    return told_but("once more")


def one_more_signal() -> AbstractContextManager[object]:
    """A wait that was inserted takes the signal of the next one."""
    return mock.patch.object(EarlierCode, "conflicting_signal", return_value=None)


def forgotten_pending() -> AbstractContextManager[object]:
    """What earlier code waited for last counts for nothing: not for a patch either."""
    return learning(lambda entry: None if isinstance(entry, Pending) else entry)


def unnoted_suspension() -> AbstractContextManager[object]:
    """What a body waits for is not noted when its execution is suspended."""
    return mock.patch.object(Execution, "_keep", return_value=None)


def early_patches() -> AbstractContextManager[object]:
    """A patch is on where earlier code waits already."""
    return mock.patch.object(past.Past, "is_behind", lambda body, *, live: live or body.is_over)


def tried_without_arguments() -> AbstractContextManager[object]:
    """A step that was tried is taken for one with any arguments."""

    def change(entry: Entry) -> Entry:
        match entry:
            case Tried():
                return replace(entry, fingerprint="")
            case Pending(operations=operations):
                return replace(entry, operations=dict.fromkeys(operations, ""))
            case _:
                return entry

    return learning(change)


def forgotten_tries() -> AbstractContextManager[object]:
    """A step that was tried, or is about to be, counts as never asked for."""
    return learning(lambda entry: None if isinstance(entry, (Tried, Intended, Pending)) else entry)


def timers_of_any_length() -> AbstractContextManager[object]:
    """A timer takes the firing of one of another length."""
    change = past._change

    def planted(entry: Any, request: Any) -> str | None:
        return None if entry.kind == request.kind == TIMER else change(entry, request)

    return mock.patch.object(past, "_change", planted)


def timers_of_any_kind() -> AbstractContextManager[object]:
    """A sleep takes the firing of a time-out, whatever its length."""
    return mock.patch.multiple(activation, timer_name=lambda _handle: "timer")


def outcomes_of_any_arguments() -> AbstractContextManager[object]:
    """A finished call is taken for one with any arguments."""
    return mock.patch.object(past, "_other_arguments", return_value=None)
