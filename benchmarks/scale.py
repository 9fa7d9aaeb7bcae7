"""``python -m benchmarks.scale events --rate 100 --clients 50``: what one app on AWS takes, through a hostile DynamoDB.

``events`` publishes events of one app, ``messages`` sends messages to one actor: at a rate, whatever is answered, from
clients with homes of their own, in a few processes. A worker in a process of its own delivers them. DynamoDB Local runs
behind ``holdfast.testing.hostile``, with the rules of the service and no random faults unless ``--set`` says so.
``children`` and ``overdue`` are in ``benchmarks.piles``.

The first seconds are not counted (``--warm-up``): Java compiles the emulator as it runs, and its first ten thousand
writes take three times as long as later ones. They are sent at the same rate, and none of them may be lost. The worker
has a lower priority than the clients: elsewhere it is another machine, here it shares two processors with them.

Printed: what was accepted a second; the median, the 99th percentile and the longest time from when a send was due until
it was accepted; errors; the share of transactions that was cancelled by others; and how many of the accepted were not
applied when nothing more was applied for a while.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import holdfast as hf
from benchmarks import piles
from benchmarks.emulator import child_environment, new_home
from benchmarks.lean import LeanConnection
from benchmarks.machine import described
from holdfast.backends.aws import open_aws_home

QUIET = ("unprocessed", "short_pages", "failures", "slowness", "cuts")
"""Rules that draw faults at random; they are off, so that a run shows the limits alone."""

DRAINED_SECONDS = 15.0
LEAD_SECONDS = 2.0
WAITING = 100_000
"""The mailbox of the actor: what is accepted in a minute may wait. A smaller one is counted as it fills."""


@dataclass
class Sent:
    """An event."""

    id: str


def app_on(url: str, endpoint: str, applied: set[str]) -> tuple[hf.App, Any]:
    """The app, on a home with a connection of its own, and its actor."""
    app = hf.App("scale", home=partial(open_aws_home, url, connection=LeanConnection(endpoint)))

    @app.consumer(Sent)
    async def take(event: Sent) -> None:
        applied.add(event.id)

    class Counting(hf.Actor, app=app, mailbox=WAITING):
        count: int = 0

        async def add(self, id: str) -> None:
            self.count += 1
            applied.add(id)

    return app, Counting


@dataclass(frozen=True)
class Plan:
    """One run, as its processes are told."""

    what: str
    url: str
    endpoint: str
    rate: float
    clients: int
    seconds: float
    begins_at: float
    warm_up: float = 0.0
    """Seconds before ``begins_at`` in which the same is done, and not counted."""


async def send_all(plan: Plan, first: int, step: int) -> dict[str, Any]:
    """Send what falls to this process: every ``step``-th send from the ``first`` on, each when it is due."""
    taken: list[float] = []
    accepted: list[str] = []
    errors: Counter[str] = Counter()
    last = 0.0
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for _ in range(max(1, plan.clients // step)):
            app, actor = app_on(plan.url, plan.endpoint, set())
            await stack.enter_async_context(app)
            clients.append((app, actor))

        async def send(number: int, due: float) -> None:
            nonlocal last
            app, actor = clients[number // step % len(clients)]
            try:
                if plan.what == "events":
                    await app.publish(Sent(str(number)))
                else:
                    await hf.send(actor.at("one").add, str(number))
            except hf.HoldfastError as error:
                errors[type(error).__name__] += 1
                return
            accepted.append(str(number))
            if due >= plan.begins_at:
                last = time.time()
                taken.append(last - due)

        async with asyncio.TaskGroup() as sends:
            for number in range(first, int(plan.rate * (plan.warm_up + plan.seconds)), step):
                due = plan.begins_at - plan.warm_up + number / plan.rate
                if (rest := due - time.time()) > 0:
                    await asyncio.sleep(rest)
                sends.create_task(send(number, due))
    return {"taken": taken, "accepted": accepted, "errors": errors, "last": last}


async def work(plan: Plan) -> set[str]:
    """Deliver what was sent until its standard input ends, and nothing more is applied."""
    applied: set[str] = set()
    app, _ = app_on(plan.url, plan.endpoint, applied)
    async with app.worker():
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < DRAINED_SECONDS:
            if len(applied) != seen:
                seen, since = len(applied), time.monotonic()
            await asyncio.sleep(0.2)
    return applied


def child(role: str, plan: Plan, first: int, step: int) -> subprocess.Popen[str]:
    lower = ["nice", "-n", "10"] if role == "work" else []
    told = json.dumps([role, vars(plan), first, step])
    command = [*lower, sys.executable, "-m", "benchmarks.scale", "--child", told]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=child_environment())


def run_child(told: str) -> None:
    role, plan, first, step = json.loads(told)
    if role == "send":
        print(json.dumps(asyncio.run(send_all(Plan(**plan), first, step))))
    else:
        print(json.dumps(sorted(asyncio.run(work(Plan(**plan))))))


@contextlib.contextmanager
def proxy(upstream: str, options: argparse.Namespace) -> Iterator[str]:
    changes = [f"{rule}=off" for rule in QUIET] + options.set
    command = [sys.executable, "-m", "holdfast.testing.hostile", "--upstream", upstream, "--seed", str(options.seed)]
    command += [word for change in changes for word in ("--set", change)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.read()


def report_of(endpoint: str) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(endpoint, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def measure(options: argparse.Namespace, endpoint: str) -> Figures:
    """One run; its figures are printed too."""
    url = asyncio.run(new_home(endpoint))
    plan = Plan(
        options.what, url, endpoint, options.rate, options.clients, options.seconds, time.time(), options.warm_up
    )
    worker = child("work", plan, 0, 1)
    assert worker.stdout is not None
    worker.stdout.readline()
    before = report_of(endpoint)
    plan = Plan(**vars(plan) | {"begins_at": time.time() + LEAD_SECONDS + options.clients * 0.02 + options.warm_up})
    senders = [child("send", plan, first, options.processes) for first in range(options.processes)]
    told = [json.loads(sender.communicate()[0]) for sender in senders]
    after = report_of(endpoint)
    applied = set(json.loads(worker.communicate("\n")[0]))
    return show(plan, told, applied, Counter(after["requests"]) - Counter(before["requests"]), after["faults"])


@dataclass(frozen=True)
class Figures:
    """How many a second were accepted, how long that took from when each was due, how many failed, and how many of the
    accepted were not applied.
    """

    per_second: float
    p50_seconds: float
    p99_seconds: float
    errors: int
    lost: int


def show(
    plan: Plan, told: list[dict[str, Any]], applied: set[str], requests: Counter[str], faults: dict[str, int]
) -> Figures:
    taken = sorted(each for part in told for each in part["taken"]) or [0.0]
    accepted = {each for part in told for each in part["accepted"]}
    errors = sum((Counter(part["errors"]) for part in told), Counter[str]())
    seconds = max(part["last"] for part in told) - plan.begins_at
    cancelled = faults.get("transaction cancelled by another", 0)
    print(f"{plan.what}: {plan.rate:g}/s offered for {plan.seconds:g} s from {plan.clients} homes")
    counted = sum(len(part["taken"]) for part in told)
    per_second, lost = counted / max(seconds, plan.seconds), len(accepted - applied)
    print(
        f"  accepted          {per_second:.0f}/s ({counted} in {seconds:.1f} s, after {plan.warm_up:g} s of warming up)"
    )
    at = [taken[min(len(taken) - 1, int(len(taken) * share))] for share in (0.5, 0.99, 1.0)]
    print(f"  accepted after    p50 {at[0]:.3f} s, p99 {at[1]:.3f} s, longest {at[2]:.3f} s")
    print(f"  errors            {dict(errors) or 'none'}")
    transactions = requests["TransactWriteItems"]
    print(f"  transactions      {transactions}, {cancelled / max(1, transactions):.0%} cancelled")
    print(f"  applied           {len(accepted & applied)}, {lost} of those accepted are missing")
    print(f"  requests          {dict(requests)}")
    print(f"  faults            {faults}")
    about = described()
    print(
        f"  {about['date']}, {about['commit']}, {about['machine']['processor']}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return Figures(per_second, at[0], at[1], errors.total(), lost)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of a run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("what", choices=("events", "messages", "children", "overdue"))
    parser.add_argument("--rate", type=float, default=100.0, help="a second")
    parser.add_argument("--clients", type=int, default=50, help="homes that send")
    parser.add_argument("--processes", type=int, default=2, help="of the operating system, for them")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=10.0, help="seconds before that")
    parser.add_argument("--count", type=int, default=10_000, help="children, or overdue executions")
    parser.add_argument("--workers", type=int, default=4, help="processes that work them off")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], metavar="RULE.FIELD=VALUE", help="see holdfast.testing.hostile"
    )
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> Figures | piles.Worked:
    """One run, on an emulator of its own."""
    from tests.backends.aws.local import DynamoDBLocal, credentials

    server = DynamoDBLocal()
    try:
        with credentials(), proxy(server.endpoint, options) as endpoint:
            piled = options.what in ("children", "overdue")
            return piles.measure(options, endpoint) if piled else measure(options, endpoint)
    finally:
        server.stop()


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        run_child(sys.argv[2])
    else:
        run(parse())


if __name__ == "__main__":
    main()
