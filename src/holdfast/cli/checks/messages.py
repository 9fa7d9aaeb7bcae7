"""The findings of ``holdfast doctor`` about messages and events: what is parked, what waits, what was missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.actors import record as actors
from holdfast.actors.mailbox.parked import REGISTER
from holdfast.cli.checks.finding import EXAMPLES, OK, WARN, Finding, Group
from holdfast.clock import duration, moment
from holdfast.commands.overview import OVERDUE_MS
from holdfast.messaging import bus_queue
from holdfast.messaging.listing import FOR_BUS, OUTBOX, REFUSED, apps_of, list_waiting
from holdfast.messaging.schedules import list_schedules
from holdfast.paging import heads, items
from holdfast.texts import shell_line

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Store

MOST_LISTED: Final = 1_000
"""The most events that are counted, and the most schedules that are examined."""


async def check_messages(runtime: Runtime) -> list[Finding]:
    """What messages, events and schedules wait for."""
    store = runtime.home.store
    return [
        await _check_halted(store),
        await check_parked(store),
        await _check_outbox(runtime),
        *await _check_bus(runtime),
        await _check_schedules(runtime),
    ]


async def _check_halted(store: Store) -> Finding:
    halted = Group()
    async for head in heads(store, actors.PARTITION_PREFIX, status=actors.HALTED):
        halted.note(shell_line("actor show", actors.actor_of(head.partition), actors.key_of(head.partition)))
    if not halted.count:
        return Finding(OK, "halted", "no actor or consumer has halted at a message")
    told = f"{halted.count:,} halted at a message that fails: inspect it, fix the cause, then holdfast actor resume"
    return Finding(WARN, "halted", told, halted.told())


async def check_parked(store: Store) -> Finding:
    """Whether messages failed for the last time."""
    count = sum([1 async for _ in items(store, REGISTER)])
    if not count:
        return Finding(OK, "parked", "no message or event is parked")
    told = f"{count:,} messages are parked because they failed: list them with holdfast dlq ls"
    return Finding(WARN, "parked", f"{told}, fix the cause, then holdfast dlq redrive")


async def _check_outbox(runtime: Runtime) -> Finding:
    """An event waits in the outbox for milliseconds, unless no worker of its app runs."""
    page = await list_waiting(runtime.home, None, queue=OUTBOX, after=None, limit=MOST_LISTED, scan=True)
    now = moment(runtime.clock.now_ms())
    waited = max(((now - each.published_at).total_seconds() * 1000 for each in page.items), default=0)
    if waited < OVERDUE_MS:
        return Finding(OK, "outbox", "no event waits for a worker")
    count = f"{len(page.items):,}{' or more' if page.after else ''}"
    apps = ", ".join(sorted({each.app for each in page.items}))
    return Finding(
        WARN,
        "outbox",
        f"{count} events wait to be delivered, the first for {duration(waited)}: no worker of app {apps} takes them. "
        "Start one with holdfast run MODULE:APP. holdfast outbox ls lists them",
    )


async def _check_bus(runtime: Runtime) -> list[Finding]:
    down = Group()
    for app in await apps_of(runtime.home):
        head = await runtime.home.store.get(bus_queue.partition_of(app))
        if head is not None and (known := bus_queue.decode_head(head.body)).failures:
            ahead = max(known.until_ms - runtime.clock.now_ms(), 0)
            why = known.reason or "the worker's log says why"
            down.note(f"app {app}, {known.failures:,} attempts, the next in {duration(ahead)}", why)
    refused = await list_waiting(runtime.home, None, queue=REFUSED, after=None, limit=MOST_LISTED, scan=True)
    found: list[Finding] = []
    if down.count:
        page = await list_waiting(runtime.home, None, queue=FOR_BUS, after=None, limit=MOST_LISTED, scan=True)
        count = f"{len(page.items):,}{' or more' if page.after else ''}"
        told = f"the bus fails, and {count} events wait for it: repair it, and they are sent by themselves"
        found.append(Finding(WARN, "bus", f"{told}. holdfast outbox ls lists them", down.told()))
    if refused.items:
        examples = Group()
        for each in refused.items:
            examples.note(f"event {each.event} {each.id} of app {each.app}", each.problem)
        told = f"the bus refused {examples.count:,} events for good: fix the cause, then holdfast outbox resend"
        found.append(Finding(WARN, "refused", told, examples.told()))
    return found or [Finding(OK, "bus", "no event waits because a bus fails")]


async def _check_schedules(runtime: Runtime) -> Finding:
    page = await list_schedules(runtime, None, after=None, limit=MOST_LISTED, scan=True)
    late = [each for each in page.items if each.missed or each.error]
    if not late:
        return Finding(OK, "schedules", f"{len(page.items):,} schedules, none of which is late")
    told = tuple(
        f"schedule {each.name} of app {each.app}: {each.error or f'{each.missed:,} ticks missed'}"
        for each in late[:EXAMPLES]
    )
    missed = (
        f"{len(late):,} schedules have missed a tick: no worker of the app was there, or the tick fails. Start one "
        "with holdfast run MODULE:APP; the policy of each says what becomes of its ticks. holdfast schedules lists them"
    )
    return Finding(WARN, "schedules", missed, told)
