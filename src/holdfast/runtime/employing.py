"""What an app offers to run its work in this process: for a block, for a runtime, or until it is told to stop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from holdfast.actors.model import Actors
from holdfast.duration import Duration, seconds
from holdfast.errors import InvalidState
from holdfast.flow.gates import check_queues
from holdfast.kernel.limits import Limits
from holdfast.messaging.beginning import arm_schedules, begin_messaging
from holdfast.messaging.publishing import Publishes
from holdfast.runtime.collecting import collected_after
from holdfast.runtime.loops import run_worker
from holdfast.runtime.worker import DEFAULT_GRACE_SECONDS, Worker, stop_requested
from holdfast.workflows import bodies
from holdfast.workflows.waiting_turn import begin_gates

if TYPE_CHECKING:
    from holdfast.kernel.model import Model
    from holdfast.kernel.wakeups import Wakeups
    from holdfast.ports import Home

T = TypeVar("T")


class Employs(Publishes, AbstractAsyncContextManager["Employs"], Protocol):
    """An app, as its worker's life sees it. ``employed`` is its worker, if it has one in this process."""

    employed: Worker | None

    @property
    def limits(self) -> Limits: ...


Employer = TypeVar("Employer", bound=Employs)


def worker(
    app: Employer, *, grace: Duration = DEFAULT_GRACE_SECONDS, limits: Limits | None = None
) -> AbstractAsyncContextManager[Employer]:
    """Open the app and work on its executions in this process until the block ends; within ``limits`` of its own,
    if it has some.
    """
    return _working(app, seconds(grace), limits or app.limits)


@asynccontextmanager
async def _working(app: Employer, grace_seconds: float, limits: Limits) -> AsyncGenerator[Employer]:
    with collected_after(limits.collect_after):
        async with employ(app, limits) as working:
            try:
                await working.start()
                await arm_schedules(app)
                check_queues(app.runtime())
                yield app
            finally:
                await working.stop(grace_seconds)


@asynccontextmanager
async def employ(
    app: Employs, limits: Limits, later: Callable[[Home], Wakeups] | None = None
) -> AsyncGenerator[Worker]:
    """Open the app with a worker that the caller starts and stops, as a runtime does. Use ``worker``."""
    async with app:
        if app.employed is not None:
            raise InvalidState(f"app {app.name!r} already has a worker in this process")
        bodies.load()
        publishes = any(step.policy.transactional for step in app.registry.steps.values())
        runtime = app.runtime()
        messaging = await begin_messaging(app, publishes=publishes)
        models: list[Model] = [Actors(runtime), *messaging, await begin_gates(runtime)]
        app.employed = Worker(runtime, models, limits, later and later(runtime.home))
        try:
            yield app.employed
        finally:
            app.employed = None


@overload
def run(app: Employs, main: Coroutine[Any, Any, T], /, *, grace: Duration = ...) -> T: ...
@overload
def run(app: Employs, main: None = None, /, *, grace: Duration = ...) -> None: ...
def run(
    app: Employs, main: Coroutine[Any, Any, T] | None = None, /, *, grace: Duration = DEFAULT_GRACE_SECONDS
) -> T | None:
    """Work until SIGTERM or Ctrl-C; or, given a coroutine, until that is done, and answer its result. On uvloop, if
    that is installed and ``HOLDFAST_LOOP`` is not ``asyncio``.

    Raises ``StoreUnusable`` if the home cannot be used any more: its file was deleted, say.
    """

    async def serve() -> T | None:
        async with worker(app, grace=grace):
            assert app.employed is not None
            return await app.employed.until(stop_requested() if main is None else main)

    try:
        return run_worker(serve())
    finally:
        if main is not None:
            main.close()  # if the home could not be opened, it has not begun
