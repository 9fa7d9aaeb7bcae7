"""The app: what users register with and open. It composes everything below it and holds no logic of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from holdfast.clock import Clock, SystemClock
from holdfast.codec.parameters import INPUT_LIMIT_BYTES
from holdfast.deferred import LazyModule, MethodsOf, made_when_used
from holdfast.errors import ConfigurationError, InvalidState, IOOutsideStep
from holdfast.hints import Hint, News
from holdfast.kernel.limits import Limits
from holdfast.keys import check_name
from holdfast.patterns.injection import Resources
from holdfast.registrations import Registrations
from holdfast.telemetry import Telemetry
from holdfast.workflows import declarations as workflows
from holdfast.workflows.scope import current_activation

if TYPE_CHECKING:
    from holdfast import executions as looking
    from holdfast import opening
    from holdfast.asl import declarations as machines
    from holdfast.coordination.sealing import SealedOnly, envelope
    from holdfast.flow import declarations as queues
    from holdfast.flow import limits as limited
    from holdfast.http import serving
    from holdfast.kernel.runtime import Runtime
    from holdfast.messaging import declarations as messages
    from holdfast.messaging import publishing
    from holdfast.opening import OpenHome, OpenShared
    from holdfast.patterns import blobs as shelf
    from holdfast.patterns import idempotency as keys
    from holdfast.patterns import records, sharing
    from holdfast.patterns.starts import declarations as starts
    from holdfast.ports import Seal
    from holdfast.runtime import employing, prometheus, sync
    from holdfast.runtime.worker import Worker
else:
    opening, envelope = (
        LazyModule("holdfast.opening", globals()),
        LazyModule("holdfast.coordination.sealing.envelope", globals()),
    )
    looking = MethodsOf("holdfast.executions")
    machines = MethodsOf("holdfast.asl.declarations")
    queues, limited = MethodsOf("holdfast.flow.declarations"), MethodsOf("holdfast.flow.limits")
    serving = MethodsOf("holdfast.http.serving")
    messages = MethodsOf("holdfast.messaging.declarations")
    publishing = MethodsOf("holdfast.messaging.publishing")
    patterns = ("blobs", "idempotency", "records", "sharing", "starts.declarations")
    shelf, keys, records, sharing, starts = (MethodsOf(f"holdfast.patterns.{name}") for name in patterns)
    running = ("employing", "prometheus", "sync")
    employing, prometheus, sync = (MethodsOf(f"holdfast.runtime.{name}") for name in running)

F = TypeVar("F", bound=Callable[..., Any])

HOME_VARIABLE: Final = "HOLDFAST_URL"
LIMIT_BYTES: Final = INPUT_LIMIT_BYTES
"""The largest encoded input, result or message."""


class App:
    """One application: its workflows and steps, and the home they live on.

    Making an app opens nothing. The home is ``home``, else the environment's ``HOLDFAST_URL``, else
    ``sqlite:///.holdfast/<name>.db`` below the current directory. Caches are shared through the Redis that ``cache``
    names, else ``HOLDFAST_CACHE_URL``; without one each process has its own. It need not answer, now or ever.
    ``parts`` are other apps: what they declare is this app's too, and they are open whenever it is, on its home.

        async with app:             # a client: start, signal, look, wait
        async with app.worker():    # the same, and this process also works
        app.run()                   # a worker until SIGTERM or Ctrl-C
    """

    # ── What users call ─────────────────────────────────────────────────────────────────────────────────────────────

    step, transaction, workflow = workflows.step, workflows.transaction, workflows.workflow
    consumer, cron, to_bus, from_bus = messages.consumer, messages.cron, messages.to_bus, messages.from_bus
    publish, transact, unsubscribe = messages.publish, messages.transact, messages.unsubscribe
    idempotent, idempotency = keys.idempotent, keys.idempotency
    documents, document, streams, stream = records.documents, records.document, records.streams, records.stream
    atomic, atomically, projection = records.atomic, records.atomically, records.projection
    lease, semaphore, with_lease, leader = sharing.lease, sharing.semaphore, sharing.with_lease, sharing.leader
    cache, session, resource = sharing.cache, sharing.session, sharing.resource
    debounce, collect, single, throttle = starts.debounce, starts.collect, starts.single, starts.throttle
    handle, callback, executions, select = looking.handle, looking.callback, looking.executions, looking.select
    actor, list_actors, parked = looking.actor, looking.actors, looking.parked
    state_machine, state_machines = machines.state_machine, machines.state_machines
    queue, limit, prometheus = queues.queue, limited.limit, prometheus.prometheus
    sync, asgi, lambda_handler = sync.sync, serving.asgi, serving.lambda_handler
    run, worker = employing.run, employing.worker

    outbox = made_when_used(
        publishing.outbox_of,
        "Publishes events in the transaction of your own SQL, and lists those that wait to be sent.",
    )
    blobs = made_when_used(shelf.shelf_of, "Stores bytes that are too large for a value, and names them.")

    def __init__(
        self,
        name: str,
        *,
        home: str | OpenHome | None = None,
        cache: str | OpenShared | None = None,
        limits: Limits | None = None,
        limit_bytes: int = LIMIT_BYTES,
        clock: Clock | None = None,
        seal: Seal | SealedOnly | None = None,
        parts: Sequence[App] = (),
    ) -> None:
        check_name("app", name)
        self.name = name
        self.registry = Registrations(name)
        self.resources = Resources()
        self.telemetry = Telemetry()
        """Counts the events of this process, and tells them to subscribers."""
        self.published = ""
        self.employed: Worker | None = None
        """Its worker, if it has one in this process."""
        self._home = home
        self._cache = cache
        self._limits = limits or Limits()
        self._limit_bytes = limit_bytes
        self._clock = clock or SystemClock()
        self._seal = seal
        self.envelope = None if seal is None else envelope.envelope_for(seal)
        self._runtime: Runtime | None = None
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._whole: App | None = None
        self._has_parts = bool(parts)
        for part in parts:
            self._take_in(part)

    def __repr__(self) -> str:
        return f"<App {self.name!r}>"

    # ── Registering ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_in(self, part: App) -> None:
        if part._runtime is not None or part._whole is not None or part._has_parts:
            raise InvalidState(f"app {part.name!r} is open, or has parts or is one: it cannot be part of {self.name!r}")
        if part._seal is not None and part._seal is not self._seal:
            raise ConfigurationError(
                f"app {part.name!r} has a seal, and {self.name!r}, whose home it would use, not the same one: what it "
                "keeps would be there for everybody to read. Give the whole this seal"
            )
        self.registry.merge(part.registry)
        part.registry, part._whole = self.registry, self  # what it declares later is ours too
        vars(part).pop("outbox", None)  # it may have made one of its own

    def inject(self, function: F) -> F:
        """Give resources to a function: parameters annotated with a resource's type are no longer its caller's.

        Not needed for what the app declares itself: steps, consumers, handlers of schedules, methods of actors.
        """
        return self.resources.inject(function)

    # ── Using ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def runtime(self) -> Runtime:
        """The open app. Raises ``ConfigurationError`` if it is not open, ``IOOutsideStep`` inside a workflow body."""
        if current_activation() is not None:
            raise IOOutsideStep(
                "the workflow body reached for the store: only starting, signalling, cancelling and awaiting other "
                "executions is recorded there; do everything else in a step"
            )
        if self._whole is not None:
            return self._whole.runtime()
        if self._runtime is None:
            raise ConfigurationError(
                f"app {self.name!r} is not open. Use it inside 'async with app:' (a client) or "
                "'async with app.worker():' (a client that also works)"
            )
        return self._runtime

    access = runtime  # what scripts outside of the project know it by

    @property
    def limit_bytes(self) -> int:
        """The largest encoded input, result or message, in bytes."""
        return self._limit_bytes if self._whole is None else self._whole.limit_bytes

    # ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def home_url(self) -> str:
        """The URL of the home that opening uses; set it before opening to use another one (or what opens it)."""
        if isinstance(self._home, str):
            return self._home
        if self._home is not None:
            return f"custom://{self.name}"
        return os.environ.get(HOME_VARIABLE) or f"sqlite:///.holdfast/{self.name}.db"

    @home_url.setter
    def home_url(self, url: str | OpenHome) -> None:
        if self._runtime is not None:
            raise InvalidState(f"app {self.name!r} is open on {self.home_url}; set another home before opening it")
        self._home = url

    @property
    def is_empty(self) -> bool:
        """Whether nothing is declared on it, so that a worker of it would have nothing to do."""
        known = self.registry
        return not any((known.workflows, known.steps, known.actors, known.events, known.to_bus))

    @property
    def limits(self) -> Limits:
        """How much a worker of this app takes on."""
        return self._limits

    @property
    def clock(self) -> Clock:
        """The clock of everything in this app; set it before opening to use another one, as tests do."""
        return self._clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        if self._runtime is not None:
            raise InvalidState(f"app {self.name!r} is open, and time in it must not jump; set its clock before opening")
        self._clock = clock

    async def __aenter__(self) -> Self:
        if self._whole is not None:
            raise InvalidState(f"app {self.name!r} is part of {self._whole.name!r}: open that one")
        loop = asyncio.get_running_loop()
        if self._runtime is not None and self._loop is not loop:
            raise ConfigurationError(
                f"app {self.name!r} is open on another event loop. Use it there (a sync bridge's `run` does), or make "
                "a second App"
            )
        if self._loop is not loop:
            self._loop, self._opening = loop, asyncio.Lock()
        async with self._opening:
            if self._runtime is None:
                custom = self._home if callable(self._home) else None
                self._runtime = await opening.open_runtime(self, custom, self._cache, self._heard)
            self._users += 1
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._users -= 1
        if self._users > 0:
            return
        runtime = self._runtime
        assert runtime is not None
        try:
            await runtime.kept.close()
        finally:
            async with self._opening:  # it may have been opened again, and no second home is opened next to it
                if self._users == 0 and self._runtime is runtime:
                    self._runtime = None
                    await opening.close_runtime(runtime)

    def _heard(self, hint: Hint) -> None:
        if self._runtime is None:
            return
        self._runtime.wake_listeners.heard(hint.partition if isinstance(hint, News) else hint)
        if self.employed is not None:
            self.employed.sweeper.heard(hint)
