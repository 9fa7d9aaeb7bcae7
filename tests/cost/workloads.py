"""The reference workloads of ``docs/cost.md``: pieces of work, and what they cost here, by oneself and elsewhere."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random

import holdfast as hf
from holdfast.cost import durable_functions, roll_your_own
from holdfast.cost.durable_functions import Work
from holdfast.cost.metering import uncounted
from holdfast.cost.ours import Used, bill_of
from holdfast.cost.trial import try_out
from holdfast.testing import PATIENT, VirtualClock, run_virtual

RUNS = 5
WITHIN_A_UNIT = 800
"""Bytes of a result that fits, with the header of its item, into one write unit of 1,024."""


@dataclass(frozen=True)
class Workload:
    """Dollars per million: of ours, and of the others if they have it."""

    name: str
    ours: Decimal
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


def measured(make: Callable[[hf.App], Callable[[int], Awaitable[object]]], *, inline_kb: int | None = None) -> Used:
    """What one piece of work uses, in a shop that is warm."""

    async def trial() -> Used:
        app = hf.App("shop", clock=VirtualClock(), limits=PATIENT)
        inline = None if inline_kb is None else inline_kb * 1024
        return await try_out(app, make(app), runs=RUNS, warm_up=1, inline_bytes=inline)

    return run_virtual(trial)


def steps(count: int, result: str, *, timer: bool = False) -> Callable[[hf.App], Callable[[int], Awaitable[object]]]:
    """A workflow of so many steps with this result, and an hour's sleep."""

    def make(app: hf.App) -> Callable[[int], Awaitable[object]]:
        @app.step
        async def step(_number: int) -> str:
            return result

        @app.workflow
        async def work() -> None:
            for number in range(count):
                await step(number)
            if timer:
                await hf.sleep("1h")

        async def run(number: int) -> None:
            handle = await work.start(id=str(number))
            with uncounted():
                await handle

        return run

    return make


def a_call(app: hf.App) -> Callable[[int], Awaitable[object]]:
    """A call of an actor that was asleep."""

    class Counter(hf.Actor, app=app):
        count: int = 0

        async def add(self) -> int:
            self.count += 1
            return self.count

    return lambda _number: Counter.at("one").add()


def a_message(app: hf.App) -> Callable[[int], Awaitable[object]]:
    """A message to an actor that was asleep, sent by nobody in particular."""

    class Log(hf.Actor, app=app):
        lines: int = 0

        async def append(self) -> None:
            self.lines += 1

    return lambda _number: hf.send(Log.at("one").append)


def dollars(used: Used) -> Decimal:
    return bill_of("", used).usd_per_million


def checkpoint(name: str, result: str, size_kb: int, *, inline_kb: int | None = None) -> Workload:
    """What one more step adds to a workflow."""

    three, two = (measured(steps(n, result), inline_kb=inline_kb) for n in (3, 2))
    return Workload(
        name,
        dollars(three) - dollars(two),
        roll_your_own.checkpoint(size_kb).usd_per_million,
        durable_functions.checkpoint(size_kb).usd_per_million,
    )


def whole(
    name: str,
    make: Callable[[hf.App], Callable[[int], Awaitable[object]]],
    own: Decimal,
    durable: Decimal | None,
    *,
    queue: bool = True,
) -> Workload:
    """A piece of work from its beginning to its end, with the messages that wake it, unless the caller does."""
    bill = bill_of("", measured(make))
    return Workload(name, (bill if queue else bill.measured()).usd_per_million, own, durable)


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
        whole("call of an actor", a_call, roll_your_own.actor_call().usd_per_million, None, queue=False),
        whole("message to an actor", a_message, roll_your_own.message_hop().usd_per_million, None),
    ]
