"""``holdfast chaos``: inject one fault into real processes, report what happens, and compare the books."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from msgspec import to_builtins

from holdfast.chaos.play import Outcome, Story, play
from holdfast.chaos.stories import STORIES
from holdfast.cli.entry import EXIT_ERROR
from holdfast.cli.output import as_json as as_json_text
from holdfast.cli.output import bold, coloured, echo, plain, table
from holdfast.cli.session import debug_option, examples, json_option

ALL: Final = "all"
USUAL_SEED: Final = 1
BY_NAME: Final = {story.name: story for story in STORIES}


@click.group("chaos")
def chaos() -> None:
    """Watch messaging survive what kills other systems: eight stories, with real kill -9 and SIGSTOP.

    Each plays in a home of its own, with real workers and a bank that they do not control. At the end the bank's ledger
    and the shop's books are compared with the orders. The exit status is 0 only if the fault was observed and the books
    agree.
    """


@chaos.command("ls", epilog=examples("holdfast chaos ls"))
@json_option
@debug_option
def ls(*, as_json: bool, debug: bool) -> None:  # noqa: ARG001 - debug is read at the root
    """List the stories."""
    if as_json:
        echo(as_json_text([{"story": story.name, "about": story.about} for story in STORIES]))
    else:
        echo("\n".join(table(("STORY", "WHAT GOES WRONG"), [(story.name, story.about) for story in STORIES])))


@chaos.command(
    "run",
    epilog=examples(
        "holdfast chaos run zombie-after-a-pause",
        "holdfast chaos run poison-message --seed 7 --keep",
        "holdfast chaos run all --json",
    ),
)
@click.argument("name", metavar="NAME|all", type=click.Choice([*BY_NAME, ALL]))
@click.option(
    "--seed",
    type=int,
    default=USUAL_SEED,
    show_default=True,
    help="Decides what is random: the orders, and the one that the fault hits.",
)
@click.option("--keep", is_flag=True, help="Keep the files: the home, the bank's ledger, what the workers logged.")
@json_option
@debug_option
def run(*, name: str, seed: int, keep: bool, as_json: bool, debug: bool) -> None:  # noqa: ARG001 - debug is read at the root
    """Play one story, or all of them. The files of one that fails are kept."""
    chosen = STORIES if name == ALL else (BY_NAME[name],)
    played = [_play(story, seed, keep=keep, quiet=as_json) for story in chosen]
    ok = all(outcome.ok for outcome, _ in played)
    if as_json:
        stories = [_as_data(outcome, folder) for outcome, folder in played]
        echo(as_json_text({"ok": ok, "seed": seed, "stories": stories}))
    elif name == ALL:
        echo("\n".join(_summary([outcome for outcome, _ in played])))
    if not ok:
        raise click.exceptions.Exit(EXIT_ERROR)


def _play(story: Story, seed: int, *, keep: bool, quiet: bool) -> tuple[Outcome, Path | None]:
    """Play a story in a folder of its own; returns the outcome, and the folder if it was kept."""

    def tell(text: str) -> None:
        if not quiet:
            echo(f"  {plain(text)}")

    if not quiet:
        echo(f"{bold(story.name)}: {story.about}")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-chaos-")).resolve()
    try:
        outcome = asyncio.run(play(story, seed, folder, tell))
        keep = keep or not outcome.ok
    finally:
        if not keep:
            shutil.rmtree(folder)
    kept = folder if keep else None
    if not quiet:
        echo("\n".join(_as_lines(outcome, seed, kept)))
    return outcome, kept


def _as_data(outcome: Outcome, folder: Path | None) -> dict[str, Any]:
    return {"ok": outcome.ok, **to_builtins(outcome), "folder": None if folder is None else str(folder)}


def _as_lines(outcome: Outcome, seed: int, folder: Path | None) -> list[str]:
    charges = f"charges attempted {outcome.charges_attempted}, accepted {outcome.charges_accepted}"
    lines = [f"  orders to bill {outcome.orders}, {charges}, repeats recognised {outcome.repeats_recognised}"]
    lines += [f"  {coloured('fail', 'fail')}: {plain(problem)}" for problem in outcome.problems]
    if folder is not None:
        lines.append(f"  the files are in {folder}")
    return [*lines, f"  {_verdict(outcome)}, {outcome.seconds:.1f} s, seed {seed}", ""]


def _summary(outcomes: Sequence[Outcome]) -> list[str]:
    rows = [
        (outcome.story, str(len(outcome.faults)), f"{outcome.seconds:.1f} s", _verdict(outcome)) for outcome in outcomes
    ]
    return table(("STORY", "FAULTS", "TOOK", "VERDICT"), rows)


def _verdict(outcome: Outcome) -> str:
    return coloured("ok", "ok") if outcome.ok else coloured("fail", "fail")
