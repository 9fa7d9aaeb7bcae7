"""The reference workloads of ``docs/cost.md``: pieces of work, and what they cost here, by oneself and elsewhere."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random

import holdfast as hf
from holdfast.backends.aws import Settings
from holdfast.cost import durable_functions, roll_your_own
from holdfast.cost.deployments import Deployment
from holdfast.cost.durable_functions import Work
from holdfast.cost.metering import DEFAULTS, uncounted
from holdfast.cost.ours import Used, bill_of
from holdfast.cost.trial import Path, try_out
from holdfast.testing import PATIENT, VirtualClock, run_virtual

Ask = Callable[[int, Deployment], Awaitable[object]]
Make = Callable[[hf.App], Ask]
"""Declares a piece of work in an app, and answers what a client does to have it done."""

RUNS = 5
WITHIN_A_UNIT = 800
"""Bytes of a result that fits, with the header of its item, into one write unit of 1,024."""


@dataclass(frozen=True)
class Workload:
    """Dollars per million: of ours in functions, alone and with ten messages to a batch, and in workers; and of the
    others if they have it.
    """

    name: str
    ours: Decimal
    in_batches: Decimal
    workers: Decimal
    own: Decimal
    durable: Decimal | None


def noise(size: int) -> str:
    """Text that nothing makes smaller than three quarters: random bytes in base64."""
    return b64encode(Random(1).randbytes(size)).decode()[: size - 2]


def order(size: int) -> str:
    """Text as it commonly is: an order with its lines, as JSON."""
    lines = ({"sku": f"sku-{n * 7919 % 10_000:05}", "count": n % 7, "cents": n * 733 % 9_999} for n in range(size))
    text = json.dumps([each for each, _ in zip(lines, range(size // 46), strict=False)])
    return (text + " " * size)[: size - 2]


def measured(
    make: Make, *, inline_kb: int | None = None, path: Path = Path.FUNCTIONS, settings: Settings = DEFAULTS
) -> Used:
    """What one piece of work uses, in a shop that is warm. It is begun by a client, which is another process."""

    async def trial() -> Used:
        app, client = (hf.App("shop", clock=VirtualClock()) for _ in range(2))
        make(app)
        ask = make(client)

        async def work(number: int, deployment: Deployment) -> None:
            client.home_url = deployment.open_client
            async with client:
                await ask(number, deployment)

        inline = None if inline_kb is None else inline_kb * 1024
        return await try_out(
            app, work, path=path, runs=RUNS, warm_up=1, inline_bytes=inline, limits=PATIENT, settings=settings
        )

    return run_virtual(trial)


def steps(count: int, result: str, *, timer: bool = False) -> Make:
    """A workflow of so many steps with this result, and an hour's sleep."""

    def make(app: hf.App) -> Ask:
        @app.step
        async def step(_number: int) -> str:
            return result

        @app.workflow
        async def work() -> None:
            for number in range(count):
                await step(number)
            if timer:
                await hf.sleep("1h")

        async def run(number: int, _deployment: Deployment) -> None:
            handle = await work.start(id=str(number))
            with uncounted():
                await handle

        return run

    return make


def a_call(app: hf.App) -> Ask:
    """A call of an actor that was asleep: the function is invoked for it, or the worker's own code calls it."""

    class Counter(hf.Actor, app=app):
        count: int = 0

        async def add(self) -> int:
            self.count += 1
            return self.count

    return lambda _number, deployment: deployment.call(Counter.at("one").add, b"{}")


def a_message(app: hf.App) -> Ask:
    """A message to an actor that was asleep, sent by nobody in particular."""

    class Log(hf.Actor, app=app):
        lines: int = 0

        async def append(self) -> None:
            self.lines += 1

    return lambda _number, _deployment: hf.send(Log.at("one").append)


def dollars(used: Used) -> Decimal:
    return bill_of("", used).usd_per_million


def checkpoint(name: str, result: str, size_kb: int, *, inline_kb: int | None = None) -> Workload:
    """What one more step adds to a workflow."""

    def added(path: Path) -> Decimal:
        three, two = (measured(steps(n, result), inline_kb=inline_kb, path=path) for n in (3, 2))
        return dollars(three) - dollars(two)

    return Workload(
        name,
        added(Path.FUNCTIONS),
        added(Path.FUNCTIONS),
        added(Path.WORKERS),
        roll_your_own.checkpoint(size_kb).usd_per_million,
        durable_functions.checkpoint(size_kb).usd_per_million,
    )


def whole(name: str, make: Make, own: Decimal, durable: Decimal | None) -> Workload:
    """A piece of work from its beginning to its end, with the messages that wake it."""
    used = measured(make)
    workers = dollars(measured(make, path=Path.WORKERS))
    return Workload(name, dollars(used), dollars(used.in_batches()), workers, own, durable)


def workloads() -> list[Workload]:
    """All of them."""
    small = noise(WITHIN_A_UNIT)
    five = Work(steps=5, written_kb=(1,) * 5)
    timed = Work(steps=5, waits=1, written_kb=(1,) * 5)
    return [
        checkpoint("checkpoint, 800 bytes", small, 1),
        checkpoint("checkpoint, 1 KB", noise(1024), 1),
        checkpoint("checkpoint, 8 KB of JSON", order(8 * 1024), 8),
        checkpoint("checkpoint, 8 KB of noise", noise(8 * 1024), 8),
        checkpoint("checkpoint, 20 KB of JSON", order(20 * 1024), 20),
        checkpoint("checkpoint, 20 KB of noise", noise(20 * 1024), 20),
        checkpoint("checkpoint, 20 KB of noise, no bucket", noise(20 * 1024), 20, inline_kb=64),
        whole(
            "5 steps of 800 bytes",
            steps(5, small),
            roll_your_own.execution((1,) * 5).usd_per_million,
            durable_functions.execution(five).usd_per_million,
        ),
        whole(
            "5 steps and an hour's sleep",
            steps(5, small, timer=True),
            roll_your_own.execution((1,) * 5, waits=1).usd_per_million,
            durable_functions.execution(timed).usd_per_million,
        ),
        whole("call of an actor", a_call, roll_your_own.actor_call().usd_per_million, None),
        whole("message to an actor", a_message, roll_your_own.message_hop().usd_per_million, None),
    ]
