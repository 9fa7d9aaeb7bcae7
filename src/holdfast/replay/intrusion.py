"""What comes to a private loop from elsewhere: from a thread, the host's loop, or the loop of another body.

It comes at another moment on every replay, so the body gets ``IOOutsideStep`` instead, where it waits for it. Threads
only leave a note and wake the host: the body is not touched before its own turn.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.errors import IOOutsideStep
from holdfast.replay.places import place_of_error, running_place, waiting_place
from holdfast.replay.tasks import DurableFuture
from holdfast.replay.waiting import AnyFuture, waits_for, waits_for_in_the_end

_WORDS_OF_ASYNCIO: Final = (
    "attached to a different loop",
    "bound to a different event loop",
    "belongs to a different loop",
)
_WHAT_TO_DO: Final = (
    "The body is run again on every replay, and what comes from a thread or from another event loop comes at another "
    "moment each time: move what uses them into a function decorated with @app.step"
)


class Intrusion(Struct, frozen=True):
    """A callback that code from outside wanted to have run on a private loop. It never is."""

    called: str
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: contextvars.Context | None

    def futures(self, loop: asyncio.AbstractEventLoop) -> Sequence[AnyFuture]:
        """The futures of the body that the callback is about."""
        named = (getattr(self.callback, "__self__", None), *self.args)
        return [
            each
            for each in named
            if asyncio.isfuture(each) and not isinstance(each, asyncio.Task) and each.get_loop() is loop
        ]

    @property
    def error(self) -> IOOutsideStep:
        """What to tell a caller from elsewhere."""
        return IOOutsideStep(f"loop.{self.called} of a workflow body was called from outside of it. {_WHAT_TO_DO}")

    def refuse(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raise for the body that calls it itself; if it is about a future, where that is awaited."""
        error = IOOutsideStep(f"the workflow body called loop.{self.called} at {running_place()}. {_WHAT_TO_DO}")
        waiting = [future for future in self.futures(loop) if not future.done()]
        for future in waiting:
            fail(future, error)
        if not waiting:
            raise error

    def raise_in(self, tasks: Sequence[asyncio.Task[Any]], loop: Any) -> None:
        """Raise ``IOOutsideStep`` in the task that waits for what would come, or in the first of them."""
        futures = self.futures(loop)
        task = next((each for each in tasks if any(waits_for(each) is future for future in futures)), tasks[0])
        error = IOOutsideStep(
            f"the workflow body waits at {waiting_place(task.get_coro())} for something from outside, which called "
            f"loop.{self.called}. {_WHAT_TO_DO}"
        )
        waiting = [future for future in futures if not future.done()]
        if not waiting and self.called == "call_soon" and futures == list(self.args):
            loop.call_soon(self.callback, _failed(error, loop), context=self.context)
            return
        if not waiting and (last := waits_for_in_the_end(task)) is not None and not last.done():
            waiting = [last]
        for future in waiting:
            fail(future, error)


def _failed(error: Exception, loop: Any) -> AnyFuture:
    """What to hand to a callback in place of a future that was set from outside, so that it hears of the error."""
    future = DurableFuture(loop=loop)
    future.set_exception(error)
    future.exception()  # it counts as seen
    return future


def fail(future: AnyFuture, error: Exception) -> None:
    """Let the code that waits for a future get an error."""
    if isinstance(future, DurableFuture):
        future.fail(error)
    else:
        future.set_exception(error)


def in_our_words(error: BaseException) -> BaseException:
    """``IOOutsideStep`` for what asyncio says of a future, or a lock, of another loop; else the error itself."""
    if isinstance(error, RuntimeError | ValueError) and any(words in str(error) for words in _WORDS_OF_ASYNCIO):
        outside = IOOutsideStep(
            f"the workflow body waited at {place_of_error(error)} for what belongs to another event loop ({error}). "
            f"{_WHAT_TO_DO}"
        )
        outside.__cause__ = error
        return outside
    return error
