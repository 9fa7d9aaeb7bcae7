"""Commands that change one execution: ``signal cancel terminate pause resume delete move retry fork``."""

from __future__ import annotations

from typing import Any, Final

import click

from holdfast.cli.declaring import on_execution
from holdfast.cli.session import Session, on_home
from holdfast.cli.values import json_value
from holdfast.commands import NAMED
from holdfast.commands.execution import (
    Cancel,
    Delete,
    Fork,
    Move,
    OnExecution,
    Pause,
    Resume,
    Retry,
    RetryNow,
    Signal,
    Terminate,
)


def _change(session: Session, command: OnExecution[None], told: str, *, action: str = "") -> None:
    """Perform a command, and tell that it is done. ``action`` is its name in the audit, if that is another one."""
    session.perform(command, action=action)
    answer = {"workflow": command.workflow, "id": command.id, "action": NAMED[type(command)].name}
    session.answer(answer, f"{command}: {told}")


@on_execution(
    "signal",
    'holdfast signal -a shop:app checkout order-17 approval \'{"by": "ann", "granted": true}\'',
    "holdfast signal --home sqlite:///shop.db checkout order-17 go",
)
@click.argument("name")
@click.argument("value", metavar="[JSON]", type=json_value, default="null")
@click.option("--signal-id", help="A repeat with the same id is dropped.")
@on_home
def signal(session: Session, *, workflow: str, id: str, name: str, value: Any, signal_id: str | None) -> None:
    """Send a named value to an execution, durably; it may come before the body waits for it."""
    _change(session, Signal(workflow, id, name, value, signal_id), f"signal {name} sent")


@on_execution("cancel", "holdfast cancel -a shop:app checkout order-17 --reason 'the customer changed her mind'")
@click.option("--reason", default="", help="Why; it is kept in the history.")
@on_home
def cancel(session: Session, *, workflow: str, id: str, reason: str) -> None:
    """Ask an execution to stop: its clean-up and its sagas run first."""
    _change(session, Cancel(workflow, id, reason), "asked to stop")


@on_execution(
    "terminate", "holdfast terminate --home sqlite:///shop.db checkout order-17 --reason 'duplicate of order-16'"
)
@click.option("--reason", default="terminated", help="Why; callers that await the execution see it.")
@on_home
def terminate(session: Session, *, workflow: str, id: str, reason: str) -> None:
    """End an execution at once, without clean-up or compensation. Prefer cancel."""
    _change(session, Terminate(workflow, id, reason), "terminated")


@on_execution("pause", "holdfast pause --home sqlite:///shop.db checkout order-17")
@on_home
def pause(session: Session, *, workflow: str, id: str) -> None:
    """Start no new steps of an execution until it is resumed; running ones finish."""
    _change(session, Pause(workflow, id), "paused")


@on_execution("resume", "holdfast resume --home sqlite:///shop.db checkout order-17")
@on_home
def resume(session: Session, *, workflow: str, id: str) -> None:
    """Continue a paused execution, or one that was parked because its processes died."""
    _change(session, Resume(workflow, id), "resumed")


@on_execution("delete", "holdfast delete --home sqlite:///shop.db checkout order-17")
@on_home
def delete(session: Session, *, workflow: str, id: str) -> None:
    """Delete an execution that has ended, with all it has stored; its id can then be used again."""
    _change(session, Delete(workflow, id), "deleted")


@on_execution("move", "holdfast move -a shop:app checkout order-17")
@on_home
def move(session: Session, *, workflow: str, id: str) -> None:
    """Pin an execution to the app's code, if the code that it was pinned to is gone. Finished steps stay finished.

    Needs the app's code, which must be the code of the workers.
    """
    _change(session, Move(workflow, id), "continues with this code")


@on_execution(
    "retry",
    "holdfast retry -a shop:app checkout order-17",
    "holdfast retry --home sqlite:///shop.db checkout order-18 --now",
)
@click.option(
    "--now", "at_once", is_flag=True, help="For an unfinished execution: end the pauses of steps between attempts."
)
@on_home
def retry(session: Session, *, workflow: str, id: str, at_once: bool) -> None:
    """Continue an execution that ended badly, from the operation that failed. Finished steps are not repeated.

    Needs the app's code: replaying it shows what followed from the failure. With --now the command is for an execution
    that has not ended, and needs no code: steps that wait for their next attempts make them at once.
    """
    if at_once:
        _change(session, RetryNow(workflow, id), "steps in back-off are tried now", action="retry")
    else:
        _change(session, Retry(workflow, id), "continues from where it failed")


@on_execution("fork", "holdfast fork --home sqlite:///shop.db checkout order-17 order-17-again --before charge#0")
@click.argument("new_id")
@click.option("--before", metavar="OPERATION", help="Leave out this operation of its history and all that came after.")
@on_home
def fork(session: Session, *, workflow: str, id: str, new_id: str, before: str | None) -> None:
    """Start a new execution with another one's input and its history up to an operation."""
    session.perform(Fork(workflow, id, new_id, before))
    answer = {"workflow": workflow, "id": new_id, "action": "fork", "forked_from": id}
    session.answer(answer, f"{workflow} {new_id}: forked from {id}")


COMMANDS: Final = (signal, cancel, terminate, pause, resume, delete, move, retry, fork)
