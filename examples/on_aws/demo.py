"""One run: everything is set up, worked, broken and compared, and nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Protocol

from examples.on_aws.app import TOKEN_VARIABLE, app
from examples.on_aws.build import build
from examples.on_aws.chaos import Chaos
from examples.on_aws.cloud import Cloud, hurry
from examples.on_aws.deploy import HANDLER, PREFIX, deploy_construct, deploy_template
from examples.on_aws.emulator import CREDENTIALS, REGION, emulator
from examples.on_aws.faults import FOLDER_VARIABLE, LOST, POINTS, TWICE
from examples.on_aws.hostility import RULES, suffered
from examples.on_aws.shopping import shopping
from examples.on_aws.stories import breaking, counting, limiting, processing, scoring, ticking
from examples.on_aws.tools import environment
from msgspec import Struct

from holdfast.demo.outside import outside_world
from holdfast.testing import HostileDynamoDB

ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_DYNAMODB"
"""Where SDKs of AWS look for the endpoint of DynamoDB alone, before they look for that of all services.

https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
"""

SWEEP_SECONDS = 4.0
SETTLE_SECONDS = 90.0


class Load(Struct, frozen=True, kw_only=True):
    """How much there is to do, and how often it is disturbed."""

    orders: int = 30
    clicks: int = 12
    requests: int = 10
    games: int = 24
    processes: int = 20
    ticks: int = 12
    callers: int = 5
    random_kills: int = 8
    kill_every_seconds: float = 4.0
    times_of_each_fault: int = 2
    timeout_seconds: int = 15
    """Of an invocation."""
    visibility_seconds: int = 18
    """After so long a message comes again that went down with an environment. The stack has 90, which is right for AWS;
    the demonstration is in a hurry."""
    patience_seconds: float = 900.0


class Report(Struct, frozen=True, kw_only=True):
    """What was done, what went wrong on purpose, and whether it fits together."""

    done: dict[str, str]
    faults: dict[str, int]
    problems: list[str]
    elapsed_seconds: float


class Watcher(Protocol):
    """Whoever is told how it goes."""

    def tell(self, text: str) -> None:
        """Something worth a line."""
        ...


async def show(
    folder: Path, load: Load, watcher: Watcher, *, construct: bool, hostile: bool = False, seed: int = 1
) -> Report:
    """The whole demonstration, in an empty folder; ``hostile``: with the faults of ``hostility``. Raises
    ``ToolMissing`` if the machine lacks something.
    """
    with _credentials():
        async with AsyncExitStack() as running:
            world = _world(folder, load, watcher, seed, construct=construct, hostile=hostile)
            cloud, chaos, dynamodb = await running.enter_async_context(world)
            return await _Run(cloud, chaos, dynamodb, load, watcher).perform(folder)


@asynccontextmanager
async def _world(
    folder: Path, load: Load, watcher: Watcher, seed: int, *, construct: bool, hostile: bool
) -> AsyncGenerator[tuple[Cloud, Chaos, HostileDynamoDB | None]]:
    """Emulator, bank, warehouse and stack; and the app, open here as a client. The proxy too, if there is one."""
    random = Random(seed)
    token = f"{random.getrandbits(256):064x}"
    async with AsyncExitStack() as running:
        programs = await asyncio.to_thread(environment, "ministack", watcher.tell)
        watcher.tell("packing the code")
        code = await asyncio.to_thread(build, folder)
        here = running.enter_context(emulator(programs, folder))
        watcher.tell(f"an emulator of AWS is up at {here.endpoint}")
        home = f"aws://{PREFIX}?region={REGION}&endpoint={here.endpoint}"
        dynamodb = None
        if hostile:
            dynamodb = running.enter_context(HostileDynamoDB(here.endpoint, seed=seed, rules=RULES))
            home = home_behind(dynamodb.url, here.endpoint)
            watcher.tell(f"DynamoDB refuses, fails and lags at {dynamodb.url}")
        services = await running.enter_async_context(outside_world(folder, home))
        chaos = Chaos(here, folder / "faults", random)
        variables = {
            **services,
            FOLDER_VARIABLE: str(chaos.folder),
            TOKEN_VARIABLE: token,
        }
        if dynamodb is not None:
            variables[ENDPOINT_VARIABLE] = dynamodb.url
        function = {
            "handler": HANDLER,
            "timeout_seconds": load.timeout_seconds,
            "environment": variables,
            "url": "public",  # who calls is asked by the handler
            "most_at_once": 3,  # each is a process of this machine
        }
        deploy = deploy_construct if construct else deploy_template
        await asyncio.to_thread(deploy, here, code, function, watcher.tell)
        await asyncio.to_thread(hurry, here, PREFIX, load.visibility_seconds)
        app.home_url = home
        await running.enter_async_context(app)
        yield Cloud(here, PREFIX, token, random), chaos, dynamodb


def home_behind(dynamodb: str, endpoint: str) -> str:
    """The home, whose table is elsewhere than the other services."""
    others = "&".join(f"{service}_endpoint={endpoint}" for service in ("sqs", "events", "s3", "lambda"))
    return f"aws://{PREFIX}?region={REGION}&endpoint={dynamodb}&{others}"


@contextmanager
def _credentials() -> Generator[None]:
    """None that are real are found while this lasts, and no proxy on the way to this machine."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(CREDENTIALS, AWS_REGION=REGION, NO_PROXY="127.0.0.1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class _Run:
    """The stories beside each other, and what disturbs them."""

    def __init__(
        self, cloud: Cloud, chaos: Chaos, dynamodb: HostileDynamoDB | None, load: Load, watcher: Watcher
    ) -> None:
        self._cloud = cloud
        self._chaos = chaos
        self._dynamodb = dynamodb
        self._load = load
        self._watcher = watcher
        self._done: dict[str, str] = {}
        self._problems: list[str] = []

    async def perform(self, folder: Path) -> Report:
        """Tell all stories to their ends."""
        load, cloud, began = self._load, self._cloud, time.monotonic()
        stories = {
            "checkout": shopping(cloud, folder, load.orders),
            "counter": counting(cloud, load.clicks),
            "rate limiter": limiting(cloud, load.requests),
            "leaderboard": scoring(cloud, load.games),
            "order processing": processing(cloud, load.processes),
            "distributed cron": ticking(cloud, load.ticks),
            "circuit breaker": breaking(cloud, load.callers),
        }
        for fault in (*POINTS, TWICE, LOST):
            self._chaos.plan(fault, load.times_of_each_fault)
        self._watcher.tell(f"{len(stories)} examples at work; environments die at {len(POINTS)} points and at random")
        sweeps = asyncio.create_task(self._sweep())
        kills = asyncio.create_task(self._chaos.kill_at_random(load.random_kills, load.kill_every_seconds))
        try:
            await asyncio.gather(*(self._tell(name, story) for name, story in stories.items()))
            await self._empty_queues()
        finally:
            for task in (sweeps, kills):
                task.cancel()
            await asyncio.gather(sweeps, kills, return_exceptions=True)
        faults = self._faults()
        self._problems += [f"it never happened: {what}" for what, times in faults.items() if not times]
        return Report(done=self._done, faults=faults, problems=self._problems, elapsed_seconds=time.monotonic() - began)

    async def _tell(self, name: str, story: Awaitable[str]) -> None:
        try:
            async with asyncio.timeout(self._load.patience_seconds):
                self._done[name] = await story
        except TimeoutError:
            self._problems.append(f"{name}: it has not ended within {self._load.patience_seconds:.0f} s")
        except Exception as error:
            self._problems.append(f"{name}: {type(error).__name__}: {error}")
        else:
            self._watcher.tell(f"{name}: {self._done[name]}")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            with contextlib.suppress(Exception):  # it may be killed like all others
                await self._cloud.sweep()

    async def _empty_queues(self) -> None:
        """Wait until every message was taken; none may have been set aside."""
        until = time.monotonic() + SETTLE_SECONDS
        while any((left := await self._cloud.left()).values()) and time.monotonic() < until:
            await asyncio.sleep(1)
        self._problems += [f"{number} messages are left in {name}" for name, number in left.items() if number]

    def _faults(self) -> dict[str, int]:
        happened, seen, counts = self._chaos.happened, self._chaos.seen, self._cloud.counts
        return {
            "environments killed while at work": self._chaos.killed,
            **{f"environments that died at '{name}'": happened[name] for name in POINTS},
            "messages that came again": seen["message came again"],
            "batches handled twice": happened[TWICE],
            "batches of rings lost": happened[LOST],
            **dict(sorted(counts.items())),
            **({} if self._dynamodb is None else suffered(self._dynamodb.report)),
        }
