"""``holdfast demo``: run the demonstration, compare its books, and report the result."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct, to_builtins

from holdfast.app import App
from holdfast.cli.entry import EXIT_ERROR
from holdfast.cli.invocation import own_command
from holdfast.cli.output import as_json, bold, coloured, echo
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.cli.show import as_lines
from holdfast.cli.values import usable
from holdfast.demo import shop
from holdfast.demo.audit import REJECTIONS, Audit, audit, home_url
from holdfast.demo.progress import Progress
from holdfast.demo.run import KILLS_AT, Run, run
from holdfast.errors import ConfigurationError
from holdfast.workflows.record import COMPLETED, partition_of
from holdfast.workflows.view import View, view_of

USUAL_ORDERS: Final = 300
MOST_ORDERS: Final = 5_000
PROBLEMS_SHOWN: Final = 10

INTRODUCTION: Final = """\
A shop checks orders out: validate → reserve → charge → ship → confirm, or undo all of it. Some cards are declined,
some answers never come, and workers are killed with -9 in the middle of it. Then the books are compared.
"""

KEEP: Final = "Keep the files of a run:\n  {holdfast} demo --keep {folder}"
NEXT: Final = """\
Look around in them:
  {holdfast} ls --home {home} --status FAILED
  {holdfast} show --home {home} checkout {order} --payloads
  {holdfast} doctor --home {home}
Charge too much, and let the audit find it:
  echo '{{"at":0,"what":"accepted","order":"{order}","cents":1,"key":"x","payment":"y"}}' >> {ledger}
  {holdfast} demo --check {folder}
The shop's code is {code}
"""
EXAMPLE_FOLDER: Final = Path("shop-demo")


class Told(Struct, frozen=True, kw_only=True):
    """The result of the demonstration."""

    audit: Audit
    run: Run | None
    shown: View | None

    @property
    def problems(self) -> list[str]:
        """What is wrong: in the books, or in the run itself."""
        missing = [] if self.run is None or len(self.run.kills) == len(KILLS_AT) else ["not every kill took place"]
        return [*self.audit.problems, *missing]


@click.command(
    "demo",
    epilog=examples(
        "holdfast demo",
        "holdfast demo --orders 60 --keep shop-demo",
        "holdfast demo --check shop-demo",
    ),
)
@click.option(
    "--orders",
    type=click.IntRange(20, MOST_ORDERS),
    default=USUAL_ORDERS,
    show_default=True,
    help="How many orders come in, some sixteen a second.",
)
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the files of the run there; a folder that does not exist yet, or is empty.",
)
@click.option(
    "--check",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Run nothing; compare the books of an earlier run that was kept.",
)
@json_option
@debug_option
def demo(*, orders: int, keep: Path | None, check: Path | None, as_json: bool, debug: bool) -> None:  # noqa: ARG001 - debug is read at the root
    """See a few hundred orders survive kill -9, in half a minute.

    Two workers check orders out; a worker is killed with -9 twice on the way. A payment service in its own process
    writes every charge down. At the end its ledger, the shop's table of sales and the stock are compared with every
    order. The exit status is 0 only if nothing was lost and nothing was charged twice.
    """
    if check is not None:
        told = Told(audit=asyncio.run(audit(check.resolve())), run=None, shown=None)
        _answer(told, for_machines=as_json, kept=check)
        return
    with _folder(keep) as folder:
        progress = Progress(quiet=as_json)
        if not as_json:
            echo(INTRODUCTION)
        told = asyncio.run(_perform(folder, orders, progress))
        kept = _rescued(folder) if told.problems and keep is None else keep
        _answer(told, for_machines=as_json, kept=kept)


@contextmanager
def _folder(keep: Path | None) -> Generator[Path]:
    """The folder of the run, absolute: a temporary one that is deleted, or the one to keep."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name:
            yield Path(name).resolve()
        return
    with usable(keep, "written"):
        if keep.exists() and any(keep.iterdir()):
            raise ConfigurationError(f"{keep} is not empty; name a new folder, or remove this one")
        keep.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield keep.resolve()


def _rescued(folder: Path) -> Path:
    """A copy of the books, to be inspected. Sockets cannot be copied and are left out."""
    safe = tempfile.mkdtemp(prefix="holdfast-demo-")
    return shutil.copytree(folder, Path(safe), ignore=shutil.ignore_patterns("*-bells"), dirs_exist_ok=True)


async def _perform(folder: Path, orders: int, progress: Progress) -> Told:
    ran = await run(folder, orders, progress)
    found = await audit(folder)
    async with App("holdfast", home=home_url(folder)) as app:
        shown = [
            await view_of(app.runtime(), partition_of("checkout", order)) for kill in ran.kills for order in kill.orders
        ]
    return Told(audit=found, run=ran, shown=max(shown, key=_interest, default=None))


def _interest(shown: View) -> tuple[bool, bool, int]:
    """Prefers an order that was taken over, then confirmed, and that has a long history."""
    taken_over = any(line.kind == "takeover" for line in shown.timeline)
    return taken_over and shown.execution.status == COMPLETED, taken_over, len(shown.timeline)


# ── The answer ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _answer(told: Told, *, for_machines: bool, kept: Path | None) -> None:
    if for_machines:
        echo(as_json(_as_data(told, kept)))
    else:
        echo("\n".join(_as_lines(told, kept)))
    if told.problems:
        raise click.exceptions.Exit(EXIT_ERROR)


def _as_data(told: Told, kept: Path | None) -> dict[str, Any]:
    run_facts: dict[str, Any] = {}
    if told.run is not None:
        run_facts = {
            "kills_survived": len(told.run.kills),
            "orders_in_killed_hands": _in_hands(told.run),
            "elapsed_seconds": round(told.run.elapsed_seconds, 2),
        }
    return {
        "ok": not told.problems,
        **to_builtins(told.audit),
        **run_facts,
        "problems": told.problems,
        "folder": None if kept is None else str(kept),
    }


def _in_hands(ran: Run) -> int:
    return sum(len(kill.orders) for kill in ran.kills)


def _as_lines(told: Told, kept: Path | None) -> list[str]:
    lines = ["", *(f"  {name:<28}{number:>7}   {remark}".rstrip() for name, number, remark in _summary(told)), ""]
    if told.problems:
        lines += [coloured("The books do not agree:", "fail")]
        lines += [f"  {problem}" for problem in told.problems[:PROBLEMS_SHOWN]]
        if len(told.problems) > PROBLEMS_SHOWN:
            lines.append(f"  and {len(told.problems) - PROBLEMS_SHOWN} more")
    else:
        lines.append(coloured("Every order is accounted for, and every cent.", "ok"))
    if kept is not None:
        lines.append(f"The files are in {kept}")
    if told.shown is not None:
        lines += ["", bold("One order whose worker was killed"), *as_lines(told.shown)]
        lines += ["", bold("What to try next"), *_what_to_try(told.shown.execution.id, kept)]
    return lines


def _what_to_try(order: str, kept: Path | None) -> list[str]:
    """Commands that work as they are printed."""
    folder, holdfast = EXAMPLE_FOLDER if kept is None else kept, own_command()
    words = {
        "folder": shlex.quote(str(folder)),
        "home": shlex.quote(f"sqlite:///{folder}/shop.db"),
        "ledger": shlex.quote(f"{folder}/ledger.jsonl"),
    }
    first = [KEEP.format(holdfast=holdfast, **words)] if kept is None else []
    return [*first, NEXT.format(holdfast=holdfast, order=order, code=shop.__file__, **words).rstrip()]


def _summary(told: Told) -> Iterator[tuple[str, str, str]]:
    found = told.audit
    yield "orders", str(found.orders), ""
    yield "confirmed", str(found.confirmed), ""
    yield "compensated", str(found.compensated), _named(found, rejected=False)
    yield "rejected", str(found.rejected), _named(found, rejected=True)
    if told.run is not None:
        yield "kills survived", str(len(told.run.kills)), f"{_in_hands(told.run)} orders in the killed workers' hands"
    yield "time-outs survived", str(found.time_outs_survived), ""
    yield (
        "charges attempted",
        str(found.charges_attempted),
        f"{found.repeats_recognised} repeats recognised by their key",
    )
    yield "duplicate charges accepted", str(found.duplicate_charges_accepted), ""
    yield "lost", str(found.lost), ""
    if told.run is not None:
        yield "elapsed", f"{told.run.elapsed_seconds:.1f} s", ""


def _named(found: Audit, *, rejected: bool) -> str:
    reasons = {name: count for name, count in found.reasons.items() if (name in REJECTIONS) is rejected}
    return ", ".join(f"{count} {name}" for name, count in reasons.items())
