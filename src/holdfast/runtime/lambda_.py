"""The runtime on AWS Lambda: a function receives an event, works until everything is idle, and holds no lease after.

Between two invocations an environment is frozen or gone. So nothing runs then and no lease is held; what is due later
is left to a later invocation. Loaded state stays in memory without a lease, and the next claim shows whether it is
still current.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec.structs import replace

from holdfast import ids
from holdfast.errors import StoreUnavailable, WaitTimeout
from holdfast.kernel.dispatch import Dispatcher
from holdfast.kernel.host import quiet
from holdfast.kernel.wakeups import Invocations
from holdfast.messaging.arrivals import take_from_bus
from holdfast.messaging.beginning import arm_schedules
from holdfast.metrics import MetricLines
from holdfast.ports import WakeUp
from holdfast.runtime.batches import Batch, batch_of, handle, take_wake_up
from holdfast.runtime.employing import Employs, employ
from holdfast.runtime.lambda_table import CleanUp, Order, Sweep, begin, finish
from holdfast.runtime.shapes import Changes, Direct, FromBus, Messages, Ordered, recognised

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.limits import Limits
    from holdfast.messaging.arrivals import IncomingEvent
    from holdfast.runtime.worker import Worker
    from holdfast.telemetry import Telemetry

MARGIN_SECONDS: Final = 5.0
"""An invocation starts nothing new this long before its end, and releases its leases; less if it is short."""

SMALLEST_SHARE: Final = 5
"""The margin is at most this fraction (1/n) of the time that the invocation has left."""

SHORTEST_SEND_SECONDS: Final = 1.0
"""The least time for sending the last wake-ups, if the invocation lasts that long."""

LONGEST_SECONDS: Final = 900.0
"""The longest possible invocation ("Lambda quotas", developer guide), assumed if there is no context."""

NAME_VARIABLE: Final = "AWS_LAMBDA_FUNCTION_NAME"
VERSION_VARIABLE: Final = "AWS_LAMBDA_FUNCTION_VERSION"
"""Environment variables that Lambda sets ("Using Lambda environment variables", developer guide)."""

CLEANS_FOR: Final = 3 / 4
"""The share of its time that an invocation reads on in a clean-up. In the rest it deletes what it has found."""

Doing = Callable[[], Awaitable[Any]]


class Taken(Protocol):
    """An event that a front answers."""

    waits: bool
    """Whether the answer waits for work. If so, this invocation does the work; else another one does."""

    async def answer(self) -> Any: ...

    def stop_waiting(self) -> None:
        """Answer now with the current status: time is up."""
        ...


class Front(Protocol):
    """Something that answers events of one kind, such as HTTP requests. ``take`` returns ``None`` for all others."""

    def take(self, event: Any) -> Taken | None: ...


class Context(Protocol):
    """What Holdfast uses of the context that Lambda passes."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int: ...


class Called(Employs, Protocol):
    """The app, as this runtime sees it. ``published`` is the version of its code that Lambda invokes."""

    published: str
    telemetry: Telemetry


class LambdaWorker:
    """The worker of an open app, in an environment that serves one invocation after another."""

    def __init__(
        self, worker: Worker, calls: Invocations, lines: MetricLines | None, close: Callable[[], Awaitable[None]]
    ) -> None:
        self.worker = worker
        self.host = worker.host
        self.calls = calls
        self.lines = lines
        self.close = close
        invoker = worker.host.home.invoker
        self.dispatcher = None if invoker is None else Dispatcher(worker.host, invoker)
        self.armed = False


async def worker_of(app: Called, limits: Limits | None = None) -> LambdaWorker:
    """Open the app, with a worker that does only what invocations ask for."""
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(
            employ(app, limits_of(limits or app.limits), lambda home: Invocations(home.invoker))
        )
        worker.begin()
        stack.push_async_callback(worker.stop)
        calls = worker.host.wakeups
        assert isinstance(calls, Invocations)
        return LambdaWorker(worker, calls, _lines_of(worker.host, stack), stack.pop_all().aclose)


def _lines_of(host: Host, stack: AsyncExitStack) -> MetricLines | None:
    """What writes the home's metrics into the function's log; ``None`` if the home has none."""
    metered = host.home.metered
    if metered is None:
        return None
    lines = MetricLines(lambda: metered, host.clock)
    host.telemetry.subscribe(lines)
    stack.callback(host.telemetry.unsubscribe, lines)
    return lines


class LambdaHandler:
    """What Lambda calls: ``handler = app.lambda_handler()``. It handles one invocation at a time, as Lambda does.

    The first invocation opens the app, on a loop of the handler's own. The app stays open.
    """

    def __init__(self, app: Called, front: Front | None = None, *, limits: Limits | None = None) -> None:
        self._app = app
        self._limits = limits
        self._front = front
        self._worker: LambdaWorker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seconds_left = LONGEST_SECONDS

    def __call__(self, event: Any, context: Context | None = None) -> Any:
        """Handle one event and return its answer. Raises ``InvalidInput`` for an event of an unknown shape."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self.invoke(event, context))

    def close(self) -> None:
        """Close the app and the loop. Lambda never does; tests do."""
        if self._loop is not None:
            self._loop.run_until_complete(self.aclose())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())  # connections that were closed end now
            self._loop.close()
            self._loop = None

    async def invoke(self, event: Any, context: Context | None = None) -> Any:
        """Handle one event on the running loop, which must be the same one every time. See ``__call__``."""
        left = LONGEST_SECONDS if context is None else context.get_remaining_time_in_millis() / 1000
        margin = min(MARGIN_SECONDS, left / SMALLEST_SHARE)
        self._seconds_left = left
        deadline = asyncio.get_running_loop().time() + left - margin
        if self._front is not None and (taken := self._front.take(event)) is not None:
            return await self._within(deadline, margin, partial(self._answer, taken), _too_late, taken.stop_waiting)
        work = recognised(event)
        match work:
            case Direct(command):
                own_id = ids.new_id() if context is None else context.aws_request_id
                late = _nothing if isinstance(command, Sweep) else _too_late
                return await self._within(deadline, margin, partial(self._perform, command, own_id, deadline), late)
            case FromBus(incoming):
                return await self._within(deadline, margin, partial(self._take_from_bus, incoming), _too_late)
            case batch:
                todo = batch_of(batch)
                return await self._within(deadline, margin, partial(self._handle, todo, batch), todo.answer)

    async def aclose(self) -> None:
        """Close the app, but not the loop."""
        if self._worker is not None:
            worker, self._worker = self._worker, None
            await worker.close()

    async def _within(
        self,
        deadline: float,
        margin: float,
        doing: Doing,
        late: Callable[[], Any],
        stop_waiting: Callable[[], None] | None = None,
    ) -> Any:
        """Do something and wait until all is idle. When time is up, stop the work in order and answer ``late()``."""
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(self._opened_for(doing))
        await asyncio.wait((task,), timeout=deadline - loop.time())
        if stop_waiting is not None:
            stop_waiting()
        worker = self._worker
        if not task.done() and worker is not None:
            await worker.host.drain(margin / 4)
            await asyncio.wait((task,), timeout=margin / 5)  # what waited for all work to be idle has its answer now
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=margin / 10)
        if self._worker is not None:
            with contextlib.suppress(TimeoutError):  # the sweep finds what the wake-ups were for; loans end
                # A short invocation has no second to spare: one that Lambda ends fails, and its process is lost.
                left = deadline + margin * 9 / 10 - loop.time()
                async with asyncio.timeout(min(max(margin / 4, SHORTEST_SEND_SECONDS), max(left, 0.0))):
                    await self._leave()
        if self._worker is not None and self._worker.lines is not None:
            self._worker.lines.flush()
        if task.done() and not task.cancelled():
            return task.result()
        return late()

    async def _leave(self) -> None:
        """Send the last wake-ups, and give back what others wait for."""
        runtime = self._app.runtime()
        invoker = runtime.home.invoker
        await asyncio.gather(runtime.kept.give_back(), *([] if invoker is None else [invoker.sent()]))

    async def _opened_for(self, doing: Doing) -> Any:
        if self._worker is None:
            self._worker = await worker_of(self._app, self._limits)
        host = self._worker.host
        host.draining, host.ends_at = False, host.clock.now_ms() + int(self._seconds_left * 1000)
        self._worker.calls.failures.clear()
        return await doing()

    async def _perform(self, order: Order, own_id: str, deadline: float) -> Any:
        worker = self._worker
        assert worker is not None
        match order:
            case Sweep(parts=parts):
                await self._sweep(worker)
                if parts and (divide := self._app.runtime().home.divide) is not None:
                    await divide(parts)
                return None
            case CleanUp():
                return await _clean(worker, deadline)
            case WakeUp():
                return await _wake(order, worker)
            case _:
                answer = await begin(order, own_id, self._app)
                await quiet(worker.host)
                return await finish(order, answer, self._app)

    async def _sweep(self, worker: LambdaWorker) -> None:
        if not worker.armed:
            await arm_schedules(self._app)
            worker.armed = True
        if worker.dispatcher is None:
            await worker.worker.sweeper.sweep(0, report=True)
        else:
            await worker.dispatcher.sweep()
        await quiet(worker.host)

    async def _answer(self, taken: Taken) -> Any:
        """A request that waits is answered once all work is idle. Any other is answered at once, and a wake-up leads to
        the rest: its client may not wait as long as a step takes.
        """
        worker = self._worker
        assert worker is not None
        if not taken.waits:
            with worker.worker.resting():
                return await taken.answer()
        answer = await taken.answer()
        await quiet(worker.host)
        return answer

    async def _take_from_bus(self, incoming: IncomingEvent) -> None:
        worker = self._worker
        assert worker is not None
        await take_from_bus(self._app, incoming)
        await quiet(worker.host)

    async def _handle(self, todo: Batch, work: Messages | Ordered | Changes) -> Any:
        worker = self._worker
        assert worker is not None
        await handle(todo, work, self._app, worker.host, worker.calls)
        return todo.answer()


def _too_late() -> None:
    raise WaitTimeout("the time of this invocation is up; what it began continues in another one")


def _nothing() -> None:
    """A sweep that was not finished is no failure, which Lambda would repeat: the next one goes on."""


async def _wake(wake_up: WakeUp, worker: LambdaWorker) -> None:
    take_wake_up(wake_up, worker.host, worker.calls)
    await quiet(worker.host)
    if wake_up.partition in worker.calls.failures:
        raise StoreUnavailable(f"a turn of {wake_up.partition} was not finished; send the wake-up again")


def published_version(environment: Mapping[str, str]) -> str:
    """The name of the published version that runs in this environment; empty outside Lambda and for ``$LATEST``.

    >>> published_version({"AWS_LAMBDA_FUNCTION_NAME": "shop-holdfast", "AWS_LAMBDA_FUNCTION_VERSION": "7"})
    'shop-holdfast:7'
    >>> published_version({"AWS_LAMBDA_FUNCTION_NAME": "shop-holdfast", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST"})
    ''
    """
    name, version = environment.get(NAME_VARIABLE, ""), environment.get(VERSION_VARIABLE, "")
    return f"{name}:{version}" if name and version.isdecimal() else ""


def limits_of(limits: Limits) -> Limits:
    """The limits of a process that is billed by the millisecond: an entity that waits releases its lease at once, and
    what is too much for one process is left to others.
    """
    running = min(limits.running, limits.called_running)
    return replace(limits, linger_seconds=0.0, near_seconds=0.0, running=running)


async def _clean(worker: LambdaWorker, deadline: float) -> None:
    """Clean the home up, if it needs that, for as long as there is time."""
    cleaner, now = worker.host.home.cleaner, asyncio.get_running_loop().time()
    if cleaner is not None:
        await cleaner.clean(now + CLEANS_FOR * (deadline - now))
