"""What a body waits for just now, seen by the process that has it in memory: no replay, and no code of the user's runs.

It is computed for a write that is made anyway, and is a view: whatever goes wrong here, the turn goes on.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.failure import in_one_line
from holdfast.replay.places import user_code_of
from holdfast.replay.requests import DueTimer, Operation, is_limit
from holdfast.replay.waiting import waits_for
from holdfast.secret import redacted_json
from holdfast.texts import masked, told_place
from holdfast.workflows.begin import Begin
from holdfast.workflows.operations.awaiting import AwaitExecution
from holdfast.workflows.operations.child import CallChild
from holdfast.workflows.operations.step import CallStep
from holdfast.workflows.record import MAILBOX_PREFIX, id_of
from holdfast.workflows.waits import (
    ACTOR,
    CALLBACK,
    CHILD,
    EXECUTION,
    MOST_UNTAKEN,
    MOST_WAITS,
    SEND,
    SIGNAL,
    STEP,
    TIMER,
    Wait,
    Waits,
)

if TYPE_CHECKING:
    from holdfast.replay.activation import Activation
    from holdfast.replay.requests import Request
    from holdfast.replay.tasks import DurableTask
    from holdfast.workflows.live import Live

_logger: Final = logging.getLogger("holdfast")

LONGEST_NAME_CHARACTERS: Final = 200
LONGEST_ERROR_CHARACTERS: Final = 200
LONGEST_ARGUMENTS_CHARACTERS: Final = 1_000
ROOM_FOR_ARGUMENTS_CHARACTERS: Final = 2_000
"""For those of all steps together: every other write to the head carries them along, or is paid for by its size."""

LONGEST_SEARCHED_CHARACTERS: Final = 4_000
LARGEST_SEARCHED_BYTES: Final = 64 * 1024
"""Larger arguments are not searched for secrets, and so not shown."""


def waits_of(activation: Activation, live: Live) -> Waits | None:
    """What the body waits for, and the signals that it has not taken; ``None`` if there is nothing to tell."""
    try:
        return _Look(activation, live).waits()
    except Exception:  # what is only shown must not fail a turn
        _logger.debug("what %s waits for is not known", live.partition, exc_info=True)
        return None


class _Look:
    """One look at a body: who of its tasks waits for what, and the time-outs of each."""

    __slots__ = ("_activation", "_limits", "_live", "_room", "_waiters")

    def __init__(self, activation: Activation, live: Live) -> None:
        self._activation = activation
        self._live = live
        self._room = ROOM_FOR_ARGUMENTS_CHARACTERS
        self._waiters: dict[int, DurableTask] = {
            id(waiter): task for task in activation.loop.live_tasks() if (waiter := waits_for(task)) is not None
        }
        self._limits: dict[str, int] = {}
        for each in activation.requested.values():
            if isinstance(each, DueTimer) and is_limit(each):
                path = each.id[: each.id.rfind("/") + 1]
                self._limits[path] = min(each.due_at, self._limits.get(path, each.due_at))

    def waits(self) -> Waits | None:
        activation = self._activation
        taking = activation.mailboxes.takers()
        asked = [each for each in activation.requested.values() if not is_limit(each)]
        if not (asked or taking):  # a callback of the user's, say
            asked = list(activation.requested.values())
        few = asked[:MOST_WAITS]
        told = [self._request(each) for each in few]
        told += [self._message(name, taker) for name, taker in taking[: MOST_WAITS - len(few)]]
        names = (name for name, _ in activation.mailboxes.unread() if not name.startswith(MAILBOX_PREFIX))
        untaken = tuple(name[:LONGEST_NAME_CHARACTERS] for name in list(dict.fromkeys(names))[:MOST_UNTAKEN])
        if not told and not untaken:
            return None
        return Waits(tuple(told), len(asked) + len(taking) - len(told), untaken)

    def _request(self, request: Request) -> Wait:
        if isinstance(request, DueTimer):
            return Wait(kind=TIMER, op=request.id, until=request.due_at, place=self._place(request.resolves))
        match request.command:
            case CallStep() as command:
                return self._step(command, request)
            case CallChild() as command:
                return self._other(CHILD, request, id_of(command.awaited(request, self._live)))
            case AwaitExecution(partition):
                return self._other(EXECUTION, request, id_of(partition))
            case Begin(due_at):
                return Wait(kind=TIMER, op=request.id, until=due_at)
            case command if request.kind == "call":
                return self._other(ACTOR, request, str(command.address.key))
            case _:
                return self._other(SEND, request, "")

    def _other(self, kind: str, operation: Operation, id: str) -> Wait:
        until, place = self._stands(operation)
        return Wait(kind=kind, op=operation.id, id=id, until=until, place=place)

    def _step(self, command: CallStep, operation: Operation) -> Wait:
        noted, now = self._live.notes_on(operation.id), self._live.now_ms()
        until, place = self._stands(operation)
        tried, pauses = noted.tried, noted.pauses(now)
        policy = command.step.policy
        waits = not pauses and not operation.began and bool(policy.limits)
        error = "" if tried is None else masked(in_one_line(tried.error)[:LONGEST_SEARCHED_CHARACTERS])
        return Wait(
            kind=STEP,
            op=operation.id,
            until=tried.again_at if tried is not None and pauses else until,
            place=place,
            attempt=noted.attempts + 1,
            most=policy.retry.max_attempts,
            began=0 if pauses else operation.began,
            beat=0 if pauses else operation.beat,
            error=error[:LONGEST_ERROR_CHARACTERS],
            arguments=self._arguments(command),
            limit=", ".join(use.limit.name for use in policy.limits)[:LONGEST_NAME_CHARACTERS] if waits else "",
        )

    def _arguments(self, command: CallStep) -> str:
        """As JSON. Secrets and tokens are taken out before it is cut off, since a part of one is not recognized."""
        if self._room <= 0:
            return ""
        data = command.step.signature.fingerprint_bytes(command.args, command.kwargs)
        if len(data) > LARGEST_SEARCHED_BYTES:
            return f"({len(data):,} bytes)"
        told = masked(redacted_json(data).decode())
        most = min(self._room, LONGEST_ARGUMENTS_CHARACTERS)
        told = told if len(told) <= most else f"{told[:most]}…"
        self._room -= len(told)
        return told

    def _message(self, name: str, taker: Any) -> Wait:
        until, place = self._stands(taker)
        if name.startswith(MAILBOX_PREFIX):
            return Wait(kind=CALLBACK, op=name.removeprefix(MAILBOX_PREFIX), until=until, place=place)
        return Wait(kind=SIGNAL, op=name[:LONGEST_NAME_CHARACTERS], until=until, place=place)

    def _stands(self, awaited: Any) -> tuple[int, str]:
        """When the task that awaits this gives up, and where it stands."""
        task = self._waiters.get(id(awaited))
        return 0 if task is None else self._limits.get(task.path, 0), self._place(awaited)

    def _place(self, awaited: Any) -> str:
        """The line at which a task awaits this, else that of the body: what watches over a callback is code of ours."""
        task = self._waiters.get(id(awaited))
        found = None if task is None else user_code_of(task.get_coro())
        found = found or self._activation.main.user_code
        return "" if found is None else _told(found[0].co_filename, found[1], found[0].co_name)


@lru_cache(maxsize=1_000)
def _told(file: str, line: int, function: str) -> str:
    return f"{told_place(file, line)} in {function}"[:LONGEST_NAME_CHARACTERS]
