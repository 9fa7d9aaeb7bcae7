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
from holdfast.backends.aws import Cover, Settings
from holdfast.cli.known import method_of
from holdfast.cli.output import as_json, bold, dollars, echo, table
from holdfast.cli.prompting import is_interactive
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import json_text
from holdfast.cost.bill import NO_COMPUTE, Bill, Compute
from holdfast.cost.deployments import Deployment
from holdfast.cost.elsewhere import elsewhere, work_of
from holdfast.cost.metering import uncounted
from holdfast.cost.ours import Used, bill_of
from holdfast.cost.prices import US_EAST_1
from holdfast.cost.trial import PAUSE_SECONDS, Path, try_out
from holdfast.errors import ExecutionError, InvalidInput, StoreError, WaitTimeout
from holdfast.ids import new_id
from holdfast.replay.entries import Entry
from holdfast.testing import PATIENT, VirtualClock, run_virtual
from holdfast.workflows.history import load
from holdfast.workflows.launch import Launch, launch
from holdfast.workflows.record import partition_of

P = ParamSpec("P")
T = TypeVar("T")

DAY_SECONDS: Final = 86_400.0
PATIENCE_DAYS: Final = 366
REAL_PATIENCE_SECONDS: Final = 60.0
REAL_PAUSE_SECONDS: Final = 1.0
"""Longer than a waiting entity stays in memory with its lease (``Limits.linger_seconds``)."""

UNFINISHED: Final = frozenset({"QUEUED", "READY", "RUNNING", "SUSPENDED", "PAUSED", "BLOCKED"})
"""An execution with one of these statuses has done only part of its work, so there is nothing to compare."""

WARM_UP_CALLS: Final = 1
"""How many calls create the actor, and are not counted."""

METHOD: Final = "the journal of the first run, priced as they meter it"


PATHS: Final = {"aws": Path.FUNCTIONS, "aws-workers": Path.WORKERS}


class Options(Struct, frozen=True, kw_only=True):
    """How a trial is made, and what is assumed about the functions."""

    what_if: str
    runs: int
    yes: bool
    real_time: bool
    milliseconds: int
    memory_mb: int
    inline_kb: int | None
    cover: Cover
    listing: bool

    @property
    def settings(self) -> Settings:
        """The settings of the home."""
        return Settings(cover=self.cover, listing="index" if self.listing else "scan")

    def compute(self, used: Used) -> Compute:
        """The time in functions; none where workers do the work."""
        invocations = used.invocations / used.runs
        return Compute(max(1, round(invocations)), self.milliseconds, self.memory_mb) if invocations else NO_COMPUTE


def _with_options(command: Callable[Concatenate[Session, Options, P], T]) -> Callable[Concatenate[Session, P], T]:
    @click.option("--what-if", type=click.Choice([*PATHS]), default="aws", help="In functions, or in your own workers.")
    @click.option("--runs", type=click.IntRange(1, 1000), default=1, help="The number of runs; 1 by default.")
    @click.option("--yes", is_flag=True, help="Run the code without asking: it may charge cards and send mail.")
    @click.option("--real-time", is_flag=True, help="On the real clock and event loop, for steps that use the network.")
    @click.option("--ms", "milliseconds", type=click.IntRange(1), default=200, help="Assumed: each invocation; 200.")
    @click.option("--memory-mb", type=click.IntRange(128), default=512, help="Assumed: memory of a function; 512.")
    @click.option("--inline-kb", type=click.IntRange(1), help="Assumed: larger bodies, packed, go to S3; 9 by default.")
    @click.option(
        "--cover",
        type=click.Choice(["index", "stream"]),
        default="index",
        help="What finds lost wake-ups, as in `holdfast aws settings`.",
    )
    @click.option("--listing", is_flag=True, help="With the index that lists executions and actors.")
    @wraps(command)
    def with_options(session: Session, *args: Any, **given: Any) -> T:
        mine = {name: given.pop(name) for name in Options.__struct_fields__ if name in given}
        return command(session, Options(**mine), *args, **given)

    return with_options  # type: ignore[return-value]  # click passes options by name


@click.command(
    "workflow",
    epilog=examples(
        "holdfast cost workflow -a shop:app checkout '[\"order-17\"]' --yes",
        "holdfast cost workflow -a shop:app checkout @order.json --what-if aws-workers --yes --json",
        "holdfast cost workflow -a shop:app checkout '[\"order-17\"]' --cover stream --yes",
    ),
)
@click.argument("name")
@click.argument("input", metavar="[JSON]", type=json_text, default="[]")
@on_home
@_with_options
def workflow(session: Session, options: Options, *, name: str, input: str) -> None:
    """Run a workflow on a trial home in memory, and print what a million of it would cost on AWS.

    Its steps run for real, once, so the command asks before: --yes answers it. Time is virtual: hours of waiting pass
    at once. A client starts it, and a function of Lambda behind a queue does the work, or with --what-if aws-workers
    a worker that stays. Requests of the store and of the queue are metered as AWS would bill them; the time in
    functions is assumed, and marked so. The same work on other services stands next to it. A workflow that waits for a
    signal is billed up to that point and is not compared.
    """
    app = session.app()
    found = app.registry.workflow(name)
    parsed = found.signature.parse(input, f"workflow {name!r}")
    _ask(f"the workflow {name} and its steps", options)
    seen: list[Entry] = []
    ended: list[str] = []

    async def one(number: int, deployment: Deployment) -> None:
        order = Launch(id=f"{number}-{new_id()}", input=parsed)
        client = App("client", home=deployment.open_client, clock=app.clock)
        client.envelope = app.envelope
        async with client:
            await launch(client.runtime().home, None, found, order, app.clock)
        with uncounted():
            ended.append(await _end(app, name, order.id, options))
            if not seen:
                seen.extend((await load(app.runtime().home.store, partition_of(name, order.id))).entries)

    used = _try(app, one, options)
    outcomes = _counted(ended)
    compute = options.compute(used)
    others = elsewhere(work_of(seen), compute) if UNFINISHED.isdisjoint(ended) else ()
    _tell(session, _Told(f"workflow {name}", used, compute, others, outcomes))


@click.command(
    "actor",
    epilog=examples("holdfast cost actor -a shop:app Cart u1 add '[\"lamp\"]' --yes"),
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
    counted, but it is made. In functions a call is an invocation of its own, and its reply is kept for a repeat.

    Some writes come once in several calls, such as that of replies which the head of an actor has no room for. One call
    may show all of them or none: --runs 10 shows their share.
    """
    app = session.app()
    bound = method_of(app, name, key, method)
    parsed = bound.method.signature.parse(input)
    _ask(f"{name}.{method}, {_times(options.runs + WARM_UP_CALLS)}", options)

    ended: list[str] = []

    async def one(_number: int, deployment: Deployment) -> None:
        try:
            await deployment.call(bound, parsed)
        except (InvalidInput, StoreError):  # no answer of the method, such as a state that does not fit into an item
            raise
        except Exception as error:  # noqa: BLE001 - what the method raises is an answer, and costs as much
            echo(f"{name}.{method} failed: {type(error).__name__}: {error}", err=True)
            ended.append("FAILED")
        else:
            ended.append("answered")

    used = _try(app, one, options, warm_up=WARM_UP_CALLS)
    outcomes = _counted(ended[WARM_UP_CALLS:])
    _tell(session, _Told(f"call of {name}.{method}", used, options.compute(used), (), outcomes))


# ── The trial ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


def _ask(what: str, options: Options) -> None:
    """Have it confirmed that code of users runs. A usage error where there is no terminal to ask at."""
    if options.yes:
        return
    if not is_interactive():
        raise click.UsageError(f"This runs {what} for real: with what it charges and sends. Add --yes to run it.")
    click.confirm(f"This runs {what} for real: with what it charges and sends. Run it?", abort=True, err=True)


def _try(app: App, one: Callable[[int, Deployment], Awaitable[None]], options: Options, *, warm_up: int = 0) -> Used:
    app.registry.jobs.clear()  # in the trial's hours schedules would fire, and what they do was not asked for

    def trial() -> Coroutine[Any, Any, Used]:
        return try_out(
            app,
            one,
            runs=options.runs,
            path=PATHS[options.what_if],
            warm_up=warm_up,
            pause_seconds=REAL_PAUSE_SECONDS if options.real_time else PAUSE_SECONDS,
            inline_bytes=None if options.inline_kb is None else options.inline_kb * 1024,
            limits=None if options.real_time else PATIENT,
            settings=options.settings,
        )

    if options.real_time:
        return asyncio.run(trial())
    app.clock = VirtualClock()
    return run_virtual(trial)


async def _end(app: App, name: str, id: str, options: Options) -> str:
    """How the execution ended, or its status when nothing more is due, so that it waits for something from outside."""
    handle = app.handle(name, id)
    for _ in range(1 if options.real_time else PATIENCE_DAYS):
        with suppress(ExecutionError, WaitTimeout):
            await handle.result(REAL_PATIENCE_SECONDS if options.real_time else DAY_SECONDS)
        head = await app.runtime().home.store.get(partition_of(name, id))
        if head is None or head.due_at is None:
            break
    return (await handle.status()).status


def _counted(ended: Sequence[str]) -> str:
    """How the runs ended, and how many of them each way."""
    return ", ".join(f"{ended.count(each)} {each}" for each in sorted(set(ended)))


# ── The bill ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Told(Struct, frozen=True):
    """What a trial has found."""

    what: str
    used: Used
    compute: Compute
    others: Sequence[Bill]
    outcomes: str

    @property
    def ours(self) -> Bill:
        """The bill of one run, alone on its way."""
        return bill_of(self.what, self.used, self.compute)

    @property
    def in_batches(self) -> Bill:
        """The bill where so much happens that a function receives ten messages at once."""
        return bill_of(self.what, self.used.in_batches(), self.compute)


def _tell(session: Session, told: _Told) -> None:
    echo(as_json(_as_data(told)) if session.json else "\n".join(_as_lines(told)))


def _as_lines(told: _Told) -> list[str]:
    ours, used = told.ours, told.used
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
    runs = "1 run" if used.runs == 1 else f"{used.runs} runs"
    lines = [
        f"{told.what}: {runs} ({told.outcomes}), {used.usage.requests / used.runs:.3g} requests of the store each",
        f"Prices of {US_EAST_1.region}, on demand, {US_EAST_1.date}. * is assumed, the rest was metered.",
        "",
        *table(["each", "count", "of", "$ per million", ""], rows),
        bold(f"In all ${dollars(ours.usd_per_million)} per million; ${dollars(metered)} of it was metered"),
    ]
    if used.queue.receives:
        lines.append(f"With ten messages to each batch that is received: ${dollars(told.in_batches.usd_per_million)}")
    if not told.others:
        return lines
    return [
        *lines,
        "",
        f"The same elsewhere: {METHOD}",
        *table(
            ["service", "$ per million", "ours is"],
            [[each.what, dollars(each.usd_per_million), _ratio(ours, each)] for each in told.others],
        ),
        *(f"{each.what} could not run it: {limit}" for each in told.others for limit in each.over),
    ]


def _ratio(ours: Bill, other: Bill) -> str:
    return f"{ours.usd / other.usd:.2f} of it" if other.usd else "-"


def _as_data(told: _Told) -> dict[str, Any]:
    ours, used = told.ours, told.used
    return {
        "prices": {"region": US_EAST_1.region, "date": US_EAST_1.date},
        "runs": used.runs,
        "outcomes": told.outcomes,
        "requests_each": used.usage.requests / used.runs,
        "bill": _bill_data(ours) | {"metered_usd_per_million": float(ours.measured().usd_per_million)},
        "in_batches_usd_per_million": float(told.in_batches.usd_per_million),
        "elsewhere": [_bill_data(each) for each in told.others],
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
