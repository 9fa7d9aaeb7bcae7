"""Doing the same with all selected executions, or only telling what would be done; a report of each at the end."""

from __future__ import annotations

from typing import Final

import click
from msgspec import Struct

from holdfast.app import App
from holdfast.bulk import Changed, Chosen, Verb
from holdfast.cli.entry import EXIT_ERROR
from holdfast.cli.output import as_json, echo, plain
from holdfast.cli.progress import Ticker
from holdfast.cli.session import Session
from holdfast.client import Selection
from holdfast.commands import IN_HOME, Context
from holdfast.errors import HoldfastError

SHOWN: Final = 10

after_option: Final = click.option("--after", metavar="CURSOR", help="Continue where an earlier command ended.")


class Failure(Struct, frozen=True):
    """An execution that was left unchanged, and why."""

    workflow: str
    id: str
    code: str
    message: str


class Tally(Struct):
    """The progress. ``cursor`` is where to continue."""

    changed: int = 0
    failed: list[Failure] = []
    cursor: str | None = None


def _told(selection: Selection) -> str:
    """The request, in one line."""
    named = ((name, getattr(selection, name)) for name in selection.__struct_fields__)
    return as_json({name: value for name, value in named if value})


def chosen_in(selection: Selection, app: App) -> Chosen:
    """What a selection chooses in a home, without the code of its workflows."""
    return Chosen(selection, app.runtime, Context(app, IN_HOME).handle)


def chosen_by_code(selection: Selection, app: App) -> Chosen:
    """What a selection chooses in a home, for what needs the code of its workflows."""
    return Chosen(selection, app.runtime, app.handle)


def run_on(
    session: Session,
    app: App,
    chosen: Chosen,
    action: str,
    verb: Verb,
    *,
    yes: bool,
    after: str | None,
    left: tuple[str, ...] = (),
) -> None:
    """Do something with all that are chosen, or only tell. ``left`` are codes of errors that fail no command: what they
    are about is left as it is, and told.
    """
    if not yes:
        _only_tell(session, app, chosen, action, verb, after)
        return
    tally = Tally(cursor=after)
    try:
        session.change(action, _told(chosen.selection), lambda _app: _change(session, chosen, verb, tally), app)
    except (HoldfastError, KeyboardInterrupt):
        if tally.cursor is not None:
            echo(f"{tally.changed:,} {verb.done} so far; to continue: --after {tally.cursor}", err=True)
        raise
    lines = [f"{tally.changed:,} {verb.done}"]
    lines += [f"not {verb.done}: {each.workflow} {plain(each.id)}: {plain(each.message)}" for each in tally.failed]
    session.answer(
        {"action": action.removeprefix("bulk "), "changed": tally.changed, "failed": tally.failed}, "\n".join(lines)
    )
    if any(each.code not in left for each in tally.failed):
        raise click.exceptions.Exit(EXIT_ERROR)


async def _change(session: Session, chosen: Chosen, verb: Verb, tally: Tally) -> None:
    with Ticker(quiet=session.json) as ticker:
        async for page in chosen.change(verb, after=tally.cursor):
            tally.failed += [_failure(each, each.error) for each in page.changed if each.error is not None]
            tally.changed += sum(each.error is None for each in page.changed)
            tally.cursor = page.cursor
            if seen := tally.changed + len(tally.failed):
                ticker.tell(f"{tally.changed:,} {verb.done}, {len(tally.failed):,} not", seen)


def _how(action: str) -> str:
    return "add --yes" if action.startswith("bulk ") else "leave out --dry-run"


def _failure(changed: Changed, error: Exception) -> Failure:
    code = error.code if isinstance(error, HoldfastError) else type(error).__name__
    return Failure(changed.workflow, changed.id, code, str(error))


def _only_tell(session: Session, app: App, chosen: Chosen, action: str, verb: Verb, after: str | None) -> None:
    async def look(_app: App) -> tuple[int, list[dict[str, str]]]:
        count, first = 0, list[dict[str, str]]()
        async for page in chosen.fit_for(verb).pages(after=after):
            count += len(page.executions)
            some = page.executions[: SHOWN - len(first)]
            first += [{"workflow": each.workflow, "id": each.id, "status": each.status} for each in some]
        return count, first

    count, first = session.run(look, app)
    lines = [f"{each['workflow']} {plain(each['id'])}  {each['status']}" for each in first]
    if count > len(first):
        lines.append(f"and {count - len(first):,} more")
    lines.append(f"{count:,} would be {verb.done}: {_how(action)} to do it" if count else "no executions")
    session.answer(
        {"action": action.removeprefix("bulk "), "dry_run": True, "matching": count, "first": first}, "\n".join(lines)
    )
