"""What can be done from outside to an execution, an actor, a message or a callback: one command for every surface.

A command is data. ``perform`` does what it says; HTTP, Lambda and the command line read it from what they are sent, and
write what it answers in their own form.
"""

from __future__ import annotations

from typing import TypeVar

from holdfast.commands.context import IN_CODE, IN_HOME, Command, Context, Names
from holdfast.commands.named import Named
from holdfast.commands.performing import perform_for
from holdfast.commands.table import COMMANDS, NAMED
from holdfast.messaging.publishing import Publishes

A = TypeVar("A")

__all__ = ["COMMANDS", "IN_CODE", "IN_HOME", "NAMED", "Command", "Context", "Named", "Names", "perform", "perform_for"]


async def perform(command: Command[A], app: Publishes, *, names: Names = IN_CODE, own_id: str = "") -> A:
    """Do what a command says in an open app, and answer what there is to tell.

    ``own_id`` is the id of the request, for a command that names none: a repeat of the request is a repeat of the
    command then (G1, G5, G11). Raises what the command raises in Python.
    """
    return await command.perform(Context(app, names, own_id))
