"""Performing a command for a caller: its right, what it is confined to, and the row in the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.commands import IN_HOME, NAMED, Context, perform_for
from holdfast.commands.actor import OnActor
from holdfast.commands.execution import Fork, OnExecution
from holdfast.commands.message import DropParked, Redrive, ShowParked
from holdfast.errors import NotFound
from holdfast.http.authentication import check_place

if TYPE_CHECKING:
    from holdfast.commands import Command
    from holdfast.dashboard.visit import Visit

T = TypeVar("T")


async def perform(visit: Visit, command: Command[T], own_id: str = "") -> T:
    """Do what a command says, for the caller of this visit, and keep a row of it.

    ``own_id`` is the id of the request, for a command that names none. Raises ``Problem`` without the right, and for a
    place that is not the caller's.
    """
    named = NAMED[type(command)]
    assert named.right is not None, "the holder of a callback's token needs no page"
    visit.check_right(named.right)
    await _check_place(visit, command)
    return await perform_for(visit.caller.name, command, Context(visit.app, IN_HOME, own_id))


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
            parked = await visit.read(ShowParked(id))
            if not parked.key.startswith(visit.tenant):
                raise NotFound(f"no message {id!r} is parked here")
        case _:
            raise AssertionError(command)  # a new kind of place has a rule here first
