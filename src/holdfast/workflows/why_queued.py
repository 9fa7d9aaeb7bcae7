"""Why an execution waits in a queue, said in words."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from holdfast.clock import between, duration
from holdfast.flow import standing
from holdfast.texts import shell_line
from holdfast.workflows.view import Trouble

if TYPE_CHECKING:
    from holdfast.flow.standing import QueueWait

_RULES: Final = {
    standing.PAUSED: "it is paused",
    standing.LIMIT: "its limit is reached",
    standing.LIMIT_PER_KEY: "the limit of its key is reached",
    standing.RATE: "its rate",
    standing.RATE_PER_KEY: "the rate of its key",
    standing.TURN: "its turn has not come",
}


def queued(wait: QueueWait | None, now: datetime) -> Trouble:
    """What an execution waits for in its queue."""
    decides = "A worker with the queue in its code decides that: without one, nothing of the queue begins."
    if wait is None:
        return Trouble(
            tone="info",
            title="it waits in the queue of its workflow",
            text=f"It begins when a slot and a token are free, and its turn among the keys has come. {decides}",
            commands=("pause", "cancel", "terminate"),
        )
    key = f" of key {wait.key}" if wait.key else ""
    until = "" if wait.until is None else f" {ahead_of(wait.until, now)}"
    because = {
        standing.PAUSED: "The queue is paused: nothing begins until it is resumed.",
        standing.LIMIT: f"All {wait.limit:,} slots are taken ({wait.held:,} have begun).",
        standing.LIMIT_PER_KEY: f"{wait.held_of_key:,}{key} have begun, and no more may.",
        standing.RATE: f"Its rate lets the next one begin{until}.",
        standing.RATE_PER_KEY: f"The rate of its key lets the next one begin{until}.",
        standing.TURN: f"Slots are free: its turn comes. {decides}",
    }
    before = f"{wait.ahead:,}{key} {'is' if wait.ahead == 1 else 'are'} before it, and {wait.waiting:,} wait in all."
    is_paused = standing.PAUSED in wait.held_by
    return Trouble(
        tone="warn" if is_paused else "info",
        title=f"it waits in queue {wait.queue}: {', '.join(_RULES[each] for each in wait.held_by)}",
        text=f"{' '.join(because[each] for each in wait.held_by)} {before}",
        commands=("pause", "cancel", "terminate"),
        line=shell_line("queue resume" if is_paused else "queue show", wait.queue),
    )


def ahead_of(until: datetime, now: datetime) -> str:
    """How far it is until then."""
    ms = between(now, until)
    return f"in {duration(ms)}" if ms > 0 else "now"
