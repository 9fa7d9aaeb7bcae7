"""``holdfast timers``: the timers of all actors."""

from __future__ import annotations

import click

from holdfast.actors.admin.listing import SetTimer, list_timers
from holdfast.app import App
from holdfast.cli.actor_show import again
from holdfast.cli.declaring import limit_option
from holdfast.cli.output import shown_moment, table
from holdfast.cli.scanning import scan_option
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import now
from holdfast.clock import between, duration

HEADINGS = ("DUE (UTC)", "", "ACTOR", "KEY", "TIMER", "AGAIN")


@click.group("timers")
def timers() -> None:
    """Inspect the timers of actors. The schedules of cron are timers of hidden actors."""


@timers.command(
    "ls",
    epilog=examples(
        "holdfast timers ls -a shop:app",
        "holdfast timers ls --home sqlite:///shop.db Cart --limit 10 --json",
    ),
)
@click.argument("name", required=False)
@limit_option
@scan_option
@on_home
def ls(session: Session, *, name: str | None, limit: int, scan: bool) -> None:
    """List the timers of all actors, or of those of one class, by due time. Reads every actor of the home."""

    async def look(app: App) -> tuple[SetTimer, ...]:
        return await list_timers(app.runtime(), name, limit=limit, scan=scan)

    found = session.run(look)
    lines = table(HEADINGS, [_row(each) for each in found]) if found else ["no timers"]
    session.answer({"timers": found}, "\n".join(lines))


def _row(timer: SetTimer) -> tuple[str, ...]:
    ahead = between(now(), timer.due_at)
    told = f"in {duration(ahead)}" if ahead > 0 else f"for {duration(-ahead)}"
    return shown_moment(timer.due_at), told, timer.actor, timer.key, timer.name, again(timer.schedule)
