"""``holdfast cost workflow`` and ``holdfast cost actor``: the app's code on a trial home, and its bill."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import click
from msgspec import Struct

from holdfast.app import App
from holdfast.cli.known import method_of
from holdfast.cli.output import as_json, bold, dollars, echo, table
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import json_text
from holdfast.cost.bill import Bill, Compute
from holdfast.cost.elsewhere import elsewhere, work_of
from holdfast.cost.metering import uncounted
from holdfast.cost.ours import Used, bill_of
from holdfast.cost.prices import US_EAST_1
from holdfast.cost.trial import PAUSE_SECONDS, try_out
from holdfast.errors import ExecutionError, WaitTimeout
from holdfast.ids import new_id
from holdfast.replay.entries import Entry
from holdfast.testing import PATIENT, VirtualClock, run_virtual
from holdfast.workflows.history import load
from holdfast.workflows.launch import Launch, launch
from holdfast.workflows.record import partition_of

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_SECONDS: Final = 366 * 86_400.0
REAL_PATIENCE_SECONDS: Final = 60.0
REAL_PAUSE_SECONDS: Final = 1.0
"""Longer than a waiting entity stays in memory with its lease (``Limits.linger_seconds``)."""

UNFINISHED: Final = frozenset({"READY", "RUNNING", "SUSPENDED", "PAUSED", "BLOCKED"})
"""An execution with one of these statuses has done only part of its work, so there is nothing to compare."""

METHOD: Final = "the journal of the first run, priced as they meter it"


class Options(Struct, frozen=True, kw_only=True):
    """How a trial is made, and what is assumed about the functions."""

    what_if: str
    runs: int
    real_time: bool
    milliseconds: int
    memory_mb: int
    inline_kb: int | None

    def compute(self, invocations: int) -> Compute:
        return Compute(invocations, self.milliseconds, self.memory_mb)


def _with_options(command: Callable[Concatenate[Session, Options, P], T]) -> Callable[Concatenate[Session, P], T]:
    @click.option("--what-if", type=click.Choice(["aws"]), default="aws", help="Where it would run; AWS by default.")
    @click.option("--runs", type=click.IntRange(1, 1000), default=10, help="The number of runs; 10 by default.")
    @click.option("--real-time", is_flag=True, help="On the real clock and event loop, for steps that use the network.")
    @click.option("--ms", "milliseconds", type=click.IntRange(1), default=200, help="Assumed: each invocation; 200.")
    @click.option("--memory-mb", type=click.IntRange(128), default=512, help="Assumed: memory of a function; 512.")
    @click.option("--inline-kb", type=click.IntRange(1), help="Assumed: larger bodies, packed, go to S3; 9 by default.")
    @wraps(command)
    def with_options(session: Session, *args: Any, **given: Any) -> T:
        mine = {name: given.pop(name) for name in Options.__struct_fields__ if name in given}
        return command(session, Options(**mine), *args, **given)

    return with_options  # type: ignore[return-value]  # click passes options by name


@click.command(
    "workflow",
    epilog=examples(
        "holdfast cost workflow -a shop:app checkout '[\"order-17\"]' --what-if aws",
        "holdfast cost workflow -a shop:app checkout @order.json --runs 100 --json",
    ),
)
@click.argument("name")
@click.argument("input", metavar="[JSON]", type=json_text, default="[]")
@on_home
@_with_options
def workflow(session: Session, options: Options, *, name: str, input: str) -> None:
    """Run a workflow on a trial home in memory, and print what a million of it would cost on AWS.

    Its steps run for real, as often as --runs says, in virtual time: hours of waiting pass at once. The store's
    requests are metered as DynamoDB would bill them; queue and functions are assumed, and marked so. The same work on
    other services stands next to it. A workflow that waits for a signal is billed up to that point and is not compared.
    """
    app = session.app()
    found = app.registry.workflow(name)
    parsed = found.signature.parse(input, f"workflow {name!r}")
    seen: list[Entry] = []
    ended: list[str] = []

    async def one(number: int) -> None:
        runtime = app.runtime()
        order = Launch(id=f"{number}-{new_id()}", input=parsed)
        await launch(runtime.home, runtime.host, found, order, runtime.clock)
        with uncounted():
            ended.append(await _end(app, name, order.id, options))
            if not seen:
                seen.extend((await load(runtime.home.store, partition_of(name, order.id))).entries)

    used = _try(app, one, options)
    outcomes = ", ".join(f"{ended.count(each)} {each}" for each in sorted(set(ended)))
    compute = options.compute(max(1, round(used.wakes / used.runs)))
    others = elsewhere(work_of(seen), compute) if UNFINISHED.isdisjoint(ended) else ()
    _tell(session, bill_of(f"workflow {name}", used, compute), others, used, outcomes)


@click.command(
    "actor",
    epilog=examples("holdfast cost actor -a shop:app Cart u1 add '[\"lamp\"]' --what-if aws --runs 50"),
)
@click.argument("name")
@click.argument("key")
@click.argument("method")
@click.argument("input", metavar="[JSON]", type=json_text, default="[]")
@on_home
@_with_options
def actor(session: Session, options: Options, *, name: str, key: str, method: str, input: str) -> None:
    """Call an actor's method on a trial home in memory, and print what a million calls would cost on AWS.

    The calls are a minute of virtual time apart, so each finds the actor asleep. Calls that arrive together share their
    writes and cost less; with --real-time they are a second apart and do. A first call, which creates the actor, is not
    counted.
    """
    app = session.app()

    async def one(_number: int) -> None:
        bound = method_of(app, name, key, method)
        args, kwargs = bound.method.signature.unbind(bound.method.signature.parse(input))
        await bound(*args, **kwargs)

    used = _try(app, one, options, warm_up=1)
    compute = options.compute(max(1, round(used.wakes / used.runs)))
    _tell(session, bill_of(f"call of {name}.{method}", used, compute), (), used, f"{used.runs} answered")


# ── The trial ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _try(app: App, one: Callable[[int], Awaitable[None]], options: Options, *, warm_up: int = 0) -> Used:
    def trial() -> Coroutine[Any, Any, Used]:
        return try_out(
            app,
            one,
            runs=options.runs,
            warm_up=warm_up,
            pause_seconds=REAL_PAUSE_SECONDS if options.real_time else PAUSE_SECONDS,
            inline_bytes=None if options.inline_kb is None else options.inline_kb * 1024,
            limits=None if options.real_time else PATIENT,
        )

    if options.real_time:
        return asyncio.run(trial())
    app.clock = VirtualClock()
    return run_virtual(trial)


async def _end(app: App, name: str, id: str, options: Options) -> str:
    """How the execution ended, or its status at the time-out."""
    handle = app.handle(name, id)
    with suppress(ExecutionError, WaitTimeout):
        await handle.result(REAL_PATIENCE_SECONDS if options.real_time else PATIENCE_SECONDS)
    return (await handle.status()).status


# ── The bill ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tell(session: Session, ours: Bill, others: Sequence[Bill], used: Used, outcomes: str) -> None:
    if session.json:
        echo(as_json(_as_data(ours, others, used, outcomes)))
    else:
        echo("\n".join(_as_lines(ours, others, used, outcomes)))


def _as_lines(ours: Bill, others: Sequence[Bill], used: Used, outcomes: str) -> list[str]:
    rows = [
        [
            each.what,
            f"{float(each.count):.4g}",
            each.price.unit,
            dollars(each.usd * 1_000_000),
            "*" if each.assumed else "",
        ]
        for each in ours.lines
        if each.count
    ]
    metered = ours.measured().usd_per_million
    lines = [
        f"{ours.what}: {used.runs} runs ({outcomes}), {used.usage.requests / used.runs:.3g} requests of the store each",
        f"Prices of {US_EAST_1.region}, on demand, {US_EAST_1.date}. * is assumed, the rest was metered.",
        "",
        *table(["each", "count", "of", "$ per million", ""], rows),
        bold(f"In all ${dollars(ours.usd_per_million)} per million; ${dollars(metered)} of it was metered"),
    ]
    if not others:
        return lines
    return [
        *lines,
        "",
        f"The same elsewhere: {METHOD}",
        *table(
            ["service", "$ per million", "ours is"],
            [[each.what, dollars(each.usd_per_million), _ratio(ours, each)] for each in others],
        ),
        *(f"{each.what} could not run it: {told}" for each in others for told in each.over),
    ]


def _ratio(ours: Bill, other: Bill) -> str:
    return f"{ours.usd / other.usd:.2f} of it" if other.usd else "-"


def _as_data(ours: Bill, others: Sequence[Bill], used: Used, outcomes: str) -> dict[str, Any]:
    return {
        "prices": {"region": US_EAST_1.region, "date": US_EAST_1.date},
        "runs": used.runs,
        "outcomes": outcomes,
        "requests_each": used.usage.requests / used.runs,
        "bill": _bill_data(ours) | {"metered_usd_per_million": float(ours.measured().usd_per_million)},
        "elsewhere": [_bill_data(each) for each in others],
    }


def _bill_data(bill: Bill) -> dict[str, Any]:
    lines = [
        {
            "what": each.what,
            "count": float(each.count),
            "unit": each.price.unit,
            "usd_per_million": float(each.usd * 1_000_000),
            "assumed": each.assumed,
        }
        for each in bill.lines
    ]
    return {"what": bill.what, "usd_per_million": float(bill.usd_per_million), "lines": lines, "over": list(bill.over)}
