"""``holdfast aws verify``: try a home of its own in a real account, and print what was found."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from holdfast.backends.aws import parse_address
from holdfast.cli.entry import EXIT_ERROR
from holdfast.cli.output import echo, plain, table
from holdfast.cli.prompting import is_interactive
from holdfast.cli.session import Session, examples, on_home
from holdfast.verify import CHECKS, Check, Report, estimate, left_behind, read_record, remove, verify

T = TypeVar("T")

BY_NAME: Final = {check.name: check for check in CHECKS}


@click.command(
    "verify",
    epilog=examples(
        "holdfast aws verify 'aws://shop?region=eu-west-1'",
        "holdfast aws verify 'aws://shop?region=eu-west-1' --yes --json > verified.json",
        "holdfast aws verify 'aws://shop?region=eu-west-1' --only rights --only expiry",
        "holdfast aws verify --remove .holdfast/verify-0123456789ab.json",
    ),
)
@click.argument("url", metavar="[URL]", required=False)
@click.option("--only", "names", metavar="NAME", multiple=True, help="Run this check; may be repeated.")
@click.option("--list", "lists", is_flag=True, help="List the checks, and deploy nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before it begins.")
@click.option("--keep", is_flag=True, help="Leave everything there, to be looked at; remove it with --remove.")
@click.option(
    "--remove",
    "left",
    metavar="RECORD",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Remove what the run with this record has left behind, and check nothing.",
)
@on_home
def verify_account(
    session: Session, *, url: str | None, names: tuple[str, ...], lists: bool, yes: bool, keep: bool, left: Path | None
) -> None:
    """Try Holdfast in an account of AWS: deploy a home of its own, check and measure it, and remove it again.

    Only the region, and for an emulator the endpoint, of the URL are used. The home has a random prefix, so no other
    home is touched. Everything that is made is written to a record first, and removed at the end, also after a failure
    or Ctrl-C. What it may cost is told first. Needs the rights of an administrator of the account. The exit status is 1
    if something is different from what it should be.
    """
    checks = _chosen(names)
    if lists:
        _list(session, checks)
        return
    if left is not None:
        _run(remove(read_record(left), _tell(session)))
        session.answer({"removed": str(left)}, f"removed what {left} names")
        return
    home = url or session.home_url()
    parse_address(home)  # nothing is told about a home that is not on AWS
    _ask(session, checks, yes=yes)
    report = _run(verify(home, _tell(session), checks=checks, keep=keep))
    session.answer({"ok": report.ok, **_as_data(report)}, "\n".join(_told(report)))
    if not report.ok:
        raise click.exceptions.Exit(EXIT_ERROR)


def _chosen(names: tuple[str, ...]) -> list[Check]:
    for name in names:
        if name not in BY_NAME:
            known = ", ".join(f"{each!r}" for each in BY_NAME)
            raise click.BadParameter(f"there is no check {name!r}; there are: {known}")
    return [check for check in CHECKS if not names or check.name in names]


def _list(session: Session, checks: list[Check]) -> None:
    data = [{"name": each.name, "shows": each.shows, "needs": each.needs, "emulator": each.emulator} for each in checks]
    rows = [(each.name, "" if each.emulator else "yes", each.shows) for each in checks]
    session.answer(data, "\n".join(table(("CHECK", "EMULATOR TELLS", "SHOWS"), rows)))


def _ask(session: Session, checks: list[Check], *, yes: bool) -> None:
    left = left_behind()
    expected = estimate(checks)
    told = (
        f"{len(checks)} checks in a home of its own: about {expected.minutes:.0f} minutes, at most ${expected.usd:.2f}"
    )
    if not session.json:
        for each in left:
            echo(
                f"{each.path} of {each.began} is there: that run goes on, or remove what it left with --remove",
                err=True,
            )
    if not yes and not is_interactive():
        raise click.UsageError(f"This runs {told}. Add --yes to do it.")
    if not session.json:
        echo(told, err=True)
    if not yes:
        click.confirm("Deploy it?", abort=True, err=True)


def _tell(session: Session) -> Any:
    def tell(text: str) -> None:
        if not session.json:
            echo(f"  {plain(text)}", err=True)

    return tell


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run it. A request to end is a Ctrl-C: what was made is removed first."""

    async def stoppable() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise click.Abort from None


def _as_data(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__struct_fields__}


def _told(report: Report) -> list[str]:
    where = f"account {report.account}, {report.region}" + (", an emulator" if report.is_emulator else "")
    rows = [(each.check, each.verdict, each.told) for each in report.findings]
    lines = [
        f"Holdfast on AWS, {report.began}, {where}",
        *table(("CHECK", "VERDICT", "FOUND"), rows),
        f"The requests of the checks to the table cost ${report.usd:.4f}; the bill of the trial shows after a day.",
    ]
    if report.kept is not None:
        lines.append(f"Everything is still there, and costs money: holdfast aws verify --remove {report.kept}")
    return lines
