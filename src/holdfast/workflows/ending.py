"""How an execution leaves its turn for good: with an outcome, or as a new run."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.errors import CompensationFailed, ContinueAsNew, InvalidInput
from holdfast.failure import describe
from holdfast.kernel.outcomes import Conclusion
from holdfast.logs import log, told_traceback
from holdfast.replay.entries import Entry, Received
from holdfast.replay.requests import Raised, Returned
from holdfast.texts import printable
from holdfast.workflows import record as records
from holdfast.workflows.messages import was_started
from holdfast.workflows.operations.awaiting import answers
from holdfast.workflows.outcome_error import outcome_error
from holdfast.workflows.queries import last_answers
from holdfast.workflows.record import (
    CALLBACK_PREFIX,
    MAILBOX_PREFIX,
    NO_VALUE,
    AwaitedEnded,
    ChildEnded,
    ExecutionRecord,
    encode_record,
    post,
)
from holdfast.workflows.runs import count_of
from holdfast.workflows.undo_failed import joined

if TYPE_CHECKING:
    from holdfast.kernel.outcomes import Post
    from holdfast.ports import Home
    from holdfast.replay.activation import Activation
    from holdfast.workflows.declared import DeclaredWorkflow
    from holdfast.workflows.live import Live

SEEN_SIGNALS: Final = 100
"""How many signals of earlier runs a new run remembers, to recognise their repeats (G5)."""

LOGGED: Final = (records.FAILED, records.TIMED_OUT, records.COMPENSATION_FAILED)
"""The ends that are logged: no caller has asked for them."""


class Ending(Struct, frozen=True, gc=False, kw_only=True):
    """An execution whose body has ended. ``tail`` are the last entries of its journal."""

    partition: str
    record: ExecutionRecord
    tail: tuple[Entry, ...]
    ended_at: int
    workflow: DeclaredWorkflow
    live: Live
    activation: Activation
    seen: tuple[str, ...]
    awaited_by: tuple[str, ...]

    def conclusion(self) -> Conclusion:
        """The head as it shall be, and the messages that leave with it."""
        error: BaseException
        outcome = self.activation.outcome
        match _ungrouped(outcome) if isinstance(outcome, Raised) else outcome:
            case _ if failed_sagas := self.activation.context.failed_sagas:  # whatever the body has made of it
                error = joined(failed_sagas.values())
            case Returned(value):
                try:
                    data, _ = self.workflow.signature.result.copy(
                        value, f"the result of {self.workflow.signature.what}", self.live.limit_bytes
                    )
                    return self._ended(records.COMPLETED, self._finished(result=Raw(data)))
                except InvalidInput as unfit:
                    error = unfit
            case Raised(ContinueAsNew()) if self.activation.main.cancelled_late:
                error = asyncio.CancelledError()  # the request came between two runs, where no body could see it
            case Raised(ContinueAsNew(input=input)):
                return self._next_run(input)
            case Raised(raised):
                error = raised
            case _:
                raise AssertionError(self.activation.outcome)
        status = self._status_of(error)
        if (
            status in (records.CANCELLED, records.TIMED_OUT)
            and (cancelled := self.activation.main.cancelled) is not None
        ):
            error = asyncio.CancelledError(cancelled.reason or "nobody said why")
        return self._ended(status, self._finished(error=describe(error)))

    def _finished(self, **outcome: object) -> ExecutionRecord:
        return replace(self.record, tail=self.tail, notes=(), blocked="", ended_at=self.ended_at, **outcome)

    def _status_of(self, error: BaseException) -> str:
        if isinstance(error, CompensationFailed):
            return records.COMPENSATION_FAILED
        if isinstance(error, asyncio.CancelledError):
            cancelled = self.activation.main.cancelled
            return records.TIMED_OUT if cancelled is not None and cancelled.timed_out else records.CANCELLED
        return records.FAILED

    def _ended(self, status: str, record: ExecutionRecord) -> Conclusion:
        retention_ms, telemetry = self.workflow.policy.retention_ms, self.live.host.telemetry
        expires_at = None if retention_ms is None else self.ended_at + retention_ms
        failure = (
            None if record.result != NO_VALUE else describe(outcome_error(status, record, self.live.registry.errors))
        )
        posts: list[Post] = []
        stays = expires_at is None
        if self.awaited_by:
            told = AwaitedEnded(self.partition, record.result, failure, stays)
            posts += answers(told, self.awaited_by, self.live.sender, self.ended_at)
        if (parent := record.parent) is not None:
            message = ChildEnded(parent.run, parent.op, record.result, failure, parent.nonce, stays)
            sort = self.live.sender.next_sort()
            posts.append((parent.partition, partial(post, parent.partition, sort, message, self.ended_at)))
        if (starter := record.starter) is not None and expires_at is not None:
            sort = self.live.sender.next_sort()
            message = was_started(record.id, starter)
            posts.append((starter.partition, partial(post, starter.partition, sort, message, self.ended_at)))
        if self.activation.queries:
            record = replace(record, queries=last_answers(self.activation))
        listens = status in LOGGED or telemetry.is_detailed or telemetry.tracer is not None
        report = partial(self._report, status, record) if listens else None
        return Conclusion(status, encode_record(record), expires_at=expires_at, posts=posts, report=report)

    def _report(self, status: str, record: ExecutionRecord) -> None:
        """The end is durable."""
        telemetry = self.live.host.telemetry
        if telemetry.is_detailed:
            took_ms = self.ended_at - record.created_at
            telemetry.detail("finished", partition=self.partition, status=status, seconds=took_ms / 1000)
        if (tracer := telemetry.tracer) is not None:
            telemetry.trace(tracer.recorded, self.partition, record, self.tail)
            telemetry.trace(tracer.ended, self.partition, record, status)
        if status in LOGGED:
            _log_failure(status, record, self.live.host.home)

    def _next_run(self, input: bytes) -> Conclusion:
        now = self.ended_at
        carried = tuple(
            Received(f"carried/{self.record.run}/{place}", name, now, value)
            for place, (name, value) in enumerate(self.activation.mailboxes.unread())
            if not name.startswith(MAILBOX_PREFIX)
        )
        record = replace(
            self.record,
            input=Raw(input),
            run=self.record.run + 1,
            run_at=now,
            version=self.workflow.version,
            moved_to="",
            notes=(),
            blocked="",
            tail=(),
            ended_at=None,
            carried=carried,
            seen=tuple(id for id in self.seen if not id.startswith(CALLBACK_PREFIX))[-SEEN_SIGNALS:],
            awaited_by=self.awaited_by,
            seed="",
            starts_at=0,
        )
        report = None if self.live.host.telemetry.tracer is None else self._report_run
        return Conclusion(records.READY, encode_record(record), due_at=now, report=report)

    def _report_run(self) -> None:
        """The next run is durable, and nothing else keeps the last entries of this one."""
        telemetry = self.live.host.telemetry
        if (tracer := telemetry.tracer) is not None:
            telemetry.trace(tracer.recorded, self.partition, self._finished(), self.tail)


def _log_failure(status: str, record: ExecutionRecord, home: Home) -> None:
    """Log that an execution ended badly, as one record: lines of others do not part it."""
    assert record.error is not None
    name = printable(f"workflow {record.workflow} {record.id}")
    of = {"workflow": record.workflow, "id": record.id, "run": count_of(record.run), "status": status}
    log(logging.WARNING, "%s ended as %s\n%s", name, status, told_traceback(record.error, home), of=of)


def _ungrouped(outcome: Raised) -> Raised:
    """A task group wraps what was raised in it; to continue as new is no error among others, if it is alone."""
    group: Any = outcome.error
    if not isinstance(group, BaseExceptionGroup):
        return outcome
    asked, others = cast("Any", group).split(ContinueAsNew)
    while hasattr(asked, "exceptions"):
        asked = asked.exceptions[0]
    return outcome if others is not None or asked is None else Raised(asked)
