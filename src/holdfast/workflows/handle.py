"""Handles: everything one can do with an execution from outside, and from other workflows."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Raw, Struct

from holdfast import ids
from holdfast.clock import moment
from holdfast.codec.parameters import INPUT_LIMIT_BYTES
from holdfast.codec.typed import encode_untyped
from holdfast.duration import Duration, seconds
from holdfast.errors import InvalidInput, InvalidState, UnknownName, WaitTimeout
from holdfast.keys import check_id
from holdfast.workflows import control
from holdfast.workflows.fork import fork
from holdfast.workflows.history import Event, load, timeline
from holdfast.workflows.launch import outcome_error
from holdfast.workflows.messages import send
from holdfast.workflows.operations.awaiting import await_execution
from holdfast.workflows.operations.send import SendCancel, SendSignal, send_from_body
from holdfast.workflows.record import (
    NO_VALUE,
    CancelRequest,
    ExecutionRecord,
    Message,
    Signal,
    check_text,
    decode_record,
    decode_result,
    describe_partition,
    partition_of,
    pinned_to,
)
from holdfast.workflows.replay import activation_of
from holdfast.workflows.retry import retry
from holdfast.workflows.scope import current_activation, refuse_in_step

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.workflows.access import Access, Ended
    from holdfast.workflows.definition import Workflow

R = TypeVar("R")


class Status(Struct, frozen=True, kw_only=True):
    """An execution at a glance. Payloads are not in it; ``error`` is its cause in one line.

    ``version`` is that of its code, ``published`` the version of a function of Lambda that has it: of pinned ones only.
    """

    workflow: str
    id: str
    status: str
    version: str
    run: int
    created_at: datetime
    ended_at: datetime | None
    due_at: datetime | None
    tags: dict[str, str]
    error: str | None
    published: str | None = None


class Handle(Generic[R]):
    """One execution. Awaiting the handle awaits its result."""

    def __init__(self, workflow: Workflow[..., R], id: str, connect: Callable[[], Access]) -> None:
        self.id = id
        self.workflow = workflow.name
        self._workflow = workflow
        self._partition = partition_of(workflow.name, id)
        self._connect = connect

    def __repr__(self) -> str:
        return f"<Handle of {self.workflow} {self.id!r}>"

    def __await__(self) -> Generator[Any, Any, R]:
        return self.result().__await__()

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait for the end and answer the result, decoded by the workflow's return type.

        Raises an ``ExecutionError`` if it ended otherwise, with the cause's class as ``__cause__`` where that is
        registered; ``WaitTimeout`` if the time is up (the execution goes on); ``NotFound``.
        """
        activation = current_activation()
        decode = self._workflow.signature.result.decode
        if activation is not None:
            async with asyncio.timeout(None if timeout is None else seconds(timeout)):
                awaited: R = await await_execution(activation, self._partition, decode)
                return awaited
        refuse_in_step("handle.result()")
        access = self._connect()
        ended = await (access.ended(self._partition) if timeout is None else self._ended_within(timeout, access))
        recorded = decode_result(ended.body)
        if recorded.result != NO_VALUE:
            result: R = decode(bytes(recorded.result))
            return result
        raise outcome_error(ended.status, decode_record(ended.body), access.registry.errors)

    async def _ended_within(self, timeout: Duration, access: Access) -> Ended:
        try:
            async with asyncio.timeout(seconds(timeout)):
                return await access.ended(self._partition)
        except TimeoutError:
            told, waited = describe_partition(self._partition), timeout
            if not isinstance(waited, str):
                waited = f"{seconds(waited):g} s"
            raise WaitTimeout(f"{told} has not ended within {waited}; it goes on") from None

    async def status(self) -> Status:
        """Where it stands. Raises ``NotFound``."""
        return status_of(await self._connect().head(self._partition))

    async def history(self) -> list[Event]:
        """What has happened in its current run, in order."""
        access = self._connect()
        await access.head(self._partition)
        recorded = await load(access.home.store, self._partition)
        return timeline(recorded.entries)

    async def signal(self, name: str, value: Any = None, *, id: str | None = None) -> None:
        """Send a value to ``hf.signal(name)`` in the body, durably; it may come before the body waits for it (G1, G6).

        A repeat with the same ``id`` is dropped; after ``continue_as_new`` the last 100 are still recognised. Raises
        ``NotFound`` and ``InvalidState`` (it has ended).
        """
        check_text("a signal's name", name)
        if id is not None:
            check_text("a signal's id", id)
            check_id("a signal's id", id)
        activation = current_activation()
        if activation is not None:
            data = encode_untyped(value, f"the value of signal {name!r}", INPUT_LIMIT_BYTES)
            await send_from_body(activation, SendSignal(self._partition, name, data, id))
            return
        refuse_in_step("handle.signal()")
        data = encode_untyped(value, f"the value of signal {name!r}", self._connect().limit_bytes)
        await self._send(Signal(ids.new_id() if id is None else id, name, Raw(data)))

    async def cancel(self, reason: str = "") -> None:
        """Ask it to stop: ``CancelledError`` is raised where it waits, clean-up and sagas run, then it is CANCELLED."""
        check_text("the reason of a cancellation", reason)
        activation = current_activation()
        if activation is not None:
            await send_from_body(activation, SendCancel(self._partition, reason))
            return
        refuse_in_step("handle.cancel()")
        await self._send(CancelRequest(reason))

    async def terminate(self, reason: str = "terminated") -> None:
        """End it at once, without clean-up or compensation. Children go on."""
        await control.terminate(self._connect(), self._partition, check_text("the reason of a termination", reason))

    async def pause(self) -> None:
        """Let it start nothing new until ``resume``."""
        await control.pause(self._connect(), self._partition)

    async def resume(self) -> None:
        """Let a paused execution go on."""
        await control.resume(self._connect(), self._partition)

    async def move(self) -> None:
        """Pin it to the code of this app, if its own is gone: it goes on from its journal, as a compatible one would.

        What was recorded is matched by identity; where both disagree it fails with ``NondeterminismError`` (G13).
        Raises ``NotFound``, and ``InvalidState`` if it has ended, is being worked on, or its workflow is not pinned.
        """
        if not self._workflow.is_pinned:
            raise InvalidState(f"{self.workflow} is not pinned: any version of its code goes on with its executions")
        await control.move(self._connect(), self._partition, self._workflow.version)

    async def retry(self) -> None:
        """Go on with an execution that ended badly, from what failed. Finished steps are not repeated (G2)."""
        await retry(self._connect(), self._partition)

    async def fork(self, id: str, *, before: str | None = None) -> Handle[R]:
        """Start a new execution from this one's journal up to the operation ``before`` (a name of its history)."""
        await fork(self._connect(), self._partition, id, before)
        return Handle(self._workflow, id, self._connect)

    async def query(self, name: str) -> Any:
        """Call the function that the body exposed with ``@hf.query``, on its recorded state, and answer its value."""
        access = self._connect()
        await access.head(self._partition)
        recorded = await load(access.home.store, self._partition)
        rebuild = access.registry.errors.rebuild
        activation = activation_of(
            self._partition, recorded.record, self._workflow, recorded.entries, rebuild, looking=True
        )
        try:
            activation.begin()
            if activation.broken is not None:
                raise activation.broken
            if name not in activation.queries:
                known = ", ".join(sorted(activation.queries)) or "none"
                raise UnknownName(
                    f"{describe_partition(self._partition)} exposes no query {name!r} now; it has: {known}"
                )
            answer = activation.ask(name)
            if inspect.iscoroutine(answer):
                answer.close()
                raise InvalidInput(f"query {name!r} waits for something: write it as a plain def that only looks")
            return answer
        finally:
            activation.evict()

    async def _send(self, message: Message) -> None:
        access = self._connect()
        now = access.clock.now_ms()
        if not await send(self._partition, message, access.home, access.host, access.sender, now):
            status = await self.status()
            raise InvalidState(f"{describe_partition(self._partition)} has ended as {status.status}")


def status_of(head: Item) -> Status:
    """A head as users see it."""
    record: ExecutionRecord = decode_record(head.body)
    error = record.error
    return Status(
        workflow=record.workflow,
        id=record.id,
        status=head.status,
        version=pinned_to(record),
        run=record.run,
        created_at=moment(record.created_at),
        ended_at=None if record.ended_at is None else moment(record.ended_at),
        due_at=None if head.due_at is None else moment(head.due_at),
        tags=record.tags,
        error=None if error is None else f"{error.type.rpartition('.')[2]}: {error.message}",
        published=record.published or None,
    )
