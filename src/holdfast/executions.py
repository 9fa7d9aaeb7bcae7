"""What an app offers to look at its executions from outside, and to change them: one, or all that are chosen."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.bulk import Chosen
from holdfast.client import CallbackHandle, StatusPage, list_executions, select
from holdfast.clock import Clock, moment
from holdfast.duration import Duration, milliseconds
from holdfast.errors import InvalidInput
from holdfast.workflows.handle import Handle

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.registrations import Registrations
    from holdfast.workflows.definition import Workflow
    from holdfast.workflows.record import Named


class Declared(Protocol):
    """The app, as its executions are looked at."""

    @property
    def registry(self) -> Registrations: ...

    @property
    def clock(self) -> Clock: ...

    def runtime(self) -> Runtime: ...

    def handle(self, workflow: str, id: str) -> Handle[Any]: ...


class Executions:
    """The executions of an app."""

    def handle(self: Declared, workflow: str, id: str) -> Handle[Any]:
        """A handle on an execution, by its workflow's name. Raises ``UnknownName``."""
        found: Workflow[..., Any] = self.registry.workflow(workflow)
        return found.handle(id)

    def callback(self: Declared, token: str) -> CallbackHandle:
        """The outside of a callback: ``complete``, ``fail`` or ``heartbeat`` it."""
        return CallbackHandle(token, self.runtime)

    async def executions(  # noqa: PLR0913 - one for each thing to find them by
        self: Declared,
        workflow: str | None = None,
        *,
        status: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tags: dict[str, str] | None = None,
        parent: Named | None = None,
        root: Named | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> StatusPage:
        """List executions, newest first, a page at a time.

        ``parent`` and ``root`` are handles, say: the executions that it has called, or its whole family.
        """
        selection = select(workflow, status=status, since=since, until=until, tags=tags, parent=parent, root=root)
        return await list_executions(self.runtime(), selection, after=after, limit=limit)

    def select(
        self: Declared,
        workflow: str | None = None,
        *,
        status: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        older_than: Duration | None = None,
        tags: dict[str, str] | None = None,
        parent: Named | None = None,
        root: Named | None = None,
    ) -> Chosen:
        """Choose executions, to retry, cancel or terminate all of them; without a wish, all there are.

        ``older_than`` is how long ago they were created at least. Raises ``InvalidInput``.
        """
        if older_than is not None:
            if until is not None:
                raise InvalidInput("until and older_than say the same: give one of them")
            until = moment(self.clock.now_ms() - milliseconds(older_than))
        selection = select(workflow, status=status, since=since, until=until, tags=tags, parent=parent, root=root)
        return Chosen(selection, self.runtime, self.handle)
