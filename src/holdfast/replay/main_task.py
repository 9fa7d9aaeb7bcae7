"""The task of a workflow body: how it is run, asked to stop, and wound down when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sized
from contextvars import copy_context
from typing import Any, Final

from holdfast.replay.entries import Cancelled
from holdfast.replay.intrusion import in_our_words
from holdfast.replay.loop import DurableLoop
from holdfast.replay.places import Place, user_code_of, waiting_place
from holdfast.replay.requests import Outcome, Raised, Returned

CANCELLATIONS: Final = 100
"""So often a task that outlives its body, and waits for no operation, is cancelled before it is given up on."""


class MainTask:
    """The body's own task on its loop, and what it leaves behind. ``cancelled`` is the request to stop it has got."""

    __slots__ = ("_came_late", "_ending", "_held", "_is_asked", "_loop", "_task", "cancelled", "is_over")

    def __init__(self, loop: DurableLoop, body: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self._task = loop.start_task(body, path="", context=copy_context())
        self._ending = self._came_late = self._is_asked = False
        self.is_over = False
        """Whether the body has ended, and nothing that it has started is under way, or all that was given up on."""
        self._held: Cancelled | None = None
        self.cancelled: Cancelled | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the body has; what it leaves behind may still be under way."""
        return self._task.done()

    @property
    def place(self) -> str:
        """The line of the user's code at which the body waits, as ``file:line``."""
        return waiting_place(self._task.get_coro())

    @property
    def user_code(self) -> Place | None:
        """The code of the user's at which the body waits, and its line."""
        return user_code_of(self._task.get_coro())

    def run(self, requested: Sized) -> None:
        """Run until the body waits. Once it has ended, what it leaves behind is cancelled or closed, live as in replay.

        That comes once, because a clean-up may wait for operations too; and again for tasks that wait for no operation
        at all (a full queue, say, that is never emptied), since nothing else would ever end them.
        """
        self._loop.run_ready()
        self._is_asked = False
        if self._held is not None:
            self._deliver_held()
        if not self._task.done():
            return
        for _ in range(CANCELLATIONS):
            if self._ending and requested:
                self.is_over = not self._loop.live_tasks()  # else what they have asked for is waited for
                return
            if not self._wind_down():
                break
        self.is_over = True

    def _wind_down(self) -> bool:
        """Cancel the tasks that are left, and when none is, close the generators; false if there is nothing to do."""
        if self._loop.live_tasks():
            for task in self._loop.live_tasks() if self._ending else self._loop.leftover_tasks():
                task.cancel("the workflow body has ended")
        elif not self._loop.close_generators():
            return False
        self._ending = True
        self._loop.run_ready()
        return True

    def outcome(self) -> Outcome:
        """How the body ended that ``is_over``."""
        try:
            error = self._task.exception()  # not raised here: its traceback would hold the code that drives us
        except asyncio.CancelledError as cancelled:
            return Raised(cancelled)
        return Returned(self._task.result()) if error is None else Raised(in_our_words(error))

    def leave(self) -> None:
        """Leave memory: the frames of an error, which the task holds, may hold us (from Python 3.13 on they do)."""
        del self._task

    # ── Requests to stop ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def cancelled_late(self) -> bool:
        """Whether a request to stop came when the body had ended, or was cleaning up before it did: it never got it."""
        return self._came_late or self.holds_cancellation

    @property
    def holds_cancellation(self) -> bool:
        """Whether a request to stop waits for the clean-up of an earlier one: a body that survives that one gets it."""
        return self._held is not None

    @property
    def is_stopping(self) -> bool:
        """Whether a request to stop is on its way, or has ended the body: another one says nothing new then."""
        if self.has_ended:
            return self.cancelled is not None and self._task.cancelled()
        return self._is_asked or self.holds_cancellation

    def cancel(self, request: Cancelled) -> None:
        """Ask the body to stop; a time-out at once, anything else when it does not clean up."""
        if not request.timed_out and self._loop.cleans_up():
            self._held = request
        else:
            self._cancel(request)

    def _cancel(self, request: Cancelled) -> None:
        self.cancelled = request
        self._came_late, self._is_asked = self.has_ended, True
        self._loop.was_cancelled = True
        self._task.cancel(request.reason)

    def _deliver_held(self) -> None:
        """Ask the body to stop, as was held back, as soon as it waits for something that may be interrupted."""
        while self._held is not None and not (self.has_ended or self._loop.cleans_up()):
            held, self._held = self._held, None
            self._cancel(held)
            self._loop.run_ready()
