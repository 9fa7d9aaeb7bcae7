"""``holdfast ls``: executions, newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from holdfast.app import App
from holdfast.cli.output import between, coloured, duration, moment, plain, table
from holdfast.cli.session import TAG, Session, on_home
from holdfast.client import LARGEST_PAGE, StatusPage
from holdfast.clock import SystemClock
from holdfast.duration import seconds
from holdfast.errors import InvalidInput
from holdfast.workflows.handle import Status
from holdfast.workflows.record import STATUSES

HEADINGS = ("WORKFLOW", "ID", "STATUS", "CREATED (UTC)", "TOOK", "ERROR")


class Since(click.ParamType):
    """A moment: an ISO date or time (UTC if it names no zone), or how long ago."""

    name = "WHEN"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        text = str(value)
        try:
            return now() - timedelta(seconds=seconds(text))
        except InvalidInput:
            pass
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is no moment; write 2h for two hours ago, or 2025-11-30T12:00", param, ctx)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def now() -> datetime:
    """The time by this machine's clock."""
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)


@click.command("ls")
@click.option("--workflow", help="Only of this workflow.")
@click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only in this status.")
@click.option("--since", type=Since(), help="Only those created since then: 2h, 7d, 2025-11-30, 2025-11-30T12:00Z.")
@click.option("--tag", "tags", type=TAG, multiple=True, help="Only with this label; may be repeated.")
@click.option("--limit", type=click.IntRange(1, LARGEST_PAGE), default=50, show_default=True, help="At most so many.")
@click.option("--after", metavar="CURSOR", help="Go on where an earlier list ended.")
@on_home
def ls(
    session: Session,
    *,
    workflow: str | None,
    status: str | None,
    since: datetime | None,
    tags: tuple[tuple[str, str], ...],
    limit: int,
    after: str | None,
) -> None:
    """List executions, newest first.

    \b
    Examples:
      holdfast ls -a shop:app
      holdfast ls --home sqlite:///shop.db --workflow checkout --status FAILED --since 2h
      holdfast ls -a shop:app --tag customer=acme --json
    """

    async def look(app: App) -> StatusPage:
        return await app.executions(workflow, status=status, since=since, tags=dict(tags), after=after, limit=limit)

    page = session.run(look)
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
    error = "" if status.error is None else plain(status.error)
    return status.workflow, status.id, status.status, moment(status.created_at), took, error
