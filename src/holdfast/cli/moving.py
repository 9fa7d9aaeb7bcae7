"""``holdfast export`` and ``holdfast import``: everything of one home into a file, and into another."""

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
from holdfast.moving import Moved, Step, export_home, import_home
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
    """Write everything of a home into a new file, while nothing runs on it. The home stays as it is.

    The file holds all that the home does, secrets included; only you can read it. What could not be carried is named,
    and then the exit status is 1.
    """
    url = session.any_app().home_url
    check_home_is_there(url)
    with Ticker(quiet=session.json) as ticker:
        moved = _with_home(url, lambda home: export_home(home, path, tell=partial(_tick, ticker)))
    _tell(session, moved, "exported", home=url, file=path)


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
    """Write everything of an exported file into an empty home, while nothing runs on it.

    The file is checked before anything is written. An import that was interrupted can be repeated with the same file;
    start no worker before it is done.
    """
    url = session.home_url()
    if url.startswith("memory:"):
        raise ConfigurationError(f"{url} lives in the memory of one process: what a command put there would be gone")
    with Ticker(quiet=session.json) as ticker:
        moved = _with_home(url, lambda home: import_home(home, path, tell=partial(_tick, ticker)))
    _tell(session, moved, "imported", home=url, file=path)


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


def _tell(session: Session, moved: Moved, verb: str, *, home: str, file: Path) -> None:
    counts = moved.counts
    told = [
        f"{verb} {counts.items} items of {counts.partitions} partitions, and {counts.blobs} blobs",
        *(f"left behind: {plain(each)}" for each in moved.left_behind),
    ]
    session.answer(
        {"home": home, "file": str(file), "counts": counts, "left_behind": list(moved.left_behind)}, "\n".join(told)
    )
    if moved.left_behind:
        raise click.exceptions.Exit(EXIT_ERROR)
