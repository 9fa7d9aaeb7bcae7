"""Queues of executions: whether they move, whether some wait for each other in a circle, or in a queue of old code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from holdfast.cli.checks.finding import OK, WARN, Finding
from holdfast.clock import between, duration, moment
from holdfast.errors import StoreUnusable
from holdfast.flow.declarations import queue_at
from holdfast.flow.record import PREFIX, QUEUED, decode_gate, is_gate, name_of
from holdfast.flow.standing import QueueStatus, status_of
from holdfast.keys import EXECUTIONS
from holdfast.workflows.record import decode_record
from holdfast.workflows.status import status_of as look_at
from holdfast.workflows.waits import CHILD, EXECUTION

if TYPE_CHECKING:
    from holdfast.flow.declarations import Queue
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime

NAME: Final = "queues"
MOST_QUEUES: Final = 100
MOST_COUNTED: Final = 100
MOST_FIRST: Final = 20
"""How many of those that wait in a queue are compared with the code."""

MOST_SLOTS: Final = 200
"""Of a full queue the executions with these slots are read, to see what they wait for."""

LONG_MS: Final = 3_600_000
"""What has waited for longer in a paused queue was forgotten."""

UNDECIDED_MS: Final = 60_000
"""If no process decides for a queue in which something has waited this long, no worker has its code."""


IN_ONE: Final = (
    "All its slots are taken, and executions in it wait for others that they have started in this queue, and that wait "
    "for a slot: nothing may move. Raise its limit with holdfast queue set, and call these as children, which share "
    "their parent's slot, or put them into another queue"
)
IN_SEVERAL: Final = (
    "All slots of these are taken, and executions in them wait for others in the next queue: nothing may move. Raise a "
    "limit with holdfast queue set, and put such children into the queue of their parents, whose slot they share, or "
    "into one that waits for no other"
)


async def check_queues(runtime: Runtime) -> list[Finding]:
    """Whether the queues of the home move. Where it cannot list them, those of the code are read."""
    gates = await _gates(runtime)
    if not gates:
        return []
    queues = runtime.registry.queues
    stand = {
        gate: await status_of(runtime, gate, queue_at(gate, queues), first=MOST_FIRST, most_counted=MOST_COUNTED)
        for gate in gates
    }
    found = [
        *_at_rest(stand, moment(runtime.clock.now_ms())),
        *_moved(runtime, stand),
        *await _circles(runtime, stand),
    ]
    return found or [Finding(OK, NAME, f"{len(gates)} looked at: they move, or are empty")]


async def _gates(runtime: Runtime) -> list[str]:
    if runtime.home.census is None:
        return sorted(queue.partition for queue in runtime.registry.queues.values())
    page = await runtime.home.census.heads(PREFIX, limit=MOST_QUEUES)
    return [head.partition for head in page.items if is_gate(head.partition)]


def _at_rest(stand: Mapping[str, QueueStatus], now: datetime) -> Iterator[Finding]:
    for queue in stand.values():
        waited_ms = 0.0 if queue.oldest is None else between(queue.oldest, now)
        what = f"{queue.app}/{queue.name}"
        if queue.paused and waited_ms > LONG_MS:
            yield Finding(
                WARN,
                NAME,
                f"{what} is paused, and the first of {queue.waiting:,} has waited for {duration(waited_ms)}: "
                f"holdfast queue resume {what}",
            )
        elif queue.decided_by is None and waited_ms > UNDECIDED_MS:
            yield Finding(
                WARN,
                NAME,
                f"no worker decides for {what}, where {queue.waiting:,} wait, the first for {duration(waited_ms)}: "
                "start a worker with this queue in its code",
            )


def _moved(runtime: Runtime, stand: Mapping[str, QueueStatus]) -> Iterator[Finding]:
    """Workflows of which some wait in a queue, while the code has another one for them, or none."""
    workflows = runtime.registry.workflows
    for gate, queue in stand.items():
        for name in sorted({each.workflow for each in queue.first} & workflows.keys()):
            now_in: Queue | None = workflows[name].policy.queue
            if now_in is None or now_in.partition != gate:
                yield Finding(
                    WARN,
                    NAME,
                    f"executions of {name} wait in {queue.app}/{queue.name}, which the code has put into "
                    f"{'no queue' if now_in is None else now_in.name} since: they need a worker that has "
                    f"{queue.name} in its code, or are cancelled and started again",
                )


# ── Circles ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _circles(runtime: Runtime, stand: Mapping[str, QueueStatus]) -> list[Finding]:
    """Full queues of which executions wait for children that wait for a slot of the next one, and so round."""
    full = [gate for gate, queue in stand.items() if len(queue.slots) >= queue.limit]
    waits = {gate: await _waited_for(runtime, gate) for gate in full}
    found = dict[frozenset[str], Finding]()
    for gate in reversed(full):
        if circle := _circle_from(gate, waits):
            names = " → ".join(map(name_of, (*circle, gate)))
            advice = IN_ONE if len(circle) == 1 else IN_SEVERAL
            found[frozenset(circle)] = Finding(WARN, NAME, f"a circle: {names}. {advice}")
    return list(found.values())


def _circle_from(gate: str, waits: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The queues on a way from one back to itself; empty if there is none."""
    ways: list[tuple[str, ...]] = [(gate,)]
    while ways:
        way = ways.pop()
        for then in sorted(waits[way[-1]]):
            if then == gate:
                return way
            if then in waits and then not in way:
                ways.append((*way, then))
    return ()


async def _waited_for(runtime: Runtime, gate: str) -> set[str]:
    """The queues in which those wait that executions with a slot of this queue wait for: their children, and others
    that they have started by a handle, which share no slot.
    """
    store = runtime.home.store
    head = await store.get(gate)
    found = set[str]()
    for partition in [] if head is None else list(decode_gate(head.body).held)[:MOST_SLOTS]:
        parent = await store.get(partition)
        for wait in () if parent is None else look_at(parent).waits:
            if wait.kind in (CHILD, EXECUTION) and wait.id is not None:
                found |= _queue_of(await store.get(f"{EXECUTIONS}{wait.name}#{wait.id}"))
    return found


def _queue_of(child: Item | None) -> set[str]:
    if child is None or child.status != QUEUED:
        return set()
    try:
        queued = decode_record(child.body).queued
    except StoreUnusable:
        return set()
    return set() if queued is None else {queued.gate}
