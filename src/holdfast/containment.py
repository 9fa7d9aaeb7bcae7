"""Containment of errors of users' code: they are outcomes of that code, and never end the process or a turn.

``SystemExit``, ``GeneratorExit``, a class derived from ``BaseException`` and an unrequested ``CancelledError`` are
raised by code like any other error, and ``except Exception`` misses all of them. What must pass is the end of the
process (``KeyboardInterrupt`` itself), a request from outside to cancel the running task, and the closing of a
coroutine that is thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, ParamSpec, TypeVar

from holdfast.errors import CallFailed

P = ParamSpec("P")
T = TypeVar("T")


class Escaped(CallFailed):
    """Users' code raised ``error``, which is not an ``Exception``. It is recorded as ``error``, and not tried again."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__module__}.{type(error).__qualname__}", str(error))
        self.error = error
        self.__cause__ = error


def origin_of(error: BaseException) -> BaseException:
    """The error that the code itself has raised."""
    return error.error if isinstance(error, Escaped) else error


def is_interrupt(error: BaseException) -> bool:
    """Whether the process is asked to end. A subclass of the user is an ordinary error."""
    return type(error) is KeyboardInterrupt


def contained_call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function``, a plain ``def`` of the user. Raises ``Escaped`` for an error that is neither an ``Exception``
    nor an interrupt.
    """
    try:
        return function(*args, **kwargs)
    except Exception:
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise Escaped(error) from error


def contained(code: Awaitable[T]) -> Awaitable[T]:
    """Await code of the user. Raises ``Escaped`` for an error that is neither an ``Exception``, nor an interrupt, nor
    requested from outside, where the running task is cancelled or thrown away.
    """
    return Run(code)


class Run(Generic[T]):
    """One run of awaited code: passes everything on, and knows what comes from the code and what from outside.
    ``requests`` to cancel the task were made inside, by the code or on its behalf, and end with it.
    """

    __slots__ = ("_code", "requests", "task")

    def __init__(self, code: Awaitable[T]) -> None:
        self._code = code
        self.requests = 0
        self.task: asyncio.Task[Any]

    def waits(self) -> None:
        """The code waits for the first time."""

    def ended(self, error: BaseException | None, *, asked: bool) -> BaseException | None:
        """The code has ended, with an error or without. ``asked``: that was requested from outside. Returns the error
        to raise.
        """
        return error if asked or error is None or isinstance(error, Exception) else Escaped(error)

    def over(self) -> None:
        """The run is over, however it has ended."""

    def __await__(self) -> Generator[Any, Any, T]:
        task = asyncio.current_task()
        assert task is not None, "users' code runs in tasks"
        self.task = task
        before, has_waited = task.cancelling(), False
        steps = self._code.__await__()
        result: Any = None
        sent: Any = None
        error: BaseException | None = None
        try:
            while True:
                inside = task.cancelling()
                try:
                    waits_for = steps.send(sent) if error is None else steps.throw(error)
                except StopIteration as end:
                    result, error = end.value, None
                    break
                except BaseException as raised:
                    error = raised
                    if is_interrupt(error):
                        raise
                    break
                finally:
                    if (made := task.cancelling() - inside) > 0:
                        self.requests += made
                if not has_waited:
                    has_waited = True
                    self.waits()
                try:
                    sent, error = (yield waits_for), None
                except GeneratorExit:
                    steps.close()
                    raise
                except BaseException as thrown:  # noqa: BLE001 - the code is to see all of it
                    sent, error = None, thrown
            if self.requests:
                yield from self._withdraw_requests(before)
            asked = isinstance(error, asyncio.CancelledError) and task.cancelling() > before
            if (told := self.ended(error, asked=asked)) is not None:
                raise told
            answer: T = result
            return answer
        finally:
            self.over()
            del error  # its traceback refers to this frame

    def _withdraw_requests(self, before: int) -> Generator[None]:
        """Withdraw the requests of the run. One that was not delivered yet arrives now, and ends here."""
        while self.requests:
            self.requests -= 1
            self.task.uncancel()
        try:
            yield
        except asyncio.CancelledError:
            if self.task.cancelling() > before:
                raise


def is_asked_for(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether ``error`` in ``task`` is an interrupt, or the task was cancelled or closed from outside."""
    match error:
        case KeyboardInterrupt():
            return is_interrupt(error)
        case asyncio.CancelledError():
            return task is not None and task.cancelling() > 0
        case GeneratorExit():
            return task is None or not _is_running(task)
        case _:
            return False


def _is_running(task: asyncio.Task[Any]) -> bool:
    """Whether ``task`` runs now. While its coroutine is closed, by a collector or with its loop, it does not."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # there is no loop any more
        return False
