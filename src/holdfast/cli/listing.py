"""``holdfast ls``: executions, newest first."""

from __future__ import annotations

import click

from holdfast.cli.declaring import after_option, limit_option
from holdfast.cli.output import coloured, plain, shown_moment, table
from holdfast.cli.selecting import selecting
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import now
from holdfast.client import Selection, StatusPage
from holdfast.clock import between, duration
from holdfast.commands.execution import ListExecutions
from holdfast.workflows.status import Status

HEADINGS = ("WORKFLOW", "ID", "STATUS", "CREATED (UTC)", "TOOK", "WAITS FOR, OR ERROR")


@click.command(
    "ls",
    epilog=examples(
        "holdfast ls -a shop:app",
        "holdfast ls --home sqlite:///shop.db --workflow checkout --status FAILED --since 2h",
        "holdfast ls -a shop:app --tag customer=acme --json",
        "holdfast ls -a shop:app --root checkout/order-17",
        "holdfast ls -a shop:app --waits-for signal:approval",
    ),
)
@selecting
@limit_option
@after_option
@on_home
def ls(session: Session, *, selection: Selection, limit: int, after: str | None) -> None:
    """List executions, newest first; on AWS by an index, or with --scan in no order."""
    command = ListExecutions.of(selection, after=after, limit=limit)
    page = session.perform(command)
    session.answer(page, _as_text(page))


def _as_text(page: StatusPage) -> str:
    if not page.executions:
        return "no executions"
    lines = table(HEADINGS, [_row(status) for status in page.executions])
    for place, status in enumerate(page.executions, start=1):
        lines[place] = lines[place].replace(status.status, coloured(status.status, status.status), 1)
    if page.cursor is not None:
        lines.append(f"there are more: add --after {page.cursor}")
    return "\n".join(lines)


def _row(status: Status) -> tuple[str, ...]:
    if status.ended_at is not None:
        took = duration(between(status.created_at, status.ended_at))
    else:
        took = f"{duration(between(status.created_at, now()))} so far"
    waits = ", ".join(f"{each.kind} {each.name}" for each in status.waits)
    error = plain(status.error or status.blocked or waits)
    return status.workflow, status.id, status.status, shown_moment(status.created_at), took, error
