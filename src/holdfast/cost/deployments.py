"""Where the code of an app runs in a trial: in a function that a queue invokes, or in a worker that stays.

Both are on one home in memory with a meter. Clients are other processes, with homes of their own on the same data.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from msgspec.structs import replace

from holdfast.actors.reference import BoundMethod, method_named
from holdfast.app import App
from holdfast.backends.aws.bellringer import Bellringer
from holdfast.backends.aws.doorbell import LEFT_TO_SWEEPS_MS, Bells, LocalDoorbell, SqsDoorbell
from holdfast.backends.aws.settings import Settings
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.clock import Clock
from holdfast.cost.metering import MeteringStore, metered
from holdfast.cost.queue import Message, Requests, TrialQueue, event_of
from holdfast.kernel.limits import Limits
from holdfast.ports import Home
from holdfast.runtime.lambda_ import LambdaHandler

TIMEOUT_SECONDS: Final = 60.0
SWEEP_SECONDS: Final = 60.0
"""As the template sets them."""

NONE: Final = Requests()


class Shared:
    """The data of a trial, and the meter of all its processes."""

    def __init__(self, inline_bytes: int | None, settings: Settings, clock: Clock) -> None:
        self._data = MemoryData()
        home = open_memory_home(data=self._data)
        self._home, self.store = metered(home, inline_bytes=inline_bytes, settings=settings, now=clock.now_ms)

    def open(self, owner: str) -> Home:
        """The home of one more process."""
        home = open_memory_home(data=self._data, owner=owner)
        return replace(self._home, owner=owner, doorbell=home.doorbell, store=self.store.beside(home.store))


class Deployment(Protocol):
    """An app in a trial. ``client`` is the home of a process that only starts and sends."""

    store: MeteringStore
    invocations: int

    @property
    def requests(self) -> Requests:
        """Requests to the queue, without those of sweeps."""
        ...

    @property
    def swept(self) -> Requests:
        """Requests to the queue for the wake-ups of sweeps."""
        ...

    async def open_client(self) -> Home:
        """The home of a process elsewhere that does no work."""
        ...

    async def call(self, bound: BoundMethod, args: bytes) -> None:
        """Call a method of an actor with encoded arguments, and wait for its reply: in a function by an invocation of
        its own, in a worker by code that runs there.
        """
        ...

    def reset(self) -> None:
        """Reset all counters."""
        ...


class InFunction:
    """One environment of a function of Lambda: the queue and the sweep invoke it, and nothing runs in between."""

    def __init__(self, app: App, inline_bytes: int | None, limits: Limits | None, settings: Settings) -> None:
        self._shared = Shared(inline_bytes, settings, app.clock)
        self._clock = app.clock
        self._limits = limits
        self._queue = TrialQueue()
        self._numbers = itertools.count()
        self._handler: LambdaHandler | None = None
        self._busy = asyncio.Lock()
        self.store = self._shared.store
        self.invocations = 0

    @property
    def requests(self) -> Requests:
        """See ``Deployment``."""
        return self._queue.requests

    @property
    def swept(self) -> Requests:
        """See ``Deployment``."""
        return self._queue.swept

    async def open_client(self) -> Home:
        """See ``Deployment``."""
        owner = f"trial-{next(self._numbers)}"
        ringer = Bellringer(self._queue.connect(), lambda _partition: "doorbell")
        doorbell = SqsDoorbell(Bells(), owner, ringer, self._clock, _untold)
        return replace(self._shared.open(owner), doorbell=doorbell, invoker=doorbell)

    async def call(self, bound: BoundMethod, args: bytes) -> None:
        """See ``Deployment``."""
        self.invocations += 1
        to, method = bound.reference, bound.method.name
        named = {"actor": to.kind.name, "key": to.key, "method": method, "args": json.loads(args)}
        await self._invoke({"holdfast": "call", **named})

    def reset(self) -> None:
        """See ``Deployment``."""
        self.store.reset()
        self._queue.reset()
        self.invocations = 0

    async def _deliver(self, batch: Sequence[Message]) -> Sequence[str]:
        self.invocations += 1
        answer = await self._invoke(event_of(batch))
        return [each["itemIdentifier"] for each in answer["batchItemFailures"]]

    async def _invoke(self, event: dict[str, Any]) -> Any:
        assert self._handler is not None
        async with self._busy:
            return await self._handler.invoke(event, _Context(f"request-{next(self._numbers)}"))

    async def sweep(self) -> None:
        """See what is due, as the sweep of every minute does. It is no invocation of the work."""
        assert self._handler is not None
        async with self._busy:
            self._queue.sweeping = True
            await self._handler.invoke({"holdfast": "sweep"}, _Context(f"request-{next(self._numbers)}"))
            self._queue.sweeping = False

    async def _sweep_again(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            if self.store.is_due(self._clock.now_ms() + LEFT_TO_SWEEPS_MS):  # others find nothing, and are many
                await self.sweep()

    @asynccontextmanager
    async def opened(self, app: App) -> AsyncGenerator[None]:
        """Deploy the app, until the block ends."""
        app.home_url = self.open_client
        self._handler = LambdaHandler(app, limits=self._limits)
        async with app:
            try:
                await self.sweep()
                async with asyncio.TaskGroup() as group:
                    sweeps = group.create_task(self._sweep_again())
                    deliveries = group.create_task(self._queue.deliver(self._deliver))
                    yield
                    sweeps.cancel()
                    deliveries.cancel()
            except BaseExceptionGroup as failed:
                raise failed.exceptions[0] from None  # what the block has raised, if it has
            finally:
                await self._handler.aclose()


class InWorker:
    """A worker that stays. Clients wake it at once; between hosts its next sweep would find what they wrote."""

    def __init__(self, app: App, inline_bytes: int | None, limits: Limits | None, settings: Settings) -> None:
        self._shared = Shared(inline_bytes, settings, app.clock)
        self._bells = Bells()
        self._limits = limits
        self._app = app
        self._numbers = itertools.count()
        self.store = self._shared.store
        self.invocations = 0

    @property
    def requests(self) -> Requests:
        """See ``Deployment``: there is no queue."""
        return NONE

    @property
    def swept(self) -> Requests:
        """See ``Deployment``."""
        return NONE

    async def open_client(self) -> Home:
        """See ``Deployment``."""
        owner = f"trial-{next(self._numbers)}"
        return replace(self._shared.open(owner), doorbell=LocalDoorbell(self._bells, owner))

    async def call(self, bound: BoundMethod, args: bytes) -> None:
        """See ``Deployment``."""
        to, method = bound.reference, bound.method
        own = method_named(self._app.registry.actors[to.kind.name], to.key, method.name)
        given, named = method.signature.unbind(args)
        await own(*given, **named)

    def reset(self) -> None:
        """See ``Deployment``."""
        self.store.reset()

    @asynccontextmanager
    async def opened(self, app: App) -> AsyncGenerator[None]:
        """Run the worker, until the block ends."""
        app.home_url = self.open_client
        async with app.worker(limits=self._limits):
            yield


class _Context:
    """The context of an invocation, as far as it is used."""

    def __init__(self, request_id: str) -> None:
        self.aws_request_id = request_id
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + TIMEOUT_SECONDS

    def get_remaining_time_in_millis(self) -> int:
        """How much time is left."""
        return max(0, int((self._until - self._loop.time()) * 1000))


def _untold(event: str, **fields: object) -> None:
    """Nothing goes wrong in a trial's queue."""
