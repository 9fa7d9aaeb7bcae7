"""pdb at a stop of a replay: the frames of the user's code in one branch of the body, and what they hold."""

from __future__ import annotations

import pdb  # noqa: T100 - it is what this is about
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

import click

from holdfast.cli.output import plain
from holdfast.cli.stops import Branch, Stop, StopHere

SKIPPED: Final = ("holdfast.*", "asyncio.*", "contextlib")
"""Modules in which ``step`` does not stop."""

CONTINUES: Final = -1
"""What bdb has for the line to stop at after ``continue``: none."""


class Debugger(pdb.Pdb):
    """pdb over frames that are suspended: they have no callers, so their stack is given. ``tasks`` lists the branches
    of the body, ``task N`` changes to one.
    """

    def __init__(self, branches: Sequence[Branch]) -> None:
        super().__init__(skip=SKIPPED, nosigint=True)
        self.prompt = "(holdfast) "
        self._branches = branches
        self._frames: Sequence[FrameType] = branches[0].frames

    def get_stack(self, f: Any, t: Any) -> Any:
        """See ``bdb``: the frames with their lines, and which is the current one."""
        if t is not None or f not in self._frames:
            return super().get_stack(f, t)
        stack = [(frame, frame.f_lineno) for frame in self._frames]
        return stack, self._frames.index(f)

    def look(self) -> None:
        """Interact at the innermost frame."""
        self.reset()
        self.interaction(self._frames[-1], None)

    @property
    def goes_on(self) -> bool:
        """Whether it was left to go on line by line."""
        stop: Any = self
        return not stop.quitting and stop.stoplineno != CONTINUES

    def trace_from(self, frame: FrameType) -> None:
        """Go on line by line from a frame that is running."""
        each: FrameType | None = frame
        while each is not None:
            each.f_trace = self.trace_dispatch
            each = each.f_back
        sys.settrace(self.trace_dispatch)

    def do_tasks(self, _arg: str) -> None:
        """List the branches of the body: what it has begun with gather, a task group or create_task."""
        for number, branch in enumerate(self._branches):
            frame = branch.frames[-1]
            here = ">" if branch.frames is self._frames else " "
            self.message(
                f"{here} {number}  {branch.name or 'the body'}  line {frame.f_lineno} of {frame.f_code.co_name}"
            )

    def do_task(self, arg: str) -> None:
        """Change to a branch of the body, by its number (see tasks)."""
        if not arg.isdecimal() or int(arg) >= len(self._branches):
            self.error(f"there is no task {arg!r}: tasks lists them")
            return
        self._frames = self._branches[int(arg)].frames
        setup: Any = self.setup
        setup(self._frames[-1], None)
        own: Any = self
        self.print_stack_entry(own.stack[own.curindex])


def debug_at(stop: Stop) -> None:
    """Let the user look around at a stop. Raises ``StopHere`` when that is over before the replay is."""
    click.echo(f"holdfast: {plain(stop.told)}. Nothing is written, no step runs; q quits.", err=True)
    if stop.unfit:
        click.echo(f"holdfast: the code does not fit: {plain(stop.unfit)}", err=True)
    if len(stop.branches) > 1:
        click.echo(f"holdfast: the body has {len(stop.branches)} branches: tasks lists them", err=True)
    if not stop.branches:
        return
    debugger = Debugger(stop.branches)
    debugger.look()
    if stop.before:
        if not debugger.goes_on:
            raise StopHere
        debugger.trace_from(stop.branches[0].frames[-1])
