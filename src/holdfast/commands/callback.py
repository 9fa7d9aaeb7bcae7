"""The commands about callbacks: the holder of the token may answer, once."""

from __future__ import annotations

from typing import Any, Final

from holdfast.commands.context import Command, Context
from holdfast.commands.named import Named


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
    type: str = "CallbackFailed"

    async def perform(self, context: Context) -> None:
        await context.callback(self.token).fail(self.message, error_type=self.type)


class Heartbeat(OnCallback, frozen=True, tag="callback-heartbeat"):
    """Say that the work continues."""

    async def perform(self, context: Context) -> None:
        await context.callback(self.token).heartbeat()


COMMANDS: Final[tuple[Named, ...]] = (
    Named("callback complete", Complete, None),
    Named("callback fail", Fail, None),
    Named("callback heartbeat", Heartbeat, None),
)
