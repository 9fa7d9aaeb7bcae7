"""Timers of an actor: set, reset and cancelled by its methods, durable with their commit, late at worst (G8)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, overload

from msgspec import Raw
from msgspec.structs import replace

from holdfast.actors.limited import declared_limit, declared_uses
from holdfast.actors.record import TimerRecord
from holdfast.codec.signature import Signature, signature_of
from holdfast.coordination.schedule import CronSchedule, Every, Missed, Schedule, next_after
from holdfast.duration import Duration, milliseconds
from holdfast.errors import ConfigurationError, InvalidInput
from holdfast.functions import told
from holdfast.kernel.identity import BY_CONTENT

if TYPE_CHECKING:
    from holdfast.actors.scope import Turn

P = ParamSpec("P")

LONGEST_NAME_BYTES: Final = 400
"""A firing that is parked has its timer's name in its key twice."""


class Timer(Generic[P]):
    """``@hf.timer`` on a method: the method runs when the timer is due. Inside the actor it is set by its name."""

    def __init__(self, function: Callable[..., Coroutine[Any, Any, None]]) -> None:
        if not inspect.iscoroutinefunction(function):
            raise ConfigurationError(f"a timer is an async def in an actor, and was given {told(function)}")
        self.function = function
        self.name = function.__name__
        self.limit = declared_limit(function)
        self.signature: Signature = signature_of(function, f"timer {self.name!r}", given=1)
        self.uses = declared_uses(function, self.signature)
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, actor: None, owner: type) -> Self: ...
    @overload
    def __get__(self, actor: object, owner: type) -> BoundTimer[P]: ...
    def __get__(self, actor: object | None, owner: type) -> Any:
        if actor is None:
            return self
        turn: Turn | None = getattr(actor, "_turn", None)
        if turn is None:
            raise InvalidInput(f"timer {self.name!r} is set inside a method of its actor")
        return BoundTimer(self, turn, self.name)


def timer(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]]) -> Timer[P]:
    """Declare a method that a timer calls; a failing one is tried again like a message."""
    return Timer(method)


class BoundTimer(Generic[P]):
    """One timer of one actor. Setting it again replaces what was set; everything commits with the method's state."""

    __slots__ = ("_name", "_timer", "_turn")

    def __init__(self, timer: Timer[P], turn: Turn, name: str) -> None:
        self._timer = timer
        self._turn = turn
        self._name = name

    def __getitem__(self, name: str) -> BoundTimer[P]:
        """Another timer for the same method, under a name of its own. Raises ``InvalidInput``."""
        whole = f"{self._timer.name}/{name}"
        if not whole.isprintable() or len(whole.encode()) > LONGEST_NAME_BYTES:
            raise InvalidInput(
                f"the name of a timer, with that of its method, is printable text of at most {LONGEST_NAME_BYTES} "
                f"bytes of UTF-8, not {whole[:60]!r}"
            )
        return BoundTimer(self._timer, self._turn, whole)

    @property
    def due_at(self) -> datetime | None:
        """When it will fire next; ``None`` if it is not set."""
        record = self._turn.timers.get(self._name)
        return None if record is None else self._turn.datetime_of(record.due_at)

    def after(self, delay: Duration, *args: P.args, **kwargs: P.kwargs) -> None:
        """Fire once, after ``delay``."""
        self._set(self._turn.now_ms() + milliseconds(delay), args, kwargs)

    def at(self, when: datetime, *args: P.args, **kwargs: P.kwargs) -> None:
        """Fire once, at ``when`` or, if that has passed, at once."""
        if when.tzinfo is None:
            raise InvalidInput(f"{when} has no time zone, so nobody can say when it is")
        self._set(-int(-when.timestamp() * 1000 // 1), args, kwargs)

    def every(self, period: Duration, *args: P.args, **kwargs: P.kwargs) -> None:
        """Fire again and again, ``period`` apart, without drift. Firings missed in an outage are one."""
        every_ms = milliseconds(period)
        first = self._turn.now_ms() + every_ms
        self._set(first, args, kwargs, schedule=Every(every_ms, first))

    def cron(self, expression: str, *, tz: str = "UTC", missed: Missed = Missed.ONCE) -> None:
        """Fire by the clock of a time zone, as a cron expression of five fields says (see ``CronSchedule``)."""
        schedule = CronSchedule(expression, tz)
        self._set(next_after(schedule, self._turn.now_ms()), (), {}, schedule=schedule, missed=missed)

    def cancel(self) -> bool:
        """Fire no more; false if it was not set."""
        return self._turn.cancel_timer(self._name)

    def _set(
        self,
        due_at: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        schedule: Schedule | None = None,
        missed: Missed = Missed.ONCE,
    ) -> None:
        data = Raw(self._timer.signature.bind(args, kwargs))
        record = TimerRecord(
            method=self._timer.name,
            due_at=due_at,
            set_count=0,
            args=data,
            schedule=schedule,
            missed=missed,
            naming=BY_CONTENT,
        )
        self._turn.set_timer(self._name, record)


def after_firing(
    name: str, fired: dict[str, TimerRecord], now_set: dict[str, TimerRecord], now: int
) -> dict[str, TimerRecord]:
    """The timers after one of them has fired: set to its next tick, unless its own method has set it again."""
    record = now_set.get(name)
    if record is None or record.set_count != fired[name].set_count:
        return now_set
    if record.schedule is None:
        return {each: other for each, other in now_set.items() if each != name}
    dealt_with = record.due_at if record.missed is Missed.ALL else max(record.due_at, now)
    return now_set | {name: replace(record, due_at=next_after(record.schedule, dealt_with), naming=BY_CONTENT)}


def settings_replaced(before: dict[str, TimerRecord], now: dict[str, TimerRecord]) -> Iterator[str]:
    """The timers that were set again or cancelled: the failures of the old setting are not those of the new."""
    for name, record in before.items():
        if name not in now or now[name].set_count != record.set_count:
            yield name
