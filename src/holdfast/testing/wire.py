"""The connection of a process to its home, with the faults of a ``FaultPlan`` on it, and the process they happen to."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from holdfast.errors import StoreUnavailable
from holdfast.testing.faults import (
    AnyFault,
    CrashAfter,
    CrashBefore,
    Delay,
    DelayRead,
    FailBefore,
    FailRead,
    FaultCounts,
    FaultPlan,
    LoseAnswer,
    PauseAfter,
    PauseBefore,
    TearPage,
)
from holdfast.testing.virtual_time import Timeline, outside

T = TypeVar("T")


class Victim(Protocol):
    """The process to which a home belongs."""

    @property
    def context(self) -> contextvars.Context:
        """The context in which its callbacks run."""
        ...

    @property
    def dead(self) -> bool:
        """Whether it has crashed."""
        ...

    def when_awake(self, action: Callable[[], object]) -> None:
        """Do it now; or when the process is resumed, if it is stopped; or never, if it is dead."""
        ...

    def crash(self) -> None:
        """Die at once."""
        ...

    def pause(self) -> None:
        """Stop, as by SIGSTOP."""
        ...


class Sturdy:
    """A process without faults, for faults of the store alone."""

    dead = False

    def __init__(self) -> None:
        self.context = contextvars.copy_context()

    def when_awake(self, action: Callable[[], object]) -> None:
        action()

    def crash(self) -> None:
        raise AssertionError("only a simulated Process can crash")

    def pause(self) -> None:
        raise AssertionError("only a simulated Process can be paused")


class Wire:
    """The connection of one process to its store: counts its writes, and applies the plan's faults to them.

    Events beyond the process (a write under way, an answer coming back) run in an empty context, so that they continue
    when the process is stopped or dies.
    """

    def __init__(self, plan: FaultPlan, counts: FaultCounts, victim: Victim, timeline: Timeline | None = None) -> None:
        self.plan = plan
        self.counts = counts
        self.victim = victim
        self.timeline = timeline
        self.writes = 0

    def tell(self, what: str) -> None:
        """Report an event of the process to the timeline."""
        if self.timeline is not None:
            self.timeline(str(self.victim), what)

    def suffer(self, fault: AnyFault) -> None:
        """A fault happens to it."""
        self.counts.note(fault)
        self.tell(f"suffers {fault}")

    def send(self, call: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        """Send one write and return the future of its answer."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.victim.when_awake(lambda: self._leave(call, answer))
        return answer

    def _leave(self, call: Callable[[], Awaitable[T]], answer: asyncio.Future[T]) -> None:
        self.writes += 1
        fault = self.plan.on_write(self.writes)
        if fault is not None:
            self.suffer(fault)
        victim = self.victim
        match fault:
            case None:
                self._apply(call, lambda done: pass_on(done, answer))
            case FailBefore():
                self._later(0, lambda: _fail(answer))
            case LoseAnswer():
                self._apply(call, lambda done: _lose(done, answer))
            case Delay(before, after):
                self._later(before, lambda: self._apply(call, lambda done: self._answer_later(after, done, answer)))
            case CrashBefore():
                victim.crash()
            case PauseBefore():
                victim.pause()
                victim.when_awake(lambda: self._apply(call, lambda done: pass_on(done, answer)))
            case CrashAfter():
                # Stopped while its last write is under way, so that it does nothing more before it dies.
                victim.pause()
                self._apply(call, lambda done: _ignore(done, victim.crash))
            case PauseAfter():
                victim.pause()
                self._apply(call, lambda done: pass_on(done, answer))

    def _apply(self, call: Callable[[], Awaitable[T]], applied: Callable[[asyncio.Future[T]], object]) -> None:
        future = outside().run(lambda: asyncio.ensure_future(call()))
        future.add_done_callback(applied, context=outside())

    def _answer_later(self, seconds: float, done: asyncio.Future[T], answer: asyncio.Future[T]) -> None:
        _ignore(done, lambda: self._later(seconds, lambda: pass_on(done, answer)))

    def _later(self, seconds: float, action: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(seconds, action, context=outside())

    async def read(self, call: Callable[[], Coroutine[Any, Any, T]], torn: Callable[[T, T, int], T] | None = None) -> T:
        """Send one read and wait for its answer.

        ``torn`` makes the answer of a read that took a while from those at its beginning and at its end, by a seed.
        """
        loop = asyncio.get_running_loop()
        awake: asyncio.Future[None] = loop.create_future()
        self.victim.when_awake(lambda: awake.set_result(None))
        if not awake.done():
            await awake
        fault = self.plan.on_read()
        if isinstance(fault, TearPage) and torn is None:
            fault = DelayRead(fault.seconds)
        if fault is not None:
            self.suffer(fault)
        match fault:
            case TearPage(seconds, seed) if torn is not None:
                at_first = await call()
                await asyncio.sleep(seconds)
                return torn(at_first, await call(), seed)
            case FailRead():
                await asyncio.sleep(0)
                raise StoreUnavailable("the simulated store did not answer")
            case DelayRead(seconds):
                found = await call()
                await asyncio.sleep(seconds)
                return found
            case _:
                return await call()


def pass_on(done: asyncio.Future[T], answer: asyncio.Future[T]) -> None:
    """Answer what has come of a call, if its caller still waits."""
    if done.cancelled():
        return  # the run is over, and this write was still under way
    error = done.exception()
    if error is not None:
        _refuse(answer, error)
    elif not answer.done():  # else its caller went away
        answer.set_result(done.result())


def _ignore(done: asyncio.Future[Any], action: Callable[[], object]) -> None:
    if done.cancelled():
        return  # the run is over, and this write was still under way
    done.exception()  # retrieved, so that asyncio does not complain
    action()


def _lose(done: asyncio.Future[Any], answer: asyncio.Future[Any]) -> None:
    _ignore(done, lambda: _fail(answer))


def _fail(answer: asyncio.Future[Any]) -> None:
    _refuse(answer, StoreUnavailable("the simulated store did not say whether it applied the write"))


def _refuse(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # retrieved: if its process dies before it does so, asyncio must not complain
