"""What a body asks of the outside, and how it stands with the body."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any, Final, Protocol

from msgspec import UNSET, Struct

from holdfast.failure import ErrorRecord
from holdfast.replay.entries import TIMER, Done, Entry, Failed, Pending, Resumed, is_sleep
from holdfast.replay.loop import DurableLoop
from holdfast.replay.tasks import DurableFuture, Handle, Timer, closed_callback

Decode = Callable[[bytes], Any]

NO_OPERATIONS: Final[dict[str, str]] = {}
"""What is noted of a body that waits for timers and messages only. They share it, for sleepers are many."""


class Operation(DurableFuture):
    """Something the body asked of the outside, called ``name`` in the code. ``command`` says what is to be done.
    ``formerly`` is its fingerprint as earlier releases have recorded it, if that was another one.

    ``began`` is when the attempt that is under way did, ``beat`` when it reported last, in milliseconds; 0 if not.
    """

    __slots__ = ("_decode", "beat", "began", "command", "fingerprint", "formerly", "id", "kind", "name")

    def __init__(
        self,
        loop: DurableLoop,
        id: str,
        name: str,
        kind: str,
        command: Any,
        fingerprint: str,
        decode: Decode,
        formerly: str = "",
    ) -> None:
        super().__init__(loop=loop)
        self.id = id
        self.name = name
        self.kind = kind
        self.command = command
        self.fingerprint = fingerprint
        self.formerly = formerly
        self.began = self.beat = 0
        self._decode = decode

    def fits(self, recorded: str) -> bool:
        """Whether what is recorded under this fingerprint is the same operation, as far as is known."""
        return recorded in ("", self.fingerprint, self.formerly)

    def cancel(self, msg: Any = None) -> bool:
        was_cancelled = super().cancel(msg)
        if was_cancelled:
            _withdraw(self, self.get_loop())
        return was_cancelled

    def fail(self, error: Exception) -> None:
        _withdraw(self, self.get_loop())
        super().fail(error)

    def settle(self, entry: Done | Failed, value: Any, rebuild: Callable[[ErrorRecord], Exception]) -> None:
        """Hand the recorded outcome to the body; ``value`` is the decoded result where the caller has it already.

        Raises what the decoder raises if what was recorded does not fit the code's type any more.
        """
        match entry:
            case Done():
                self.set_result(self._decode(bytes(entry.value)) if value is UNSET else value)
            case Failed(error=error):
                self.set_exception(rebuild(error))


class DueTimer(Timer):
    """A durable timer: it fires at ``due_at`` (milliseconds), never earlier (G8).

    It is no future: firing it makes a callback of asyncio's ready; cancelling it withdraws it. ``closes`` is the
    callback that takes no answer any more once it has fired, if any.
    """

    kind: Final = TIMER

    __slots__ = ("_loop", "closes", "delay_ms", "due_at", "id")

    def __init__(
        self,
        when: float,
        handle: Handle,
        loop: DurableLoop,
        id: str,
    ) -> None:
        super().__init__(when, handle)
        self.id = id
        self.closes = closed_callback.get()
        self.due_at = _milliseconds(when)
        self.delay_ms = _milliseconds(when - loop.now)
        self._loop = loop

    @property
    def fingerprint(self) -> str:
        """What replay compares: how long it was asked to wait."""
        return f"{self.delay_ms} ms"

    def fits(self, recorded: str) -> bool:
        """See ``Operation``."""
        return recorded in ("", self.fingerprint)

    @property
    def began_at(self) -> int:
        """Since when it waits, in milliseconds."""
        return self.due_at - self.delay_ms

    @property
    def resolves(self) -> Any:
        """The future that a sleep awaits; of another timer what its callback gets, if anything."""
        return self._handle.argument

    def count_from(self, at_ms: int) -> None:
        """Fire as long after ``at_ms`` (milliseconds) as was asked for."""
        self.due_at = at_ms + self.delay_ms

    def cancel(self) -> None:
        if not self._handle.is_cancelled:
            self._handle.is_cancelled = True
            _withdraw(self, self._loop)

    def done(self) -> bool:
        return self._handle.is_cancelled

    def settle(self, _entry: Done | Failed, _value: Any, _rebuild: Callable[[ErrorRecord], Exception]) -> None:
        self._loop.schedule(self._handle)


def _withdraw(request: Request, loop: Any) -> None:
    """The body does not wait for it any more. One that has left memory waits for nothing."""
    if loop.activation is not None:
        loop.activation._withdraw(request)  # noqa: SLF001 - a method of each request would cost each sleeper one


def _milliseconds(seconds: float) -> int:
    """Rounded up, but for the noise of floating point: no timer fires early (G8)."""
    return math.ceil(round(seconds * 1000, 3))


Request = Operation | DueTimer


def is_limit(request: Request) -> bool:
    """Whether it is a time-out: it limits what the body waits for, and is no wait of its own."""
    return isinstance(request, DueTimer) and not is_sleep(request.id)


class Wants(Struct, gc=False):
    """What a body newly wants of the outside, and what it does not want any more.

    ``begun`` is what it has asked for since, and ``asked`` what of that it still wants; ``waits`` are those for
    messages. ``notes`` are for the journal, and nothing depends on them.
    """

    begun: list[Request] = []
    asked: list[Request] = []
    waits: tuple[str, ...] = ()
    withdrawn: list[Request] = []
    marked: tuple[Entry, ...] = ()
    notes: tuple[Resumed, ...] = ()
    closed_callbacks: tuple[str, ...] = ()

    def pending(self, steps: Container[str], named: Container[str] = ()) -> Pending:
        """What other code has to know of it. ``steps`` are the names of those that the app has, ``named`` are the
        operations that the body names itself.
        """
        operations = NO_OPERATIONS
        waits = self.waits
        others: tuple[str, ...] = ()
        for each in self.begun:
            if isinstance(each, DueTimer):
                waits += (each.id,)
                continue
            operations = operations or {}
            operations[each.id] = each.fingerprint
            if each.name not in steps or each.id in named:
                others += (each.id,)
        return Pending(operations, waits, others)


class Waker(Protocol):
    """What drives a body."""

    def wake(self) -> None:
        """Look soon: something has come for the body from elsewhere."""
        ...


class Running(Struct, frozen=True):
    """The body waits for something."""


class Returned(Struct, frozen=True):
    """The body ended with a value."""

    value: Any


class Raised(Struct, frozen=True):
    """The body ended with an error, ``ControlFlow`` included."""

    error: BaseException


Outcome = Running | Returned | Raised
RUNNING: Final = Running()
