"""What an app offers of messaging: it declares consumers and schedules, and publishes events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.actors.kind import MESSAGE_RETRY, Kind
from holdfast.actors.limited import limit_in_seconds
from holdfast.coordination.schedule import CronSchedule, Missed
from holdfast.duration import Duration
from holdfast.errors import ConfigurationError, DuplicateName, InvalidInput
from holdfast.functions import own_name
from holdfast.kernel.runtime import Connect, Declares
from holdfast.keys import check_name
from holdfast.messaging.bus_queue import SOURCE_PREFIX
from holdfast.messaging.consumers import consumer_actor
from holdfast.messaging.cron import check_target, job_of, ticker_of
from holdfast.messaging.outbox import consumer_name, schedules_name
from holdfast.messaging.publishing import Publishes, name_of
from holdfast.ports import SqlCursor
from holdfast.retry import Retry

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

EVENT_WINDOW: Duration = "14d"
"""How long an event's id is remembered: as long as the slowest queue can deliver it again."""

HANDLER_TIMEOUT: Duration = "60s"
"""How long an attempt of a consumer may take. Only the events behind it wait for it."""

TICK_TIMEOUT: Duration = "1h"
"""How long an attempt of a schedule's handler may take. Reports can take long."""


def _refuse_in_part(app: Declares, what: str) -> None:
    if app.registry.app != app.name:
        raise ConfigurationError(f"this app is part of {app.registry.app!r}: declare its {what} there")


def hidden(app: Declares) -> Hidden:
    """Where the hidden actors of an app are registered."""
    return Hidden(HiddenNames(app.registry.actors), app.runtime)


class HiddenNames(Struct, frozen=True):
    """The registry of hidden actors. Users cannot choose their names."""

    actors: dict[str, Any]

    def add_actor(self, kind: Kind) -> None:
        self.actors[kind.name] = kind


class Hidden(Struct, frozen=True):
    """An app, as hidden actors see it."""

    registry: HiddenNames
    runtime: Connect

    def inject(self, function: F) -> F:
        return function


async def publish(app: Publishes, event: Any, *, id: str | None = None) -> None:
    """Publish an event to its consumers. It is durable when this returns. Inside an actor, a consumer or a tick it is
    published with the commit, or not at all (G5).

    An event is identified by its class, which typed JSON must be able to encode. An event with an ``id`` is handled
    once, however often it is published. Events of one actor are handled in their order (G6); others are independent.
    """
    await app.outbox.publish(event, id)


def consumer(
    app: Publishes,
    event: type,
    /,
    *,
    name: str | None = None,
    retry: Retry = MESSAGE_RETRY,
    poison: str = "park",
    window: Duration = EVENT_WINDOW,
    timeout: Duration | None = HANDLER_TIMEOUT,
) -> Callable[[F], F]:
    """Declare a function that handles each event of a class once (G5).

    What the function sends, publishes and starts commits together with the record that the event was handled. For
    effects elsewhere, ``hf.current().idempotency_key`` is the same on every attempt (G10). An event whose handler
    fails is retried; then it is parked or halts its group. ``window`` is how long the id of an independent event is
    remembered. An attempt that takes longer than ``timeout`` is cancelled and counts as failed; ``None`` means no
    limit. Raises ``ConfigurationError`` for what is no class of events, such as the function of ``@app.consumer``
    without the class.
    """
    event_name = name_of(event)

    def declare(function: F) -> F:
        _refuse_in_part(app, "consumers")
        own = name or own_name(function, "a consumer")
        check_name("consumer", own)
        called = consumer_name(app.outbox.app, own)
        if called in app.registry.actors:
            raise DuplicateName(f"two consumers are called {own!r}; give one of them another name: name=...")
        consumer_actor(
            hidden(app),
            app.inject(function),
            event,
            name=called,
            retry=retry,
            poison=poison,
            window=window,
            timeout=timeout,
        )
        app.registry.consumers.append((event_name, called))
        app.registry.events.setdefault(event_name, event)
        return function

    return declare


def to_bus(app: Publishes, event: T) -> T:
    """Declare that events of a class are also published to the home's bus, for other systems: each at least once, in
    no order. This app's consumers receive them as before. Also works as a decorator of the class.

    A worker whose home has no bus raises ``ConfigurationError`` when it starts.
    """
    app.registry.send_to_bus(name_of(event))
    return event


def from_bus(app: Publishes, event: type, *, source: str, detail_type: str) -> None:
    """Declare that events on a bus with this source and detail type are events of a class, whose JSON their details
    are. Each is handled once, by the id that EventBridge gave it (G5).

    Events of other Holdfast apps need no declaration: a consumer receives those of its class.
    """
    if source.startswith(SOURCE_PREFIX):
        raise ConfigurationError(f"{source!r} is a Holdfast app: its events need no declaration")
    app.registry.take_from_bus((source, detail_type), name_of(event))


def cron(
    app: Publishes,
    expression: str,
    *,
    tz: str = "UTC",
    missed: Missed | str = Missed.ONCE,
    name: str | None = None,
    timeout: Duration | None = TICK_TIMEOUT,
) -> Callable[[F], F]:
    """Declare a schedule for a workflow or a handler: five cron fields, in a time zone.

    At each tick a workflow is started, with the tick in its id, or a handler is run and retried if it fails. Either
    may take the tick, a ``datetime`` in UTC. Each tick counts once, however many workers run.
    ``missed`` decides about ticks that came due while no worker ran: ``skip``, ``once`` or ``all``.
    ``timeout`` limits an attempt of a handler.
    """
    if missed not in tuple(Missed):
        raise InvalidInput(f"missed must be one of {', '.join(Missed)}, got {missed!r}")
    schedule, policy = CronSchedule(expression, tz), Missed(missed)
    limit = limit_in_seconds(timeout, "a schedule")

    def declare(target: F) -> F:
        _refuse_in_part(app, "schedules")
        check_target(target)
        own: str = name or own_name(target, "a schedule")
        check_name("schedule", own)
        if own in app.registry.jobs:
            raise DuplicateName(f"two schedules are called {own!r}; give one of them another name: name=...")
        ticker = schedules_name(app.name)
        if ticker not in app.registry.actors:
            ticker_of(hidden(app), ticker, app.registry.jobs)
        app.registry.jobs[own] = job_of(own, schedule, policy, app.inject(target), limit)
        return target

    return declare


async def transact(app: Publishes, work: Callable[[SqlCursor], T]) -> T:
    """Run your own SQL on the app's SQLite file in one transaction, with the events that ``work`` adds by
    ``app.outbox.add``. All of it commits, or nothing. Returns what ``work`` returns.

    ``work`` is a plain function. Keep it short, because it runs under the file's write lock, and let it do nothing but
    SQL and events, because it runs again if the transaction is retried. Raises ``InvalidInput`` for an ``async def``
    and for a function that returns an awaitable; nothing commits then.
    """
    return await app.outbox.transact(work)


async def unsubscribe(app: Publishes, consumer: str) -> None:
    """Deliver no more events to a consumer that is no longer in the code. Starting a consumer of this name
    subscribes it again.
    """
    await app.outbox.unsubscribe(consumer)
