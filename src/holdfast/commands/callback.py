"""The commands about callbacks: the holder of the token may answer, once, and so may an operator without it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from holdfast.client import callback_error
from holdfast.codec.typed import encode_untyped
from holdfast.commands.context import Command, Context
from holdfast.commands.execution import OnExecution
from holdfast.commands.named import Named
from holdfast.commands.right import Right
from holdfast.errors import InvalidInput
from holdfast.keys import check_text
from holdfast.workflows.answering import answer_callback
from holdfast.workflows.record import check_id, partition_of

CALLBACK_FAILED: Final = "CallbackFailed"
"""The type of an error that answers a callback, unless it has another."""


class OnCallback(Command[None], frozen=True):
    """What is about one callback."""

    token: str


class Complete(OnCallback, frozen=True, tag="callback-complete"):
    """Answer with a value."""

    value: Any = None

    async def perform(self, context: Context) -> None:
        await context.callback(self.token).complete(self.value)


class Fail(OnCallback, frozen=True, tag="callback-fail"):
    """Answer with a failure: the body sees ``StepFailed`` with this type and message."""

    message: str
    type: str = CALLBACK_FAILED

    async def perform(self, context: Context) -> None:
        await context.callback(self.token).fail(self.message, error_type=self.type)


class Heartbeat(OnCallback, frozen=True, tag="callback-heartbeat"):
    """Say that the work continues."""

    async def perform(self, context: Context) -> None:
        await context.callback(self.token).heartbeat()


class AnswerCallback(OnExecution[None], frozen=True, tag="callback-answer"):
    """Answer a callback that an execution waits for, by its operation and without its token: with a value, or with an
    error, which the body sees as ``StepFailed``.
    """

    operation: str
    value: Any = None
    error: str | None = None
    error_type: str = CALLBACK_FAILED

    def __str__(self) -> str:
        return f"{self.workflow} {self.id} {self.operation}"

    async def perform(self, context: Context) -> None:
        runtime = context.app.runtime()
        context.names.workflow(context.app, self.workflow)
        partition = partition_of(self.workflow, check_id(self.id))
        op = check_text("the operation of a callback", self.operation)
        if self.error is None:
            value = Raw(encode_untyped(self.value, "the callback's value", runtime.limit_bytes))
            await answer_callback(runtime, partition, op, value=value)
            return
        if self.value is not None:
            raise InvalidInput("a callback is answered with a value or an error, not with both")
        await answer_callback(runtime, partition, op, error=callback_error(self.error_type, self.error))


COMMANDS: Final[tuple[Named, ...]] = (
    Named("callback complete", Complete, None),
    Named("callback fail", Fail, None),
    Named("callback heartbeat", Heartbeat, None),
    Named("callback answer", AnswerCallback, Right.CONTROL, audited=True),
)
