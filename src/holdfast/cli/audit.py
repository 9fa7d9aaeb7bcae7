"""``holdfast audit``: who changed what, when, and with which result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast.cli.declaring import after_option, limit_option
from holdfast.cli.output import plain, shown_moment, table
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import moment as moment_of
from holdfast.clock import iso, moment
from holdfast.commands.system import ListAudit
from holdfast.coordination.audit import AuditRow

HEADINGS = ("WHEN (UTC)", "WHO", "ACTION", "OUTCOME", "WHAT")


@click.command(
    "audit",
    epilog=examples(
        "holdfast audit -a shop:app",
        "holdfast audit --home sqlite:///shop.db --since 2h --json",
    ),
)
@click.option("--since", metavar="TIME", type=moment_of, default="90d", show_default=True, help="How far to go back.")
@limit_option
@after_option
@on_home
def audit(session: Session, *, since: datetime, limit: int, after: str | None) -> None:
    """List the changes that callers over HTTP and users of the command line have made, newest first.

    Rows stay for 90 days, or for as long as HOLDFAST_AUDIT_WINDOW says.
    """
    page = session.perform(ListAudit(since, after, limit))
    told = [
        {"at": iso(moment(row.at)), "who": row.who, "action": row.action, "what": row.what, "outcome": row.outcome}
        for row in page.items
    ]
    lines = _as_lines(page.items) if page.items else ["no changes"]
    if page.after is not None:
        lines.append(f"there are more: add --after {page.after}")
    session.answer({"changes": told, "cursor": page.after}, "\n".join(lines))


def _as_lines(rows: Sequence[AuditRow]) -> list[str]:
    cells = [(shown_moment(moment(row.at)), plain(row.who), row.action, row.outcome, plain(row.what)) for row in rows]
    return table(HEADINGS, cells)
