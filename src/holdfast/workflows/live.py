"""The live half of operations: what they may use of the world when the body asks for something new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from holdfast.coordination.inbox import Sender
from holdfast.errors import Refused
from holdfast.failure import ErrorRecord, describe
from holdfast.items import OwnerIs, Update
from holdfast.kernel.wake import wake
from holdfast.persist import write_for_caller
from holdfast.replay.delivery import deliver
from holdfast.replay.entries import Aside, Done, Entry, Failed, Intended, Progressed, Renewed, Tried, renamed
from holdfast.replay.program import AnyEffect, Arrival
from holdfast.workflows.messages import send
from holdfast.workflows.noted import NOTHING, Noted
from holdfast.workflows.record import AwaitRequest, Message, await_sort, operation_key, post
from holdfast.workflows.trace_ids import traceparent_of

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.registrations import Registrations
    from holdfast.replay.requests import Operation
    from holdfast.workflows.record import ExecutionRecord
    from holdfast.workflows.threads import Threads

NONE_NOTED: Final[Mapping[str, Noted]] = MappingProxyType({})
"""What is noted of operations that were never tried before, by most executions: they share it."""


class Live(Struct):
    """One execution's access to its host. ``noted`` is what is known of operations that were under way before,
    ``shared`` the body of the item that the execution shares with others.
    """

    host: Host
    registry: Registrations
    record: ExecutionRecord
    partition: str
    limit_bytes: int
    sender: Sender
    threads: Threads
    noted: Mapping[str, Noted] = NONE_NOTED
    shared: bytes = b""

    def now_ms(self) -> int:
        return self.host.clock.now_ms()

    def report(self, entry: Entry) -> None:
        """Have something noted in the journal while an operation is under way."""
        deliver(self.host, self.partition, Arrival(entry))

    async def send(self, partition: str, message: Message) -> bool:
        """Send to another execution; false if it is not there or has ended."""
        return await send(partition, message, self.host.home, self.host, self.sender, self.now_ms())

    async def ask_to_be_told(self, partition: str) -> bool:
        """Ask another execution to tell us of its end; false if it has ended, or was asked before."""
        writes = post(
            partition, await_sort(self.partition, self.record.nonce), AwaitRequest(self.partition), self.now_ms()
        )
        try:
            await write_for_caller(self.host.home.store, *writes, ours=lambda _there: False)
        except Refused:
            return False
        wake(partition, self.host.home, self.host)
        return True

    def operation_key(self, op: str) -> str:
        """What identifies an operation across all executions, attempts, machines and homes."""
        return operation_key(self.partition, self.record, self.name_of(op))

    def traceparent(self) -> str:
        """The context of what the execution sends and starts; empty if it is not traced and has no caller that is."""
        if (tracer := self.host.telemetry.tracer) is not None:
            return tracer.context(self.partition, self.record)
        return traceparent_of(self.partition, self.record) if self.record.trace else ""

    def name_of(self, op: str) -> str:
        """The name from which an operation's key is derived: its identity, unless a retry has started it again."""
        return renamed(op, self.notes_on(op).renewed)

    # ── What is known of operations besides their outcomes ──────────────────────────────────────────────────────────

    def notes_on(self, op: str) -> Noted:
        """What is noted of an operation."""
        return self.noted.get(op, NOTHING)

    def amend(self, op: str, **changes: object) -> None:
        """Change what is noted of an operation."""
        self._set(op, replace(self.notes_on(op), **changes))

    def _set(self, op: str, noted: Noted) -> None:
        if isinstance(self.noted, dict):
            self.noted[op] = noted
        else:
            self.noted = {op: noted}

    def note(self, entry: Entry) -> None:
        """Record what the journal notes of an operation besides its outcome."""
        match entry:
            case Tried():
                self.amend(entry.op, tried=entry, intended=False)  # how that attempt ended is known
            case Intended():
                self.amend(entry.op, intended=True)
            case Progressed():
                self.amend(entry.op, progressed=entry.details)
            case Aside(outcome=outcome):
                self.amend(outcome.op, aside=outcome)
            case Renewed():
                self.renew(entry.op)
            case _:
                pass

    def renew(self, op: str) -> None:
        """Let an operation go by another key: what was noted of the one before it does not count."""
        noted = self.notes_on(op)
        self._set(op, Noted(died=noted.died, renewed=noted.renewed + 1))

    def fence(self) -> int:
        """The epoch under which this process owns the execution; it only grows from one owner to the next."""
        return self.host.entities[self.partition].hold.epoch

    def guard(self) -> Update:
        """A write that changes nothing, and is refused if another process owns the execution now (G3)."""
        return Update(partition=self.partition, when=OwnerIs(self.host.home.owner, self.fence()))

    def done(
        self, operation: Operation, value: bytes, *, copy: Any = UNSET, attempts: int = 1, began: int = 0
    ) -> Arrival:
        """The arrival that says an operation ended well."""
        entry = Done(
            op=operation.id,
            at=self.host.clock.now_ms(),
            kind=operation.kind,
            value=Raw(value),
            fingerprint=operation.fingerprint,
            attempts=attempts,
            began=began,
        )
        return Arrival(entry, copy)

    def failed(
        self, operation: Operation, error: BaseException | ErrorRecord, *, attempts: int = 1, began: int = 0
    ) -> Arrival:
        """The arrival that says an operation ended badly, for good."""
        entry = Failed(
            op=operation.id,
            at=self.now_ms(),
            kind=operation.kind,
            error=error if isinstance(error, ErrorRecord) else describe(error),
            fingerprint=operation.fingerprint,
            attempts=attempts,
            began=began,
        )
        return Arrival(entry)


def recorder(live: Live) -> Callable[[Sequence[Entry]], None] | None:
    """What makes spans of entries that have become durable, if anything does."""
    telemetry = live.host.telemetry
    if (tracer := telemetry.tracer) is None:
        return None
    return lambda entries: telemetry.trace(tracer.recorded, live.partition, live.record, entries)


class Command(Protocol):
    """What an operation asks for: data that knows its effect."""

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        """The effect to start, now or after a failed attempt."""
        ...

    def withdrawn(self, operation: Operation, live: Live, /) -> Sequence[AnyEffect]:
        """What to do because the body no longer waits for it."""
        ...
