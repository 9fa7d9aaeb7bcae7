"""``holdfast doctor``: whether a home is sound, and whether its executions make progress."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import click
from msgspec import Struct

from holdfast.app import App
from holdfast.cli.checks import (
    FAIL,
    OK,
    WARN,
    Finding,
    check_file,
    check_services,
    check_stopped_beside,
    check_work,
)
from holdfast.cli.entry import EXIT_ERROR
from holdfast.cli.output import coloured, plain
from holdfast.cli.session import Session, examples, on_home
from holdfast.errors import StoreError

SUMMARIES: Final = {OK: "all is well", WARN: "it works, but look at the warnings", FAIL: "something is wrong"}
LEVELS: Final = (OK, WARN, FAIL)
INDENT: Final = " " * 20


class Report(Struct, frozen=True, kw_only=True):
    """The diagnosis. ``level`` is that of the worst finding."""

    home: str
    level: str
    findings: list[Finding]


@click.command(
    "doctor",
    epilog=examples(
        "holdfast doctor -a shop:app",
        "holdfast doctor --home sqlite:///shop.db --strict --json",
    ),
)
@click.option("--strict", is_flag=True, help="Let warnings fail too.")
@click.option("--scan", is_flag=True, help="On AWS, read the whole table to count everything, which is billed.")
@on_home
def doctor(session: Session, *, strict: bool, scan: bool) -> None:
    """Examine a home: the file and its settings, and whether the executions on it make progress.

    Every line is ok, warn or fail. The exit status is 1 if there is a fail or, with --strict, a warn. Executions that
    are blocked or parked are a warn. The command reads the whole file. On AWS it reads what is due, and the rest only
    with --scan; it also asks the queues, the bus and the bucket whether they answer. With --app it reports workflows
    that have no code any more.
    """
    app = session.any_app(prefer_code=True)
    try:
        findings = asyncio.run(_examine(app, has_code=session.app_name is not None, scan=scan))
    except StoreError as error:
        is_file = app.home_url.startswith("sqlite:")
        findings = [Finding(FAIL, "file" if is_file else "store", str(error))]
        findings += check_stopped_beside(app.home_url) if is_file else []
    level = max((finding.level for finding in findings), key=LEVELS.index)
    report = Report(home=app.home_url, level=level, findings=findings)
    session.answer(report, "\n".join(_as_lines(report)))
    if level == FAIL or (strict and level == WARN):
        raise click.exceptions.Exit(EXIT_ERROR)


async def _examine(app: App, *, has_code: bool, scan: bool) -> list[Finding]:
    async with app:
        known = app.registry.workflows.keys() if has_code else None
        home = app.runtime().home
        about_the_file = [finding async for finding in check_file(home)]
        is_full = any((each.check, each.level) == ("space", FAIL) for each in about_the_file)
        about_the_work = await check_work(app.runtime(), known, scan=scan, disk_is_full=is_full)
        return [*about_the_file, *await check_services(home), *about_the_work]


def _as_lines(report: Report) -> Sequence[str]:
    lines: list[str] = []
    for finding in report.findings:
        lines.append(f"{coloured(f'{finding.level:<4}', finding.level)}  {finding.check:<12}  {plain(finding.told)}")
        lines += [f"{INDENT}{plain(each)}" for each in finding.examples]
    return [
        f"holdfast doctor: {report.home}",
        *lines,
        f"{coloured(report.level, report.level)}: {SUMMARIES[report.level]}",
    ]
