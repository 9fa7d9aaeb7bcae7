"""How the child executions of a Map run have ended, from their heads."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.asl.ending import STATUS_OF, SUCCEEDED, failure_in
from holdfast.asl.errors import DATA_LIMIT_EXCEEDED, RUNTIME, TASK_FAILED, TIMEOUT, Error, StatesError
from holdfast.errors import ExecutionError, ExecutionTimedOut, PayloadTooLarge
from holdfast.workflows.record import NO_VALUE, decode_record, is_there

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime


class Outcome(Struct, frozen=True, omit_defaults=True):
    """How a child execution has ended: with an output as JSON text, or with an error. Times are milliseconds."""

    status: str
    started_ms: int
    ended_ms: int
    output: str = ""
    error: str | None = None
    cause: str | None = None

    @property
    def value(self) -> Any:
        """What results tell of it: its output, or its error."""
        if self.status == SUCCEEDED:
            return json.loads(self.output)
        return StatesError(self.error, self.cause).output


async def outcomes_at(runtime: Runtime, partitions: list[str]) -> list[Outcome]:
    """How executions have ended. Raises ``StatesError`` if one of them is not there any more."""
    heads = await asyncio.gather(*map(runtime.home.store.get, partitions))
    return [_outcome(head, runtime.clock.now_ms()) for head in heads]


def _outcome(head: Item | None, now_ms: int) -> Outcome:
    if not is_there(head, now_ms):
        raise Error(RUNTIME, "A child execution has expired or was deleted before its Map run ended.")
    record = decode_record(head.body)
    status = STATUS_OF.get(head.status, head.status)
    error, cause = failure_in(status, record)
    output = "" if record.result == NO_VALUE else bytes(record.result).decode()
    return Outcome(status, record.created_at, record.ended_at or now_ms, output, error, cause)


def failure_of(error: ExecutionError) -> StatesError:
    """How the failure of an execution looks to the machine that awaits it."""
    own = error.__cause__
    if isinstance(own, Error):
        failed = StatesError(own.error, own.cause)
    elif isinstance(own, PayloadTooLarge):
        failed = StatesError(DATA_LIMIT_EXCEEDED, str(own))
    elif isinstance(error, ExecutionTimedOut):
        failed = StatesError(TIMEOUT)
    else:
        failed = StatesError(TASK_FAILED, str(error))
    failed.__cause__ = error
    return failed
