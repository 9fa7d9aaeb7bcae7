"""Performing a command for the caller of a page: its right, and what it is confined to, before anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.actors.admin.listing import ParkedMessage
from holdfast.commands import IN_HOME, NAMED, Context, perform_for
from holdfast.commands.actor import OnActor
from holdfast.commands.execution import Fork, OnExecution
from holdfast.commands.limit import OnLimit
from holdfast.commands.message import DropParked, Redrive, ShowParked
from holdfast.commands.queue import OnQueue
from holdfast.errors import NotFound
from holdfast.http.authentication import check_place

if TYPE_CHECKING:
    from holdfast.commands import Command
    from holdfast.dashboard.visit import Visit

T = TypeVar("T")


async def perform(visit: Visit, command: Command[T]) -> T:
    """Do what a command says, for the caller of this visit, with a row in the audit.

    Raises ``Problem`` without the right, and for a place that is not the caller's.
    """
    right = NAMED[type(command)].right
    assert right is not None, "the holder of a callback's token needs no page"
    visit.check_right(right)
    await _check_place(visit, command)
    return await perform_for(visit.caller.name, command, Context(visit.app, IN_HOME))


async def _check_place(visit: Visit, command: Command[Any]) -> None:
    if not visit.tenant:
        return
    match command:
        case Fork(id=id, new_id=new_id):
            check_place(visit.caller, id)
            check_place(visit.caller, new_id or "")
        case OnExecution(id=id):
            check_place(visit.caller, id)
        case OnActor(key=key):
            check_place(visit.caller, key)
        case Redrive(id=id) | DropParked(id=id):
            await own_letter(visit, id)
        case OnQueue() | OnLimit():
            visit.check_whole_home()
        case _:
            raise AssertionError(command)  # a new kind of place has a rule here first


async def own_letter(visit: Visit, id: str) -> ParkedMessage:
    """A dead letter. Raises ``NotFound``, also for another tenant's."""
    parked = await visit.read(ShowParked(id))
    if not parked.key.startswith(visit.tenant):
        raise NotFound(f"no message {id!r} is parked here")
    return parked
