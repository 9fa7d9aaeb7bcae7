"""The findings of ``holdfast doctor`` about what executions wait for, as their heads tell it.

Many executions that retry one step with one error are a storm: what the step calls is down, or limits its callers.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.cli.checks.finding import EXAMPLES, OK, WARN, Finding, Group, show
from holdfast.clock import duration
from holdfast.workflows.diagnosis import SILENT_AFTER
from holdfast.workflows.record import workflow_of
from holdfast.workflows.view import meant_by
from holdfast.workflows.waits import SIGNAL, STEP, Wait, Waits

STORM: Final = 10
"""This number of executions that retry one step with one error has one cause."""

LONG_MS: Final = 60_000
"""A pause before the next attempt that is worth a word."""


class Retries(Struct):
    """The executions that retry one step with one error: how many, the first of them, and when one is tried next."""

    first: str
    next_ms: int
    count: int = 0


class Waiting(Struct):
    """What the unfinished executions of a home wait for: ``retries`` by workflow, step and error, steps that are
    ``silent``, and signals that came under a ``mistyped`` name.
    """

    now: int
    retries: dict[tuple[str, str, str], Retries] = {}
    silent: Group = msgspec.field(default_factory=Group)
    mistyped: Group = msgspec.field(default_factory=Group)

    def note(self, partition: str, waits: Waits | None, *, held: bool = True) -> None:
        """What one execution waits for. No step runs of one that no living process has."""
        if waits is None:
            return
        awaited = [wait.op for wait in waits.waits if wait.kind == SIGNAL]
        for name in waits.untaken:
            if (meant := meant_by(name, awaited)) is not None:
                self.mistyped.note(show(partition), f"it waits for signal {meant}, and {name} came")
        for wait in waits.waits:
            if wait.kind == STEP and (held or not wait.began):
                self._note_step(partition, wait)

    def _note_step(self, partition: str, wait: Wait) -> None:
        step = wait.op.rpartition("/")[2].partition("#")[0]
        if wait.began:
            silent_ms = self.now - max(wait.began, wait.beat)
            if silent_ms > SILENT_AFTER.total_seconds() * 1000:
                self.silent.note(show(partition), f"step {step} has told nothing for {duration(silent_ms)}")
        elif wait.error and wait.until:
            group = self.retries.setdefault((workflow_of(partition), step, wait.error), Retries(partition, wait.until))
            group.count += 1
            group.next_ms = min(group.next_ms, wait.until)

    def findings(self) -> list[Finding]:
        """Retries, steps that may hang, and signals that may be mistyped."""
        return [self._check_retries(), self._check_silent(), self._check_signals()]

    def _check_retries(self) -> Finding:
        if not self.retries:
            return Finding(OK, "retries", "no step waits for its next attempt")
        groups = sorted(self.retries.items(), key=lambda each: -each[1].count)
        count = sum(group.count for group in self.retries.values())
        told = tuple(_told(*group, self.now) for group in groups[:EXAMPLES])
        storm = groups[0][1].count >= STORM
        far = any(each.next_ms > self.now + LONG_MS for each in self.retries.values())
        what = f"{count:,} executions wait for the next attempt of a step"
        if storm:
            what = f"{what}, {groups[0][1].count:,} of them after one error: repair what the step calls, or pause them"
        return Finding(WARN if storm or far else OK, "retries", what, told)

    def _check_silent(self) -> Finding:
        if not self.silent.count:
            return Finding(OK, "silent", "no step runs for long without a heartbeat")
        told = (
            f"{self.silent.count:,} steps run for long without a heartbeat, or hang: give each a timeout= or heartbeat="
        )
        return Finding(OK, "silent", told, self.silent.told())

    def _check_signals(self) -> Finding:
        if not self.mistyped.count:
            return Finding(OK, "signals", "no signal came under a name that looks mistyped")
        told = f"{self.mistyped.count:,} signals came under a name that looks mistyped: send each under the right one"
        return Finding(WARN, "signals", told, self.mistyped.told())


def _told(key: tuple[str, str, str], group: Retries, now: int) -> str:
    _, step, error = key
    ahead = f"in {duration(group.next_ms - now)}" if group.next_ms > now else "now"
    return f"{show(group.first)}: {group.count:,} × step {step}, {error}; the next attempt {ahead}"
