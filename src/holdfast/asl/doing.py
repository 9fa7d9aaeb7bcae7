"""One attempt of a Task: what it is given, and the events that tell how far it is."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.asl.binding import failure_of
from holdfast.asl.errors import TIMEOUT, StatesError
from holdfast.asl.resources import Limits, Resource
from holdfast.asl.targets import Performer

if TYPE_CHECKING:
    from holdfast.asl.frames import Frame, Run


class Doing(Struct, frozen=True):
    """An attempt of a Task."""

    run: Run
    frame: Frame
    resource: Resource
    given: Any
    limits: Limits
    performer: Performer

    def schedule(self) -> None:
        """It is scheduled, and has started."""
        self.frame.trail.note("TaskScheduled", resource=self.resource.text, parameters=self.given)
        self.frame.trail.note("TaskStarted")

    def submit(self, output: Any) -> None:
        """The service has taken it, and answers later how it went."""
        self.frame.trail.note("TaskSubmitted", output=output)

    async def call(self, target: Any) -> Any:
        """What the code that is mapped for it answers. Raises ``StatesError``."""
        self.run.pace.operations += 1
        try:
            return await self.performer.done(self.run.activation, target, self.resource.text, self.given, self.limits)
        except Exception as error:
            raise failure_of(error) from error

    async def ended(self, work: Awaitable[Any], kind: str = "Task") -> Any:
        """What the work answers, and the event of its end. Raises ``StatesError``."""
        try:
            result = await work
        except StatesError as failed:
            end = "TimedOut" if failed.error == TIMEOUT else "Failed"
            self.frame.trail.note(f"{kind}{end}", error=failed.error, cause=failed.cause)
            raise
        self.frame.trail.note(f"{kind}Succeeded", output=result)
        return result
