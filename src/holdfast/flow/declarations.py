"""Queues as apps declare them, and what a start may say about its place in one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.containment import contained_call
from holdfast.duration import Duration, milliseconds
from holdfast.errors import DuplicateName, HoldfastError, InvalidInput
from holdfast.flow.changing import AS_IT_IS_DECLARED, change, order_purge
from holdfast.flow.choose import Rules
from holdfast.flow.rates import Rate
from holdfast.flow.record import create, partition_of
from holdfast.flow.settings import stored_rate
from holdfast.flow.standing import QueueStatus, status_of
from holdfast.kernel.runtime import Connect, Declares
from holdfast.keys import check_id, check_name

_logger = logging.getLogger("holdfast")

MOST_HELD: Final = 1_000
"""The largest limit of a queue, and the limit of one that names none: its slots are in one item."""

LEAST_WEIGHT: Final = 1e-6
MOST_WEIGHT: Final = 1e6
"""With a larger one the turns of a key would not move it behind others: they would wait for ever."""

_PATH: Final = re.compile(r"\w+(\.\w+)*")


class QueueFull(HoldfastError):
    """As many executions wait in the queue as may. Nothing was started; try again later."""

    code = "queue_full"
    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """How one start waits in its queue.

    ``key`` is what shares of the queue and limits per key go by; if it is not given, the workflow's ``queue_key`` says
    it. ``ahead`` is a head start: it goes before others of its key that came up to that much earlier. ``delay`` is how
    long it waits before it takes its place.

    >>> Queued(key="acme", ahead="10m").ahead_ms
    600000
    """

    key: str | None = None
    ahead: Duration = 0
    delay: Duration = 0

    def __post_init__(self) -> None:
        if self.key is not None:
            check_id("the key of a queued start", self.key)
        milliseconds(self.ahead)
        milliseconds(self.delay)

    @property
    def ahead_ms(self) -> int:
        """The head start in milliseconds."""
        return milliseconds(self.ahead)

    @property
    def delay_ms(self) -> int:
        """The delay in milliseconds."""
        return milliseconds(self.delay)


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """A queue of an app, as ``app.queue`` returns it. Workflows name it: ``@app.workflow(queue=mail)``."""

    app: str
    name: str
    rules: Rules
    connect: Connect
    most_waiting: int | None = None

    @property
    def partition(self) -> str:
        """Where its head is."""
        return partition_of(self.app, self.name)

    async def status(self) -> QueueStatus:
        """How it stands: the numbers that hold, how many wait, and who has its slots."""
        return await status_of(self.connect(), self.partition, self)

    async def pause(self) -> None:
        """Let nothing begin until ``resume``. What has begun goes on, and what is started waits."""
        await self._change({"paused": True})

    async def resume(self) -> None:
        """Let executions begin again."""
        await self._change({"paused": False})

    async def change(
        self,
        *,
        limit: int | UnsetType = UNSET,
        limit_per_key: int | UnsetType | None = UNSET,
        rate: Rate | UnsetType | None = UNSET,
        rate_per_key: Rate | UnsetType | None = UNSET,
    ) -> None:
        """Change numbers for all workers, durably; ``None`` is no limit. They hold, whatever code is deployed, until
        they are changed again, or ``reset``. A lower limit takes no slot away: nothing begins until enough have ended.

            await mail.change(limit=10, rate=hf.Rate(50, per="1m"))

        Raises ``InvalidInput``.
        """
        await self._change(numbers_of(limit, limit_per_key, rate, rate_per_key))

    async def reset(self) -> None:
        """Have the numbers be those of the code again. A pause stays."""
        await self._change(AS_IT_IS_DECLARED)

    async def purge(self, key: str | None = None) -> None:
        """End what waits now, of a key or all of it, as ``CANCELLED``. The order is durable when this returns, and the
        worker that decides for the queue carries it out, as soon as one runs; the next one goes on if it dies (G15).

            await mail.purge(key="acme")

        What has begun goes on, what is started later waits as ever, as far as clocks agree, and none that is covered
        begins once the worker has the order. One that has begun before and was retried waits for its slot, to clean up.
        A repeat does no harm.
        Raises ``InvalidInput``.
        """
        if key is not None:
            check_queue_key(key)
        runtime = self.connect()
        await create(self.partition, runtime.home, self)
        await order_purge(runtime, self.partition, key)

    async def _change(self, numbers: Mapping[str, Any]) -> None:
        runtime = self.connect()
        await create(self.partition, runtime.home, self)
        await change(runtime, self.partition, numbers)


def queue(
    app: Declares,
    name: str,
    *,
    limit: int | None = None,
    limit_per_key: int | None = None,
    rate: Rate | None = None,
    rate_per_key: Rate | None = None,
    weight: Callable[[str], float] | None = None,
    most_waiting: int | None = None,
) -> Queue:
    """Declare a queue: ``mail = app.queue("mail", limit=50, limit_per_key=2, rate=hf.Rate(100, per="1m"))``.

    At most ``limit`` executions of it have begun and have not ended, and ``limit_per_key`` of each key; at most
    ``rate`` begin, and ``rate_per_key`` of each key (G15). Keys take turns, in shares by ``weight(key)``, which is a
    plain, pure function. With ``most_waiting`` waiting, a start raises ``QueueFull``. Without a limit it is 1,000.
    Raises ``InvalidInput`` and ``DuplicateName``.
    """
    check_name("queue", name)
    most = _whole("limit", limit, MOST_HELD) or MOST_HELD
    per_key = _whole("limit_per_key", limit_per_key, MOST_HELD)
    rules = Rules(most, per_key, _rate("rate", rate), _rate("rate_per_key", rate_per_key), _weigher(weight))
    declared = Queue(app.name, name, rules, app.runtime, _whole("most_waiting", most_waiting, None))
    if name in app.registry.queues:
        raise DuplicateName(f"two queues are called {name!r}; give one of them another name")
    app.registry.queues[name] = declared
    return declared


def queue_at(partition: str, queues: Mapping[str, Queue]) -> Queue | None:
    """The one among these whose head is there."""
    return next((each for each in queues.values() if each.partition == partition), None)


def numbers_of(
    limit: int | UnsetType | None,
    limit_per_key: int | UnsetType | None,
    rate: Rate | UnsetType | None,
    rate_per_key: Rate | UnsetType | None,
) -> dict[str, Any]:
    """The settings that a change makes of these numbers. Raises ``InvalidInput``."""
    numbers: dict[str, Any] = {}
    if limit is not UNSET:
        numbers["limit"] = _whole("limit", limit, MOST_HELD) or MOST_HELD
    if limit_per_key is not UNSET:
        numbers["limit_per_key"] = _whole("limit_per_key", limit_per_key, MOST_HELD)
    if rate is not UNSET:
        numbers["rate"] = stored_rate(_rate("rate", rate))
    if rate_per_key is not UNSET:
        numbers["rate_per_key"] = stored_rate(_rate("rate_per_key", rate_per_key))
    return numbers


def check_queue_key(key: str) -> str:
    """A key of executions in a queue; empty is that of those that were given none. Raises ``InvalidInput``."""
    return key if key == "" else check_id("the key of a queued start", key)


def check_queue(queue: Queue | None, path: str | None) -> None:
    """The queue of a workflow, and the path to its keys in the arguments, such as ``"order.tenant"``. Raises
    ``InvalidInput``.
    """
    declared, given = cast("Any", queue), cast("Any", path)  # users without a type checker
    if declared is not None and not isinstance(declared, Queue):
        raise InvalidInput(f"the queue of a workflow is what app.queue(...) returns, not {declared!r}")
    if given is None:
        return
    if not (isinstance(given, str) and _PATH.fullmatch(given)):
        raise InvalidInput(
            f"queue_key is a path from a parameter into its value, such as 'order.tenant', not {given!r}. For another "
            "key, start with queued=hf.Queued(key=...)"
        )
    if queue is None:
        raise InvalidInput(f"queue_key {given!r} is of no use without a queue: @app.workflow(queue=..., queue_key=...)")


def check_key_parameter(path: str | None, parameters: Sequence[str], what: str) -> None:
    """Raise ``InvalidInput`` if the path of a queue's keys begins with no parameter of ``what``."""
    name = "" if path is None else path.partition(".")[0]
    if path is not None and name not in parameters:
        raise InvalidInput(
            f"the queue_key of {what} is of {name!r}, which is no parameter of it; it has: "
            f"{', '.join(parameters) or 'none'}"
        )


def key_in(input: bytes, path: str) -> str:
    """What the path leads to in the encoded arguments of a workflow: text or a whole number. Raises ``InvalidInput``.

    >>> key_in(b'{"order":{"tenant":"acme"}}', "order.tenant")
    'acme'
    """
    value: Any = msgspec.json.decode(input)
    for name in path.split("."):
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidInput(f"the key of a queue is text or a whole number, and {path!r} leads to {repr(value)[:60]}")
    return check_id("the key of a queued start", str(value))


def _whole(what: str, number: int | None, most: int | None) -> int | None:
    given: Any = number  # users without a type checker
    if given is None or (type(given) is int and 1 <= given <= (given if most is None else most)):
        return number
    up_to = "" if most is None else f" up to {most:,}"
    raise InvalidInput(f"{what} is a whole number from 1{up_to}, not {given!r}")


def _rate(what: str, rate: Rate | None) -> Rate | None:
    given: Any = rate  # users without a type checker
    if given is None or isinstance(given, Rate):
        return rate
    raise InvalidInput(f"{what} is an hf.Rate(...), such as hf.Rate(100, per='1m'), not {given!r}")


def _weigher(weight: Callable[[str], float] | None) -> Callable[[str], float]:
    if weight is None:
        return lambda _key: 1.0
    if not callable(weight):
        raise InvalidInput(f"weight is a function of a key, such as lambda key: 2.0, not {weight!r}")

    def weigh(key: str) -> float:
        try:
            value: Any = contained_call(weight, key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other keys are not to wait for it
            value = type(error).__name__
        if isinstance(value, bool) or not isinstance(value, int | float) or not LEAST_WEIGHT <= value <= MOST_WEIGHT:
            _logger.warning(
                "the weight of key %r is 0.000001 to 1,000,000, not %r: 1.0 is taken for it", key[:60], value
            )
            return 1.0
        return float(value)

    return weigh
