"""The commands about queues: how they stand, and changing them while they work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType

from holdfast.commands.context import Command, Context
from holdfast.commands.named import Named
from holdfast.commands.numbers import GivenRate, given_rate, told_change
from holdfast.commands.right import Right
from holdfast.errors import InvalidInput, NotFound
from holdfast.flow.changing import AS_IT_IS_DECLARED, change, order_purge
from holdfast.flow.declarations import check_queue_key, numbers_of
from holdfast.flow.record import PREFIX, app_of, is_gate, name_of, partition_of
from holdfast.flow.standing import QueueStatus, status_of
from holdfast.keys import check_limit, check_name

if TYPE_CHECKING:
    from holdfast.flow.declarations import Queue
    from holdfast.messaging.publishing import Publishes

LISTED: Final = 100
FIRST: Final = 50
"""How many of those that wait are told of one queue."""

NUMBERS: Final = ("limit", "limit_per_key", "rate", "rate_per_key")

MOST_COUNTED: Final = 1_000
"""The most waiting executions that are counted of each queue in a list."""


class QueuePage(Struct, frozen=True):
    """Some queues, by app and name: pass ``after`` to get the next ones."""

    items: tuple[QueueStatus, ...]
    after: str | None


class OnQueue(Command[None], frozen=True):
    """What is about one queue: ``queue`` is its name, or ``app/name`` for one of another app."""

    queue: str

    def __str__(self) -> str:
        return self.queue


class ListQueues(Command[QueuePage], frozen=True, tag="queue-list"):
    """List the queues of a home: how many have begun and wait in each, and since when. Of each the keys are left out.

    Where the home cannot list them, those that the app declares.
    """

    after: str | None = None
    limit: int = LISTED

    async def perform(self, context: Context) -> QueuePage:
        check_limit(self.limit)
        runtime, declared = context.app.runtime(), _declared_in(context.app)
        if runtime.home.census is None:
            names, after = sorted(gate for gate in declared if gate > (self.after or "")), None
            names, after = names[: self.limit], names[self.limit - 1] if len(names) > self.limit else None
        else:
            page = await runtime.home.census.heads(PREFIX, after=self.after, limit=self.limit)
            names, after = [head.partition for head in page.items if is_gate(head.partition)], page.cursor
        stand = (status_of(runtime, gate, declared.get(gate), most_counted=MOST_COUNTED) for gate in names)
        return QueuePage(tuple(await asyncio.gather(*stand)), after)


class ShowQueue(Command[QueueStatus], frozen=True, tag="queue-show"):
    """Show a queue, or what is of one key: who has its slots and since when, who waits, and when a token comes."""

    queue: str
    key: str | None = None
    first: int = FIRST

    def __str__(self) -> str:
        return self.queue

    async def perform(self, context: Context) -> QueueStatus:
        check_limit(self.first, "first")
        gate, declared = await _found(context.app, self.queue)
        key = None if self.key is None else check_queue_key(self.key)
        return await status_of(context.app.runtime(), gate, declared, key=key, first=self.first)


class PauseQueue(OnQueue, frozen=True, tag="queue-pause"):
    """Let nothing begin until it is resumed. What has begun goes on."""

    async def perform(self, context: Context) -> None:
        gate, _ = await _found(context.app, self.queue)
        await change(context.app.runtime(), gate, {"paused": True})


class ResumeQueue(OnQueue, frozen=True, tag="queue-resume"):
    """Let executions begin again."""

    async def perform(self, context: Context) -> None:
        gate, _ = await _found(context.app, self.queue)
        await change(context.app.runtime(), gate, {"paused": False})


class ChangeQueue(OnQueue, frozen=True, tag="queue-set"):
    """Change numbers, for all workers, until they are changed again or reset. ``None`` is no limit."""

    limit: int | UnsetType | None = UNSET
    limit_per_key: int | UnsetType | None = UNSET
    rate: GivenRate | UnsetType | None = UNSET
    rate_per_key: GivenRate | UnsetType | None = UNSET

    def __str__(self) -> str:
        return told_change(self.queue, {name: getattr(self, name) for name in NUMBERS})

    def check(self, context: Context) -> None:  # noqa: ARG002 - the signature of Command
        if all(each is UNSET for each in (self.limit, self.limit_per_key, self.rate, self.rate_per_key)):
            raise InvalidInput("say what to change: limit, limit_per_key, rate or rate_per_key")

    async def perform(self, context: Context) -> None:
        self.check(context)
        numbers = numbers_of(self.limit, self.limit_per_key, given_rate(self.rate), given_rate(self.rate_per_key))
        gate, _ = await _found(context.app, self.queue)
        await change(context.app.runtime(), gate, numbers)


class ResetQueue(OnQueue, frozen=True, tag="queue-reset"):
    """Have the numbers be those of the code again. A pause stays."""

    async def perform(self, context: Context) -> None:
        gate, _ = await _found(context.app, self.queue)
        await change(context.app.runtime(), gate, AS_IT_IS_DECLARED)


class PurgeQueue(OnQueue, frozen=True, tag="queue-purge"):
    """End what waits now, of a key or all of it, as ``CANCELLED``. A worker with the queue carries it out."""

    key: str | None = None

    def __str__(self) -> str:
        return self.queue if self.key is None else f"{self.queue}, key {self.key}"

    async def perform(self, context: Context) -> None:
        key = None if self.key is None else check_queue_key(self.key)
        gate, _ = await _found(context.app, self.queue)
        await order_purge(context.app.runtime(), gate, key)


def app_and_name(what: str, text: str) -> tuple[str | None, str]:
    """The parts of ``NAME`` or ``APP/NAME``. Raises ``InvalidInput``.

    >>> app_and_name("queue", "shop/mail")
    ('shop', 'mail')
    """
    app, mark, name = text.rpartition("/")
    check_name(what, name)
    if mark:
        check_name("app", app)
    return (app if mark else None), name


def _declared_in(app: Publishes) -> dict[str, Queue]:
    queues: dict[str, Queue] = app.registry.queues
    return {queue.partition: queue for queue in queues.values()}


async def _found(app: Publishes, name: str) -> tuple[str, Queue | None]:
    """The queue of this name: the app's own, else the only one of the home. Raises ``NotFound``, ``InvalidInput``."""
    runtime, declared = app.runtime(), _declared_in(app)
    of, queue = app_and_name("queue", name)
    if of is not None:
        gates = [partition_of(of, queue)]
    elif partition_of(app.name, queue) in declared:
        gates = [partition_of(app.name, queue)]
    elif runtime.home.census is None:
        raise NotFound(f"app {app.name!r} declares no queue {queue!r}; name the app that does: APP/{queue}")
    else:
        gates = [each for each in await _all(app) if name_of(each) == queue]
    if len(gates) > 1:
        told = ", ".join(f"{app_of(each)}/{queue}" for each in gates)
        raise InvalidInput(f"several apps of this home have a queue {queue!r}; name one: {told}")
    if not gates or (gates[0] not in declared and await runtime.home.store.get(gates[0]) is None):
        known = ", ".join(sorted({*map(name_of, declared), *map(name_of, await _all(app))}))
        raise NotFound(f"there is no queue {name!r} here; there are: {known or 'none'}")
    return gates[0], declared.get(gates[0])


async def _all(app: Publishes) -> list[str]:
    census, found, after = app.runtime().home.census, list[str](), None
    while census is not None:
        page = await census.heads(PREFIX, after=after)
        found += [head.partition for head in page.items if is_gate(head.partition)]
        if (after := page.cursor) is None:
            break
    return found


COMMANDS: Final[tuple[Named, ...]] = (
    Named("queue list", ListQueues, Right.READ),
    Named("queue show", ShowQueue, Right.READ),
    Named("queue pause", PauseQueue, Right.CONTROL, audited=True),
    Named("queue resume", ResumeQueue, Right.CONTROL, audited=True),
    Named("queue set", ChangeQueue, Right.CONTROL, audited=True),
    Named("queue reset", ResetQueue, Right.CONTROL, audited=True),
    Named("queue purge", PurgeQueue, Right.CONTROL, audited=True),
)
