"""Performing a command for a caller: the one way by which every surface does, with a row in the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.commands.table import NAMED
from holdfast.coordination.audit import audited

if TYPE_CHECKING:
    from holdfast.commands.context import Command, Context

A = TypeVar("A")


async def perform_for(who: str, command: Command[A], context: Context, *, action: str = "") -> A:
    """Perform a command for the caller ``who``, and return its answer. Raises what the command raises in Python.

    A command that is audited leaves a row: who, its name (or ``action``), what it is about, and how it went. The row
    is written before the command is performed; ``StoreError`` if it cannot be, and nothing is changed then.

        await perform_for("ann", Cancel("checkout", "order-17"), Context(app))
    """
    named = NAMED[type(command)]
    if not named.audited:
        return await command.perform(context)
    runtime = context.app.runtime()
    async with audited(runtime.home.store, runtime.clock, who, action or named.name, str(command)):
        return await command.perform(context)
