"""``holdfast export``, ``import`` and ``seal``: a whole home into a file, into another home, or resealed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import click

from holdfast.cli.entry import EXIT_ERROR
from holdfast.cli.output import plain
from holdfast.cli.progress import Ticker
from holdfast.cli.session import Session, check_home_is_there, examples, on_home
from holdfast.errors import ConfigurationError
from holdfast.moving import Moved, Step, export_home, import_home, seal_home
from holdfast.opening import open_home
from holdfast.ports import Home


@click.command(
    "export",
    epilog=examples(
        "holdfast export -a shop:app --to shop.jsonl",
        "holdfast export --home sqlite:///shop.db --to shop.jsonl --json",
    ),
)
@click.option("--to", "path", metavar="FILE", type=click.Path(path_type=Path), required=True, help="The file to make.")
@on_home
def export(session: Session, *, path: Path) -> None:
    """Write a whole home into a new file, while nothing runs on it. The home stays as it is.

    The file holds everything in the home, secrets included; only you can read it. With an app that has a seal (-a), the
    file is sealed too. Items that could not be carried are named, and the exit status is then 1.
    """
    app = session.any_app(prefer_code=True)
    with Ticker(quiet=session.json) as ticker:
        tell = partial(_tick, ticker)
        moved = _with_home(app.home_url, lambda home: export_home(home, path, tell=tell, envelope=app.envelope))
    url = app.home_url
    _tell(session, moved, "exported", home=url, file=str(path))


@click.command(
    "import",
    epilog=examples(
        "holdfast import --home sqlite:///new.db --from shop.jsonl",
        "holdfast import -a shop:app --from shop.jsonl",
    ),
)
@click.option("--from", "path", metavar="FILE", type=click.Path(path_type=Path), required=True, help="The file.")
@on_home
def import_(session: Session, *, path: Path) -> None:
    """Write an exported file into an empty home, while nothing runs on it.

    The file is checked before anything is written. An import that was interrupted can be repeated with the same file;
    start no worker before it has finished.
    """
    url = session.home_url()
    if url.startswith("memory:"):
        raise ConfigurationError(f"{url} lives in the memory of one process: a command's data would be lost at its end")
    envelope = None if session.app_name is None else session.app().envelope
    with Ticker(quiet=session.json) as ticker:
        tell = partial(_tick, ticker)
        moved = _with_home(url, lambda home: import_home(home, path, tell=tell, envelope=envelope))
    _tell(session, moved, "imported", home=url, file=str(path))


@click.command("seal", epilog=examples("holdfast seal -a shop:app"))
@on_home
def seal(session: Session) -> None:
    """Seal every value that the app's home holds with the first key of the app's seal, while nothing runs on it.

    For a home that was used before it had a seal, and for a new key. It can be repeated. Values that do not open are
    named and stay as they are; the exit status is then 1. Old files keep the old text in space that is not used any
    more: an export into a new home leaves it behind.
    """
    app = session.app()
    if app.envelope is None:
        raise ConfigurationError(f"the app {app.name!r} has no seal to seal with: hf.App(..., seal=...)")
    check_home_is_there(app.home_url)
    envelope = app.envelope
    with Ticker(quiet=session.json) as ticker:
        tell = partial(_tick, ticker)
        moved = _with_home(app.home_url, lambda home: seal_home(home, envelope, tell=tell))
    _tell(session, moved, "sealed", home=app.home_url)


def _tick(ticker: Ticker, step: Step) -> None:
    total = "" if step.of is None else f" of {step.of:,}"
    ticker.tell(f"{step.items:,}{total} items {step.doing}", step.items)


def _with_home(url: str, work: Callable[[Home], Coroutine[Any, Any, Moved]]) -> Moved:
    async def opened() -> Moved:
        home = await open_home(url)
        try:
            return await work(home)
        finally:
            await home.doorbell.close()
            await home.store.close()

    return asyncio.run(opened())


def _tell(session: Session, moved: Moved, verb: str, **about: str) -> None:
    counts = moved.counts
    told = [
        f"{verb} {counts.items} items of {counts.partitions} partitions, and {counts.blobs} blobs",
        *(f"left behind: {plain(each)}" for each in moved.left_behind),
    ]
    session.answer({**about, "counts": counts, "left_behind": list(moved.left_behind)}, "\n".join(told))
    if moved.left_behind:
        raise click.exceptions.Exit(EXIT_ERROR)
