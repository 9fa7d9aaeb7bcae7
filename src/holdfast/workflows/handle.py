"""Handles: everything one can do with an execution from outside, and from other workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Raw

from holdfast import ids
from holdfast.codec.parameters import INPUT_LIMIT_BYTES
from holdfast.codec.typed import encode_untyped
from holdfast.duration import Duration, seconds
from holdfast.errors import InvalidState, WaitTimeout
from holdfast.keys import check_id, check_reason, check_signal_name, check_text
from holdfast.tracing import here
from holdfast.workflows import control
from holdfast.workflows.deleting import delete
from holdfast.workflows.finding import head_of
from holdfast.workflows.fork import fork
from holdfast.workflows.history import Event, load, timeline
from holdfast.workflows.messages import send
from holdfast.workflows.operations.awaiting import await_execution
from holdfast.workflows.operations.send import SendCancel, SendSignal, send_from_body
from holdfast.workflows.outcome_error import outcome_error
from holdfast.workflows.queries import answer_of
from holdfast.workflows.record import (
    CANCELLED,
    NO_VALUE,
    CancelRequest,
    Message,
    RetryNow,
    Signal,
    decode_record,
    decode_result,
    describe_partition,
    partition_of,
)
from holdfast.workflows.retry_execution import retry
from holdfast.workflows.scope import current_activation, refuse_in_step
from holdfast.workflows.status import Status, blocked_for, status_of
from holdfast.workflows.wait_for_end import Ended, ended

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Connect, Runtime
    from holdfast.workflows.declared import DeclaredWorkflow

R = TypeVar("R")
T = TypeVar("T")


class Handle(Generic[R]):
    """One execution. Awaiting the handle awaits its result."""

    def __init__(self, workflow: DeclaredWorkflow, id: str, connect: Connect) -> None:
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
        if activation is not None:
            decode = self._workflow.signature.result.decode_steady
            wait = partial(await_execution, activation, self._partition, decode)
            awaited: R = await (wait() if timeout is None else self._within(timeout, wait, None))
            return awaited
        refuse_in_step("handle.result()")
        runtime = self._connect()
        wait_outside = partial(ended, runtime, self._partition)
        found = await (wait_outside() if timeout is None else self._within(timeout, wait_outside, runtime))
        result: R = result_of(self._workflow, found, runtime)
        return result

    async def _within(self, timeout: Duration, wait: Callable[[], Awaitable[T]], runtime: Runtime | None) -> T:
        limit = asyncio.timeout(seconds(timeout))
        try:
            async with limit:
                return await wait()
        except TimeoutError:
            if not limit.expired():
                raise  # it is what the execution failed with
            waited = timeout if isinstance(timeout, str) else f"{seconds(timeout):g} s"
            stands = "it goes on" if runtime is None else await self._stands(runtime)
            raise WaitTimeout(
                f"{describe_partition(self._partition)} has not ended within {waited}; {stands}"
            ) from None

    async def _stands(self, runtime: Runtime) -> str:
        """How it is, for a caller that has waited in vain."""
        why = blocked_for(await head_of(runtime, self._partition))
        if why is not None:
            return f"it is BLOCKED, and goes on once that is mended: {why}"
        return runtime.presence.missing(self._partition, runtime.host) or "it goes on"

    async def status(self) -> Status:
        """Where it stands. Raises ``NotFound``."""
        return status_of(await head_of(self._connect(), self._partition))

    async def history(self) -> list[Event]:
        """What has happened in its current run, in order."""
        runtime = self._connect()
        await head_of(runtime, self._partition)
        recorded = await load(runtime.home.store, self._partition)
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
        check_signal_name(name)  # of senders outside: in a body it may be what earlier code recorded
        data = encode_untyped(value, f"the value of signal {name!r}", self._connect().limit_bytes)
        await self._send(Signal(ids.new_id() if id is None else id, name, Raw(data), here()))

    async def cancel(self, reason: str = "", *, id: str | None = None) -> None:
        """Ask it to stop: ``CancelledError`` is raised where it waits, clean-up and sagas run, then it is CANCELLED.

        A repeat with the same ``id`` is dropped; in a workflow body the place of the call is its id. Neither
        clean-up nor undos are interrupted by another request: a body that goes on nevertheless gets that later.
        Raises ``NotFound``, and ``InvalidState`` if it has ended in another way.
        """
        check_text("the reason of a cancellation", reason)
        if id is not None:
            check_text("a cancellation's id", id)
            check_id("a cancellation's id", id)
        activation = current_activation()
        if activation is not None:
            await send_from_body(activation, SendCancel(self._partition, reason))
            return
        refuse_in_step("handle.cancel()")
        check_reason("a cancellation", reason)  # as with a signal's name
        await self._send(CancelRequest(reason, ids.new_id() if id is None else id))

    async def terminate(self, reason: str = "terminated") -> None:
        """End it at once, without clean-up or compensation. Children that it awaits are cancelled afterwards."""
        await control.terminate(self._connect(), self._partition, check_reason("a termination", reason))

    async def pause(self) -> None:
        """Let it start nothing new until ``resume``, or until it is cancelled or runs past its timeout."""
        await control.pause(self._connect(), self._partition)

    async def resume(self) -> None:
        """Let a paused execution go on, or one that is parked because its processes died of it (``BLOCKED``)."""
        await control.resume(self._connect(), self._partition)

    async def move(self) -> None:
        """Pin it to the code of this app, if its own is gone: it goes on from its journal, as a compatible one would.

        What was recorded is matched by identity; where both disagree it is left BLOCKED, and says why (G13).
        Raises ``NotFound``, and ``InvalidState`` if it has ended, is being worked on, or its workflow is not pinned.
        """
        if not self._workflow.is_pinned:
            raise InvalidState(f"{self.workflow} is not pinned: any version of its code goes on with its executions")
        await control.move(self._connect(), self._partition, self._workflow.version)

    async def retry(self) -> None:
        """Go on with an execution that ended badly, from what failed. Finished steps are not repeated (G2).

        Raises ``NotFound``, and ``InvalidState`` if it has not ended badly, its saga has undone its work, or what
        failed is at most once and may have happened (G10).
        """
        runtime = self._connect()
        await head_of(runtime, self._partition)
        await retry(runtime, self._partition)

    async def retry_now(self) -> None:
        """Let its steps that wait for their next attempts make them now, durably; other waits go on (G1).

        Does nothing if no step waits so. Raises ``NotFound`` and ``InvalidState`` (it has ended).
        """
        refuse_in_step("handle.retry_now()")
        await self._send(RetryNow())

    async def delete(self) -> None:
        """Delete it, with its journal and all it has stored; its id is free then. Only what has ended can be deleted.

        Executions waiting for it by handle are told first. Raises ``NotFound``, and ``InvalidState`` if it is open, if
        its parent is and has not heard yet how it ended, or if it was terminated and no worker has cancelled its
        children yet.
        """
        await delete(self._connect(), self._partition)

    async def fork(self, id: str, *, before: str | None = None) -> Handle[R]:
        """Start a new execution from this one's journal up to the operation ``before`` (a name of its history).

        Raises ``NotFound``, ``InvalidInput`` (no such operation), and ``InvalidState`` if the id is taken, or a step
        that the new one would keep was undone later.
        """
        runtime = self._connect()
        await head_of(runtime, self._partition)
        await fork(runtime, self._partition, id, before)
        return Handle(self._workflow, id, self._connect)

    async def query(self, name: str) -> Any:
        """Call the function that the body exposed with ``@hf.query``, on its recorded state, and answer its value.

        Of an execution that has ended, and whose code has changed since, it is what was recorded at the end, as plain
        JSON. Raises ``NotFound``, ``UnknownName``, and ``InvalidInput`` for a query that asks for something durable.
        """
        return await answer_of(self._connect(), self._partition, self._workflow, name)

    async def _send(self, message: Message) -> None:
        runtime = self._connect()
        now = runtime.clock.now_ms()
        if not await send(self._partition, message, runtime.home, runtime.host, runtime.sender, now):
            status = await self.status()
            if isinstance(message, CancelRequest) and status.status == CANCELLED:
                return  # it is what was asked for
            raise InvalidState(f"{describe_partition(self._partition)} has ended as {status.status}")


def result_of(workflow: DeclaredWorkflow, found: Ended, runtime: Runtime) -> Any:
    """The result of an execution that has ended. Raises the ``ExecutionError`` of one without a result."""
    recorded = decode_result(found.body)
    if recorded.result != NO_VALUE:
        return workflow.signature.result.decode(bytes(recorded.result))
    raise outcome_error(found.status, decode_record(found.body), runtime.registry.errors)
