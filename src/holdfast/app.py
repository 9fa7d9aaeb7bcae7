"""The app: what users register with and open. It composes everything below it and holds no logic of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast, overload

from holdfast.client import CallbackHandle, Selection, StatusPage, list_executions
from holdfast.clock import Clock, SystemClock
from holdfast.codec.parameters import INPUT_LIMIT_BYTES
from holdfast.duration import Duration, milliseconds, seconds
from holdfast.errors import ConfigurationError, InvalidState, IOOutsideStep
from holdfast.kernel.host import Limits
from holdfast.ports import Home, SqlCursor
from holdfast.retry import Retry
from holdfast.runtime.sync import SyncBridge
from holdfast.runtime.worker import DEFAULT_GRACE_SECONDS, Worker, stop_requested
from holdfast.telemetry import Telemetry
from holdfast.workflows.access import Access
from holdfast.workflows.definition import Step, StepPolicy, Workflow, WorkflowPolicy
from holdfast.workflows.handle import Handle
from holdfast.workflows.registry import Registry, check_name
from holdfast.workflows.scope import current_activation
from holdfast.workflows.versioning import VersionPolicy, policy_named

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

HOME_VARIABLE: Final = "HOLDFAST_URL"
LIMIT_BYTES: Final = INPUT_LIMIT_BYTES
"""The largest encoded input, result or message."""

OpenHome = Callable[[], Coroutine[Any, Any, Home]]


class App:
    """One application: its workflows and steps, and the home they live on.

    Making an app opens nothing. The home is ``home``, else the environment's ``HOLDFAST_URL``, else
    ``sqlite:///.holdfast/<name>.db`` below the current directory.

        async with app:             # a client: start, signal, look, wait
        async with app.worker():    # the same, and this process also works
        app.run()                   # a worker until SIGTERM or Ctrl-C
    """

    def __init__(
        self,
        name: str,
        *,
        home: str | OpenHome | None = None,
        limits: Limits | None = None,
        limit_bytes: int = LIMIT_BYTES,
        clock: Clock | None = None,
    ) -> None:
        check_name("app", name)
        self.name = name
        self.registry = Registry()
        self.telemetry = Telemetry()
        self._home = home
        self._limits = limits or Limits()
        self._limit_bytes = limit_bytes
        self._clock = clock or SystemClock()
        self._access: Access | None = None
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<App {self.name!r}>"

    # ── Registering ─────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def step(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def step(self, function: Callable[P, R], /) -> Step[P, R]: ...
    @overload
    def step(
        self,
        /,
        *,
        name: str | None = ...,
        retry: Retry | None = ...,
        timeout: Duration | None = ...,
        heartbeat: Duration | None = ...,
        at_most_once: bool = ...,
        raises: tuple[type[Exception], ...] = ...,
    ) -> StepDecorator: ...
    def step(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        heartbeat: Duration | None = None,
        at_most_once: bool = False,
        raises: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Declare a step: ``async def``, or ``def`` for blocking code, which gets a thread.

        Its result is recorded once and never computed again (G2). An attempt may be repeated if a process dies before
        the record: use ``hf.current().idempotency_key`` with the outside world, or ``at_most_once`` (G10).
        ``timeout`` limits an attempt, ``heartbeat`` the silence within one. ``raises`` lists the error classes that
        the body may catch by class; others arrive as ``StepFailed``. In every case await the call.
        """
        self._register_errors(raises)
        policy = StepPolicy(
            retry=retry or Retry(),
            timeout_seconds=None if timeout is None else seconds(timeout),
            heartbeat_seconds=None if heartbeat is None else seconds(heartbeat),
            at_most_once=at_most_once,
        )
        decorate = StepDecorator(self.registry, name, policy)
        return decorate if function is None else decorate(function)

    @overload
    def transaction(self, function: Callable[Concatenate[SqlCursor, P], R], /) -> Step[P, R]: ...
    @overload
    def transaction(
        self,
        /,
        *,
        name: str | None = ...,
        retry: Retry | None = ...,
        raises: tuple[type[Exception], ...] = ...,
    ) -> Callable[[Callable[Concatenate[SqlCursor, P], R]], Step[P, R]]: ...
    def transaction(
        self,
        function: Callable[Concatenate[SqlCursor, P], R] | None = None,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        raises: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Declare a step that runs the user's own SQL on the app's SQLite file, exactly once (G10).

        The function is a plain ``def``; its first parameter executes SQL. What it writes commits in the same
        transaction as the step's record, or not at all. Keep it short: it runs under the file's write lock. ``retry``
        and ``raises`` are as for ``step``.
        """
        self._register_errors(raises)
        policy = StepPolicy(retry=retry or Retry(), transactional=True)

        def decorate(function: Callable[Concatenate[SqlCursor, P], R]) -> Step[P, R]:
            plain = cast("Callable[P, R]", function)  # the cursor is given by the store, not by the caller
            step: Step[P, R] = Step(plain, name=name, policy=policy)
            self.registry.add_step(step)
            return step

        return decorate if function is None else decorate(function)

    def _register_errors(self, raises: tuple[type[Exception], ...]) -> None:
        given: Any = raises  # whatever its annotation says
        if not isinstance(given, tuple):
            raise ConfigurationError(f"raises is a tuple of error classes, such as (CardDeclined,), not {raises!r}")
        for error in raises:
            self.registry.errors.register(error)

    @overload
    def workflow(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def workflow(
        self,
        /,
        *,
        name: str | None = ...,
        version: str | None = ...,
        versions: VersionPolicy | str = ...,
        timeout: Duration | None = ...,
        retention: Duration | None = ...,
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Workflow[P, R]]: ...
    def workflow(
        self,
        function: Callable[P, Coroutine[Any, Any, R]] | None = None,
        /,
        *,
        name: str | None = None,
        version: str | None = None,
        versions: VersionPolicy | str = VersionPolicy.COMPATIBLE,
        timeout: Duration | None = None,
        retention: Duration | None = None,
    ) -> Any:
        """Declare a workflow: an ``async def`` of plain asyncio whose waits are durable.

        ``version`` names its code, else a digest of the body does. ``versions`` says whether other code may continue
        its executions (``compatible``) or not (``pinned``). ``timeout`` limits each execution, ``retention`` how long
        an ended one is kept (for ever by default).
        """
        policy = WorkflowPolicy(
            timeout_ms=None if timeout is None else milliseconds(timeout),
            versions=policy_named(versions),
            retention_ms=None if retention is None else milliseconds(retention),
        )

        def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Workflow[P, R]:
            workflow = Workflow(function, self.access, name=name, version=version, policy=policy)
            self.registry.add_workflow(workflow)
            return workflow

        return decorate if function is None else decorate(function)

    # ── Using ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, workflow: str, id: str) -> Handle[Any]:
        """A handle on an execution, by its workflow's name. Raises ``UnknownName``."""
        return self.registry.workflow(workflow).handle(id)

    def callback(self, token: str) -> CallbackHandle:
        """The outside of a callback: ``complete``, ``fail`` or ``heartbeat`` it."""
        return CallbackHandle(token, self.access)

    async def executions(
        self,
        workflow: str | None = None,
        *,
        status: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tags: dict[str, str] | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> StatusPage:
        """List executions, newest first, a page at a time."""
        selection = Selection(workflow=workflow, status=status, since=since, until=until, tags=tags or {})
        return await list_executions(self.access(), selection, after=after, limit=limit)

    def access(self) -> Access:
        """The open app. Raises ``ConfigurationError`` if it is not open, ``IOOutsideStep`` inside a workflow body."""
        if current_activation() is not None:
            raise IOOutsideStep(
                "the workflow body reached for the store: only starting, signalling, cancelling and awaiting other "
                "executions is recorded there; do everything else in a step"
            )
        if self._access is None:
            raise ConfigurationError(
                f"app {self.name!r} is not open. Use it inside 'async with app:' (a client) or "
                "'async with app.worker():' (a client that also works)"
            )
        return self._access

    # ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def home_url(self) -> str:
        """The URL of the home that opening uses; set it before opening to use another one."""
        if isinstance(self._home, str):
            return self._home
        if self._home is not None:
            return f"custom://{self.name}"
        return os.environ.get(HOME_VARIABLE) or f"sqlite:///.holdfast/{self.name}.db"

    @home_url.setter
    def home_url(self, url: str) -> None:
        if self._access is not None:
            raise InvalidState(f"app {self.name!r} is open on {self.home_url}; set another home before opening it")
        self._home = url

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._access is not None and self._loop is not loop:
            raise ConfigurationError(
                f"app {self.name!r} is open on another event loop. Use it there (a sync bridge's `run` does), or make "
                "a second App"
            )
        self._loop = loop
        async with self._opening:
            if self._access is None:
                home = await (self._home() if callable(self._home) else open_home(self.home_url))
                self._access = Access(home, self.registry, self._clock, self._limit_bytes)
                home.doorbell.listen(self._heard)
            self._users += 1
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._users -= 1
        if self._users == 0 and self._access is not None:
            home, self._access = self._access.home, None
            self._opening = asyncio.Lock()  # the next one to open it may be on another event loop
            try:
                await home.doorbell.close()
            finally:
                await home.store.close()

    def _heard(self, partition: str | None) -> None:
        access = self._access
        if access is None:
            return
        access.heard(partition)
        if self._worker is not None:
            self._worker.sweeper.heard(partition)

    _worker: Worker | None = None

    @asynccontextmanager
    async def worker(self, *, grace: Duration = DEFAULT_GRACE_SECONDS) -> AsyncGenerator[App]:
        """Open the app and work on its executions in this process until the block ends."""
        grace_seconds = seconds(grace)
        async with self:
            if self._worker is not None:
                raise InvalidState(f"app {self.name!r} already has a worker in this process")
            worker = self._worker = Worker(self.access(), self.telemetry, self._limits)
            try:
                await worker.start()
                yield self
            finally:
                try:
                    await worker.stop(grace_seconds)
                finally:
                    self._worker = None

    @overload
    def run(self, main: Coroutine[Any, Any, T], /, *, grace: Duration = ...) -> T: ...
    @overload
    def run(self, main: None = None, /, *, grace: Duration = ...) -> None: ...
    def run(
        self, main: Coroutine[Any, Any, T] | None = None, /, *, grace: Duration = DEFAULT_GRACE_SECONDS
    ) -> T | None:
        """Work until SIGTERM or Ctrl-C; or, given a coroutine, until that is done, and answer its result."""

        async def serve() -> T | None:
            async with self.worker(grace=grace):
                if main is not None:
                    return await main
                await stop_requested()
                return None

        try:
            return asyncio.run(serve())
        finally:
            if main is not None:
                main.close()  # if the home could not be opened, it has not begun

    def sync(self, *, worker: bool = False) -> SyncBridge:
        """The bridge for code that is not async: ``with app.sync() as run: run(checkout.start(order))``."""
        return SyncBridge(self, worker=worker)


class StepDecorator:
    """``@app.step(...)`` with options; keeps the signature of what it decorates."""

    def __init__(self, registry: Registry, name: str | None, policy: StepPolicy) -> None:
        self._registry = registry
        self._name = name
        self._policy = policy

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        step: Step[..., Any] = Step(function, name=self._name, policy=self._policy)
        self._registry.add_step(step)
        return step


async def open_home(url: str) -> Home:
    """Open the home that a URL names: ``sqlite:///path`` or ``memory://``."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from holdfast.backends.sqlite import open_sqlite_home  # noqa: PLC0415 - only the backend in use is loaded

        return await open_sqlite_home(Path(rest[1:]))
    if separator and scheme == "memory":
        from holdfast.backends.memory import open_memory_home  # noqa: PLC0415 - only the backend in use is loaded

        return open_memory_home(rest or None)
    raise ConfigurationError(
        f"{url!r} names no home. Write sqlite:///relative/path.db, sqlite:////absolute/path.db or memory://"
    )
