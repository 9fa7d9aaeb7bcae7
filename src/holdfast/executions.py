"""What an app offers to look at its executions and actors from outside, and to change them: one, or all chosen."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.bulk import Chosen
from holdfast.client import CallbackHandle, StatusPage, list_executions
from holdfast.client import select as selection_of
from holdfast.clock import moment
from holdfast.deferred import LazyModule
from holdfast.duration import Duration, milliseconds
from holdfast.errors import InvalidInput
from holdfast.workflows.handle import Handle

if TYPE_CHECKING:
    from holdfast.actors.admin import handle as handles
    from holdfast.actors.admin import listing
    from holdfast.actors.admin.handle import ActorHandle
    from holdfast.actors.admin.listing import ActorPage, ParkedPage
    from holdfast.kernel.runtime import Declares
    from holdfast.workflows.definition import Workflow
    from holdfast.workflows.record import Named
else:  # who looks at executions alone loads nothing of actors
    handles, listing = (LazyModule(f"holdfast.actors.admin.{name}", globals()) for name in ("handle", "listing"))


def handle(app: Declares, workflow: str, id: str) -> Handle[Any]:
    """A handle on an execution, by its workflow's name. Raises ``UnknownName``."""
    found: Workflow[..., Any] = app.registry.workflow(workflow)
    return found.handle(id)


def callback(app: Declares, token: str) -> CallbackHandle:
    """The outside of a callback: ``complete``, ``fail`` or ``heartbeat`` it."""
    return CallbackHandle(token, app.runtime)


async def executions(  # noqa: PLR0913 - one for each thing to find them by
    app: Declares,
    workflow: str | None = None,
    *,
    status: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    tags: dict[str, str] | None = None,
    parent: Named | None = None,
    root: Named | None = None,
    waits_for: str | None = None,
    after: str | None = None,
    limit: int = 100,
    scan: bool = False,
) -> StatusPage:
    """List executions, newest first, a page at a time.

    ``parent`` and ``root`` are handles, say: the executions that it has called, or its whole family. ``waits_for`` is
    what they wait for: a kind, such as ``"signal"``, or a kind and a name, ``"signal:approval"``. On AWS a list without
    an index reads the whole table, which is billed: only with ``scan``, else ``InvalidInput`` is raised.
    """
    selection = selection_of(
        workflow,
        status=status,
        since=since,
        until=until,
        tags=tags,
        parent=parent,
        root=root,
        waits_for=waits_for,
        scan=scan,
    )
    return await list_executions(app.runtime(), selection, after=after, limit=limit)


def actor(app: Declares, actor: str, key: str) -> ActorHandle:
    """A handle on an actor, by its class's name: inspect it, delete it, repair it."""
    return handles.ActorHandle(actor, key, app.runtime)


async def parked(app: Declares, actor: str | None = None, *, after: str | None = None, limit: int = 100) -> ParkedPage:
    """List the parked messages of actors and consumers, in the order they were sent, a page at a time."""
    return await listing.list_parked(app.runtime(), actor, after=after, limit=limit)


async def actors(
    app: Declares,
    actor: str | None = None,
    *,
    status: str | None = None,
    after: str | None = None,
    limit: int = 100,
    scan: bool = False,
) -> ActorPage:
    """List actors, newest first, a page at a time; deleted ones only with ``status="DELETED"``; ``scan`` as for
    ``executions``.
    """
    return await listing.list_actors(app.runtime(), actor, status=status, after=after, limit=limit, scan=scan)


def select(  # noqa: PLR0913 - one for each thing to find them by
    app: Declares,
    workflow: str | None = None,
    *,
    status: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    older_than: Duration | None = None,
    tags: dict[str, str] | None = None,
    parent: Named | None = None,
    root: Named | None = None,
    waits_for: str | None = None,
    ended_before: datetime | None = None,
    scan: bool = False,
) -> Chosen:
    """Choose executions, to retry, cancel, terminate or delete all of them; without a wish, all there are.

    ``older_than`` is how long ago they were created at least. ``ended_before`` chooses only what has ended, and before
    then. ``scan`` as for ``executions``. Raises ``InvalidInput``.
    """
    if older_than is not None:
        if until is not None:
            raise InvalidInput("until and older_than say the same: give one of them")
        until = moment(app.clock.now_ms() - milliseconds(older_than))
    selection = selection_of(
        workflow,
        status=status,
        since=since,
        until=until,
        tags=tags,
        parent=parent,
        root=root,
        ended_before=ended_before,
        waits_for=waits_for,
        scan=scan,
    )
    return Chosen(selection, app.runtime, partial(handle, app))
