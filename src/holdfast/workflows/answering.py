"""Answering a callback without its token, for operators: by its operation, in the execution's current run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw

from holdfast.errors import InvalidState, UnknownName
from holdfast.failure import describe
from holdfast.workflows.callback_tokens import TokenScope
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import load
from holdfast.workflows.messages import answer_once, was_answered
from holdfast.workflows.record import (
    MAILBOX_PREFIX,
    NO_VALUE,
    OPEN,
    CallbackAnswer,
    ExecutionRecord,
    answered_sort,
    decode_record,
    describe_partition,
)
from holdfast.workflows.replay import looked_into
from holdfast.workflows.waits import CALLBACK

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


async def answer_callback(
    runtime: Runtime, partition: str, op: str, *, value: Raw = NO_VALUE, error: Exception | None = None
) -> None:
    """Answer the callback ``op`` that an execution waits for, with a value or an error, as the holder of its token
    would: once. A repeat of the answer that was taken changes nothing, and is taken too (G11).

    Raises ``NotFound``, ``UnknownName`` if the execution does not wait for such a callback, and ``InvalidState`` if it
    has ended, or if the callback has another answer or has timed out.
    """
    head = await head_of(runtime, partition)
    record, store = decode_record(head.body), runtime.home.store
    scope = TokenScope(partition, record.run, op)
    answer = CallbackAnswer(record.run, op, value, None if error is None else describe(error))
    if await was_answered(store, scope, answer):
        return
    if head.status not in OPEN:
        raise InvalidState(f"{describe_partition(partition)} has ended as {head.status}")
    if await store.get(partition, answered_sort(record.run, op)) is not None:
        raise _used_up(partition, op)
    if op not in _told(record):
        await _check_awaited(runtime, partition, record, op)
    if not await answer_once(scope, answer, runtime.home, runtime.host, runtime.clock.now_ms()):
        raise _used_up(partition, op)


def _told(record: ExecutionRecord) -> list[str]:
    """The callbacks that an execution waits for, as its head tells it: that may be some of them, or late."""
    return [] if record.waits is None else [each.op for each in record.waits.waits if each.kind == CALLBACK]


async def _check_awaited(runtime: Runtime, partition: str, record: ExecutionRecord, op: str) -> None:
    """Raise ``UnknownName`` unless the body, if its code is here, waits for the callback."""
    awaited = _told(record)
    workflow = runtime.registry.workflows.get(record.workflow)
    if workflow is not None:
        recorded = await load(runtime.home.store, partition)
        with looked_into(recorded, recorded.entries, workflow, runtime.registry.errors.rebuild) as activation:
            activation.begin()
            names = [name for name, _ in activation.mailboxes.takers()] if activation.broken is None else []
        awaited = sorted({*awaited, *(each.removeprefix(MAILBOX_PREFIX) for each in names if _is_callback(each))})
    if op not in awaited:
        known = ", ".join(map(repr, awaited)) or "none"
        raise UnknownName(f"{describe_partition(partition)} waits for no callback {op!r} now; it waits for: {known}")


def _is_callback(name: str) -> bool:
    return name.startswith(MAILBOX_PREFIX)


def _used_up(partition: str, op: str) -> InvalidState:
    return InvalidState(f"the callback {op!r} of {describe_partition(partition)} has been answered or has timed out")
