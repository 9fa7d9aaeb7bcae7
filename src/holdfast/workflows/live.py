"""The live half of operations: what they may use of the world when the body asks for something new."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import UNSET, Raw, Struct

from holdfast.coordination.inbox import Sender
from holdfast.failure import describe
from holdfast.kernel.entries import Done, Entry, Failed, Intended, Tried
from holdfast.kernel.program import AnyEffect, Arrival
from holdfast.workflows.messages import send
from holdfast.workflows.record import Message, operation_key

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.requests import Operation
    from holdfast.workflows.record import ExecutionRecord
    from holdfast.workflows.registry import Registry


class Live(Struct, frozen=True):
    """One execution's access to its host."""

    host: Host
    registry: Registry
    record: ExecutionRecord
    partition: str
    pool: Executor
    limit_bytes: int
    sender: Sender
    tried: dict[str, Tried]
    intended: dict[str, Intended]
    progressed: dict[str, Raw]

    def now_ms(self) -> int:
        return self.host.clock.now_ms()

    def report(self, entry: Entry) -> None:
        """Have something noted in the journal while an operation is under way."""
        self.host.deliver(self.partition, Arrival(entry))

    async def send(self, partition: str, message: Message) -> bool:
        """Send to another execution; false if it is not there or has ended."""
        return await send(partition, message, self.host.home, self.host, self.sender, self.now_ms())

    def operation_key(self, op: str) -> str:
        """What identifies an operation across all executions, attempts, machines and homes."""
        return operation_key(self.partition, self.record, op)

    def fence(self) -> int:
        """The epoch under which this process owns the execution; it only grows from one owner to the next."""
        return self.host.entities[self.partition].epoch

    def done(
        self, operation: Operation, value: bytes, *, copy: Any = UNSET, attempts: int = 1, began: int = 0
    ) -> Arrival:
        """The arrival that says an operation ended well."""
        entry = Done(
            op=operation.id,
            at=self.now_ms(),
            kind=operation.kind,
            value=Raw(value),
            fingerprint=operation.fingerprint,
            attempts=attempts,
            began=began,
        )
        return Arrival(entry, copy)

    def failed(self, operation: Operation, error: BaseException, *, attempts: int = 1, began: int = 0) -> Arrival:
        """The arrival that says an operation ended badly, for good."""
        entry = Failed(
            op=operation.id,
            at=self.now_ms(),
            kind=operation.kind,
            error=describe(error),
            fingerprint=operation.fingerprint,
            attempts=attempts,
            began=began,
        )
        return Arrival(entry)


class Command(Protocol):
    """What an operation asks for: data that knows its effect."""

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        """The effect to start, now or after a failed attempt."""
        ...

    def withdrawn(self, operation: Operation, live: Live, /) -> Sequence[AnyEffect]:
        """What to do because the body no longer waits for it."""
        ...
