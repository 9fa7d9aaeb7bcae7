"""``holdfast bulk``: one command for all selected executions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

import click

from holdfast.bulk import (
    Verb,
    cancelling,
    deleting,
    forking,
    moving,
    pausing,
    resuming,
    retrying,
    retrying_now,
    signalling,
    terminating,
)
from holdfast.cli.many import after_option, chosen_by_code, chosen_in, run_on
from holdfast.cli.selecting import selecting
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import json_value
from holdfast.client import Selection
from holdfast.commands import IN_HOME, Context
from holdfast.commands.callback import AnswerCallback
from holdfast.workflows.handle import Handle
from holdfast.workflows.record import OPEN

ALL: Final = Selection()

all_option: Final = click.option("--all", "everything", is_flag=True, help="Every execution.")
yes_option: Final = click.option(
    "--yes", is_flag=True, help="Do it. Without this option, only print what would be done."
)
reason_option: Final = click.option("--reason", default="", help="Why.")


@click.group("bulk")
def bulk() -> None:
    """Do the same with all selected executions.

    Without --yes nothing is changed: the command prints what it would change. Each execution is tried by itself.
    Failures are listed at the end, and the exit status is 1 then. To continue after an interruption, run the same
    command again.
    """


def on_chosen(name: str, *lines: str) -> Callable[[Callable[..., None]], click.Command]:
    """Declare a command on all selected executions. ``lines`` are examples."""

    def declare(function: Callable[..., None]) -> click.Command:
        @selecting
        @all_option
        @yes_option
        @after_option
        @wraps(function)
        def checked(*args: Any, selection: Selection, everything: bool, **options: Any) -> None:
            if everything != (selection == ALL):
                raise click.UsageError(
                    "--all cannot be combined with options that select."
                    if everything
                    else "Which executions? Select them by options, or add --all."
                )
            function(*args, selection=selection, **options)

        return bulk.command(name, epilog=examples(*lines))(checked)

    return declare


@on_chosen(
    "retry",
    "holdfast bulk retry -a shop:app --workflow checkout --status FAILED --since 2h",
    "holdfast bulk retry -a shop:app --workflow checkout --status FAILED --since 2h --yes",
    "holdfast bulk retry --home sqlite:///shop.db --waits-for step:charge --now --yes",
)
@click.option(
    "--now", "at_once", is_flag=True, help="For unfinished executions: end the pauses of steps between attempts."
)
@on_home
def retry(session: Session, *, selection: Selection, at_once: bool, yes: bool, after: str | None) -> None:
    """Continue executions that ended badly, from the operations that failed. Needs the app's code, without --now."""
    if at_once:
        app = session.any_app()
        run_on(session, app, chosen_in(selection, app), "bulk retry", retrying_now(), yes=yes, after=after)
    else:
        app = session.app()
        run_on(session, app, chosen_by_code(selection, app), "bulk retry", retrying(), yes=yes, after=after)


@on_chosen("move", "holdfast bulk move -a shop:app --workflow checkout --yes")
@on_home
def move(session: Session, *, selection: Selection, yes: bool, after: str | None) -> None:
    """Pin blocked executions, whose own code is gone, to the app's code."""
    app = session.app()
    run_on(session, app, chosen_by_code(selection, app), "bulk move", moving(), yes=yes, after=after)


@on_chosen("pause", "holdfast bulk pause --home sqlite:///shop.db --waits-for step:charge --yes")
@on_home
def pause(session: Session, *, selection: Selection, yes: bool, after: str | None) -> None:
    """Start no new steps of unfinished executions until they are resumed; running ones finish."""
    app = session.any_app()
    run_on(session, app, chosen_in(selection, app), "bulk pause", pausing(), yes=yes, after=after)


@on_chosen("resume", "holdfast bulk resume --home sqlite:///shop.db --workflow checkout --status PAUSED --yes")
@on_home
def resume(session: Session, *, selection: Selection, yes: bool, after: str | None) -> None:
    """Continue executions that are paused, or were parked because their processes died."""
    app = session.any_app()
    run_on(session, app, chosen_in(selection, app), "bulk resume", resuming(), yes=yes, after=after)


@on_chosen(
    "signal",
    "holdfast bulk signal --home sqlite:///shop.db go --signal-id monday --waits-for signal:go --yes",
)
@click.argument("name")
@click.argument("value", metavar="[JSON]", type=json_value, default="null")
@click.option(
    "--signal-id", required=True, help="Each execution takes a signal with this id once: repeats are dropped."
)
@on_home
def signal(
    session: Session, *, selection: Selection, name: str, value: Any, signal_id: str, yes: bool, after: str | None
) -> None:
    """Send a named value to unfinished executions, durably."""
    app, verb = session.any_app(), signalling(name, value, signal_id)
    run_on(session, app, chosen_in(selection, app), "bulk signal", verb, yes=yes, after=after)


@on_chosen(
    "answer",
    "holdfast bulk answer --home sqlite:///shop.db parcel#0 --value true --waits-for callback:parcel --yes",
    "holdfast bulk answer --home sqlite:///shop.db parcel#0 --fail 'the carrier is closed' --workflow checkout --yes",
)
@click.argument("operation")
@click.option("--value", metavar="JSON", type=json_value, help="Answer with a value; null if neither is given.")
@click.option("--fail", metavar="TEXT", help="Answer with a failure: the body sees StepFailed with this message.")
@on_home
def answer(
    session: Session,
    *,
    selection: Selection,
    operation: str,
    value: Any,
    fail: str | None,
    yes: bool,
    after: str | None,
) -> None:
    """Answer a callback that unfinished executions wait for, without its tokens. holdfast show names its OPERATION."""
    app = session.any_app()
    context = Context(app, IN_HOME)

    def change(handle: Handle[Any]) -> Awaitable[None]:
        return AnswerCallback(handle.workflow, handle.id, operation, value, fail).perform(context)

    verb = Verb("answered", OPEN, change)
    run_on(session, app, chosen_in(selection, app), "bulk answer", verb, yes=yes, after=after)


@on_chosen("fork", "holdfast bulk fork -a shop:app --status FAILED --before charge#0 --suffix=-again --yes")
@click.option("--before", metavar="OPERATION", help="Leave out this operation of each history and all that came after.")
@click.option("--suffix", required=True, help="The new id is the old one with this at its end.")
@on_home
def fork(
    session: Session, *, selection: Selection, before: str | None, suffix: str, yes: bool, after: str | None
) -> None:
    """Start new executions with the input of others and their history up to an operation."""
    app, verb = session.any_app(), forking(suffix, before)
    run_on(session, app, chosen_in(selection, app), "bulk fork", verb, yes=yes, after=after)


@on_chosen("cancel", "holdfast bulk cancel --home sqlite:///shop.db --tag customer=acme --reason 'they left' --yes")
@reason_option
@on_home
def cancel(session: Session, *, selection: Selection, reason: str, yes: bool, after: str | None) -> None:
    """Ask unfinished executions to stop. Their clean-ups and sagas run first."""
    app, verb = session.any_app(), cancelling(reason)
    run_on(session, app, chosen_in(selection, app), "bulk cancel", verb, yes=yes, after=after)


@on_chosen("terminate", "holdfast bulk terminate --home sqlite:///shop.db --status BLOCKED --older-than 30d --yes")
@reason_option
@on_home
def terminate(session: Session, *, selection: Selection, reason: str, yes: bool, after: str | None) -> None:
    """End executions at once, without clean-up or compensation. Prefer cancel."""
    app, verb = session.any_app(), terminating(reason or "terminated")
    run_on(session, app, chosen_in(selection, app), "bulk terminate", verb, yes=yes, after=after)


@on_chosen("delete", "holdfast bulk delete --home sqlite:///shop.db --status COMPLETED --older-than 90d --yes")
@on_home
def delete(session: Session, *, selection: Selection, yes: bool, after: str | None) -> None:
    """Delete executions that have ended, with all they have stored. Unfinished ones stay."""
    app = session.any_app()
    run_on(session, app, chosen_in(selection, app), "bulk delete", deleting(), yes=yes, after=after)
