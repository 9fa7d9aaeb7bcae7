"""``holdfast prune``: a retention that also counts for what has ended already."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import click
from msgspec.structs import replace

from holdfast.bulk import deleting
from holdfast.cli.many import after_option, chosen_in, run_on
from holdfast.cli.scanning import scan_option
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import duration, now
from holdfast.client import select
from holdfast.workflows.record import ENDED

LEFT: Final = ("invalid_state", "not_found")
"""Awaited by its parent, say, or deleted by another process meanwhile: the next time it goes."""


@click.command(
    "prune",
    epilog=examples(
        "holdfast prune -a shop:app --older-than 30d --dry-run",
        "holdfast prune --home sqlite:///shop.db --older-than 30d --workflow checkout --status COMPLETED",
    ),
)
@click.option(
    "--older-than", metavar="DURATION", type=duration, required=True, help="Only those that ended longer ago than this."
)
@click.option("--workflow", help="Only of this workflow.")
@click.option(
    "--status",
    "statuses",
    type=click.Choice(ENDED, case_sensitive=False),
    multiple=True,
    help="Only those that ended so; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@after_option
@scan_option
@on_home
def prune(
    session: Session,
    *,
    older_than: float,
    workflow: str | None,
    statuses: tuple[str, ...],
    dry_run: bool,
    after: str | None,
    scan: bool,
) -> None:
    """Delete executions that ended long ago, with all they have stored, whatever retention they ended under.

    Each is deleted as by holdfast delete. What an open parent still waits for, and what was terminated and has children
    that no worker has released yet, is left and told, with exit status 0. To continue after an interruption, run the
    same command again.
    """
    app = session.any_app()
    selection = replace(select(workflow, ended_before=now() - timedelta(seconds=older_than), scan=scan), among=statuses)
    chosen = chosen_in(selection, app)
    run_on(session, app, chosen, "prune", deleting(), yes=not dry_run, after=after, left=LEFT)
