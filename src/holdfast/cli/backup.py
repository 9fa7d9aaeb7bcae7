"""``holdfast backup`` and ``restore``: a SQLite home as one file, while processes work on it, and back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli.output import plain
from holdfast.cli.progress import Ticker
from holdfast.cli.session import Session, check_home_is_there, examples, on_home
from holdfast.errors import ConfigurationError
from holdfast.texts import told_url

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.backends.sqlite.backup import Copied

SQLITE: Final = "sqlite:///"
BAR_CELLS: Final = 30


@click.command(
    "backup",
    epilog=examples(
        "holdfast backup -a shop:app shop-monday.db",
        "holdfast backup --home sqlite:///shop.db /mnt/backups/shop.db --force --json",
    ),
)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@on_home
def backup(session: Session, *, path: Path, force: bool) -> None:
    """Copy a SQLite home into FILE while processes work on it.

    FILE is as the home was at one moment. It gets its name when it is complete, on the disk, and was checked by opening
    it. Only you can read it: it holds all values, sealed ones as they are sealed, and no token of the HTTP API.
    """
    from holdfast.backends.sqlite.backup import back_up  # noqa: PLC0415 - only the backend in use is loaded

    url = session.home_url()
    database = _database_of(url)
    check_home_is_there(url)
    with Ticker(quiet=session.json) as ticker:
        copied = back_up(database, path, replace=force, tell=partial(_tick, ticker, "copied"))
    _answer(session, f"backed up {told_url(url)} into {path}", copied, home=url, file=str(path))


@click.command(
    "restore",
    epilog=examples(
        "holdfast restore -a shop:app shop-monday.db",
        "holdfast restore --home sqlite:///shop.db /mnt/backups/shop.db",
    ),
)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@on_home
def restore(session: Session, *, path: Path) -> None:
    """Put a backup in the place of a SQLite home, while nothing runs on it.

    FILE is checked first, and what is there now is kept in a file next to it. What happened after the backup is not
    known any more: steps that ran since run again, with the same idempotency keys.
    """
    from holdfast.backends.sqlite import backup as sqlite  # noqa: PLC0415 - only the backend in use is loaded

    url = session.home_url()
    database = _database_of(url)
    with Ticker(quiet=session.json) as ticker:
        copied, kept = sqlite.restore(path, database, tell=partial(_tick, ticker, "restored"))
    session.change("restore", str(path), _nothing)
    told = f"restored {told_url(url)} from {path}"
    if kept is not None:
        told += f"; what was there is kept in {kept}"
    _answer(session, told, copied, home=url, file=str(path), kept=None if kept is None else str(kept))


async def _nothing(_app: App) -> None:
    """The restored home opens, and its audit says who restored it."""


def _database_of(url: str) -> str:
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        return url.removeprefix(SQLITE)
    if url.startswith("memory:"):
        raise ConfigurationError(f"{url} lives in the memory of one process: there is nothing to back up or restore")
    raise ConfigurationError(
        f"{told_url(url)} is no SQLite home. To carry it into a file use holdfast export, and holdfast import to bring "
        "it back; on AWS see also point-in-time recovery of DynamoDB tables"
    )


def _tick(ticker: Ticker, verb: str, done: int, of: int) -> None:
    share = done / of if of else 1.0
    cells = round(share * BAR_CELLS)
    ticker.tell(f"[{'#' * cells}{'.' * (BAR_CELLS - cells)}] {share:4.0%} {verb}", done)


def _answer(session: Session, told: str, copied: Copied, **about: str | None) -> None:
    size = f"{copied.size_bytes:,} bytes, {copied.items:,} items and {copied.blobs:,} blobs"
    session.answer(
        {**about, **{name: getattr(copied, name) for name in copied.__struct_fields__}},
        plain(f"{told}: {size}, checked"),
    )
