"""The options that select executions, the same for every command on several executions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, TypeVar

import click

from holdfast.cli.scanning import scan_option
from holdfast.cli.values import duration, execution, moment, now, tag
from holdfast.client import Selection, select
from holdfast.workflows.record import STATUSES, ExecutionRef
from holdfast.workflows.waits import KINDS

T = TypeVar("T")

_OPTIONS = (
    click.option("--workflow", help="Only of this workflow."),
    click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only in this status."),
    click.option(
        "--since",
        metavar="WHEN",
        type=moment,
        help="Only those created since then: 2h, 7d, 2025-11-30, 2025-11-30T12:00Z.",
    ),
    click.option("--until", metavar="WHEN", type=moment, help="Only those created before that."),
    click.option("--older-than", metavar="DURATION", type=duration, help="Only those created longer ago than this."),
    click.option(
        "--tag", "tags", metavar="KEY=VALUE", type=tag, multiple=True, help="Only with this label; may be repeated."
    ),
    click.option("--parent", metavar="WORKFLOW/ID", type=execution, help="Only those that this execution has called."),
    click.option("--root", metavar="WORKFLOW/ID", type=execution, help="Only this execution and its descendants."),
    click.option(
        "--waits-for",
        metavar="KIND[:NAME]",
        help=f"Only those that wait for this: {', '.join(KINDS)}; or signal:approval, step:charge.",
    ),
    click.option("--error", metavar="TEXT", default="", help="Only those whose error has this text in its line."),
    scan_option,
)


_NAMES = (
    "workflow",
    "status",
    "since",
    "until",
    "older_than",
    "tags",
    "parent",
    "root",
    "waits_for",
    "error",
    "scan",
)


def selecting(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command these options, and to its function what they select as ``selection``."""

    @wraps(command)
    def selected(*args: Any, **kwargs: Any) -> T:
        return command(*args, selection=_selection(**{name: kwargs.pop(name) for name in _NAMES}), **kwargs)

    for option in reversed(_OPTIONS):
        selected = option(selected)
    return selected


def _selection(  # noqa: PLR0913 - one for each option
    *,
    workflow: str | None,
    status: str | None,
    since: datetime | None,
    until: datetime | None,
    older_than: float | None,
    tags: tuple[tuple[str, str], ...],
    parent: ExecutionRef | None,
    root: ExecutionRef | None,
    waits_for: str | None,
    error: str,
    scan: bool,
) -> Selection:
    if older_than is not None:
        if until is not None:
            raise click.UsageError("--until and --older-than mean the same: give only one of them.")
        until = now() - timedelta(seconds=older_than)
    return select(
        workflow,
        status=status,
        since=since,
        until=until,
        tags=dict(tags),
        parent=parent,
        root=root,
        waits_for=waits_for,
        error=error,
        scan=scan,
    )
