"""``holdfast audit``: who changed what, when, and with which result."""

from __future__ import annotations

from datetime import datetime

import click

from holdfast.app import App
from holdfast.cli.output import iso, plain, shown_moment, table
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import moment as moment_of
from holdfast.clock import moment
from holdfast.coordination.audit import AuditRow, rows_since

HEADINGS = ("WHEN (UTC)", "WHO", "ACTION", "OUTCOME", "WHAT")


@click.command(
    "audit",
    epilog=examples(
        "holdfast audit -a shop:app",
        "holdfast audit --home sqlite:///shop.db --since 2h --json",
    ),
)
@click.option("--since", metavar="TIME", type=moment_of, default="90d", show_default=True, help="How far to go back.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="The most to list.")
@on_home
def audit(session: Session, *, since: datetime, limit: int) -> None:
    """List the changes that callers over HTTP and users of the command line have made, newest first.

    Rows stay for 90 days, or for as long as HOLDFAST_AUDIT_WINDOW says.
    """

    async def look(app: App) -> list[AuditRow]:
        runtime = app.runtime()
        return await rows_since(runtime.home.store, runtime.clock, round(since.timestamp() * 1_000), limit)

    rows = session.run(look)
    told = [
        {"at": iso(moment(row.at)), "who": row.who, "action": row.action, "what": row.what, "outcome": row.outcome}
        for row in rows
    ]
    session.answer({"changes": told}, "\n".join(_as_lines(rows)) if rows else "no changes")


def _as_lines(rows: list[AuditRow]) -> list[str]:
    cells = [(shown_moment(moment(row.at)), plain(row.who), row.action, row.outcome, plain(row.what)) for row in rows]
    return table(HEADINGS, cells)
