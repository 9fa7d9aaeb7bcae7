"""What a worker begins with: its subscriptions, the queues of events that it empties, and the timers of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.deferred import LazyModule
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.kernel.model import Model
from holdfast.messaging.bus_relay import PAUSES, BusQueues
from holdfast.messaging.outbox import schedules_name
from holdfast.messaging.publishing import Publishes
from holdfast.messaging.queue_turns import Backoff
from holdfast.messaging.regrouping import regroup
from holdfast.messaging.relay import Relays
from holdfast.persist import sit_out

if TYPE_CHECKING:
    from holdfast.actors import sending
    from holdfast.messaging import cron
    from holdfast.messaging.cron import Ticker
else:  # they are loaded where a schedule is declared
    sending, cron = LazyModule("holdfast.actors.sending", globals()), LazyModule("holdfast.messaging.cron", globals())


async def begin_messaging(app: Publishes, *, publishes: bool) -> Sequence[Model]:
    """Record this worker's subscriptions in the store, and return the models of the queues that it empties.

    With ``publishes`` the outbox is created, which SQL cannot wait for. A store that does not answer is waited for.
    Raises ``ConfigurationError`` if events are declared for a bus and the home has none.
    """
    runtime = app.runtime()
    bus = runtime.home.bus
    if app.registry.to_bus and bus is None:
        raise ConfigurationError(
            f"app {app.outbox.app!r} declares {', '.join(app.registry.to_bus)} for a bus, and {runtime.home.url} has "
            "none: name it in the URL of a home on AWS (aws://prefix?bus=…), or open the home with one "
            "(holdfast.testing.with_bus)"
        )
    if publishes or app.registry.consumers or app.registry.to_bus:
        await sit_out(
            lambda: app.outbox.subscribe(app.registry.consumers, app.registry.to_bus), partial(_tell_waiting, app)
        )
    await sit_out(partial(regroup, app.outbox.app, runtime), partial(_tell_waiting, app))
    relays = Relays(partition=app.outbox.partition, patience=Backoff(), runtime=runtime)
    models: list[Model] = [relays]
    if bus is not None:
        outbox, patience = app.outbox, Backoff(PAUSES)
        models.append(BusQueues(partition=outbox.bus_partition, patience=patience, app=outbox.app, bus=bus))
    return models


async def arm_schedules(app: Publishes) -> None:
    """Set the timers of schedules that are new or have changed."""
    for job in app.registry.jobs.values():
        ticker: type[Ticker] = app.registry.actors[schedules_name(app.name)].cls
        await sit_out(partial(_arm, ticker.at(job.name), cron.fingerprint_of(job)), partial(_tell_waiting, app))


def _tell_waiting(app: Publishes, error: StoreUnavailable) -> None:
    app.runtime().emit("store_awaited", error=str(error))


async def _arm(ticker: Ticker, fingerprint: str) -> None:
    if not await ticker.is_armed(fingerprint):
        await sending.send(ticker.arm, fingerprint)  # without waiting: another worker may hold the schedule
