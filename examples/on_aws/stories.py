"""The six actor examples, each driven from outside and checked to the last number.

Calls of the driver's own go through the app as a client: into the actor's inbox, and a ring for the function.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

from examples.circuit_breaker import Admission, Breaker
from examples.counter import Counter as Clicks
from examples.distributed_cron import Cron, job
from examples.leaderboard import Leaderboard
from examples.on_aws.app import app
from examples.on_aws.cloud import Cloud
from examples.on_aws.patience import patiently
from examples.order_processing import CENTS, PIECES, PRICES, Stock, Wallet, orders, process
from examples.rate_limiter import RateLimiter

LOOK_SECONDS = 0.5
NUMBERS = itertools.count()


def fresh() -> str:
    """The id of a call, under which it may be repeated."""
    return f"call-{next(NUMBERS)}"


async def counting(cloud: Cloud, clicks: int) -> str:
    """Clicks over HTTP, by messages and by ordered messages, each twice."""

    async def by_http(number: int) -> int:
        status, answer = await cloud.http_twice("/v1/actors/Counter/clicks/add", [1], request_id=f"http-{number}")
        assert status == 200, answer
        return int(answer["result"])

    async def by_message(number: int) -> None:
        await cloud.command(
            holdfast="send", actor="Counter", key="clicks", method="add", args=[1], request_id=f"sent-{number}"
        )

    async def in_order(number: int) -> None:
        await cloud.ordered("clicks", f"ordered-{number}", actor="Counter", method="add", args=[1])

    answers = await asyncio.gather(*(by_http(number) for number in range(clicks)))
    await asyncio.gather(*(each(number) for number in range(clicks) for each in (by_message, in_order)))
    assert len(set(answers)) == clicks, "two clicks were answered alike"
    status, refused = await cloud.http("/v1/actors/Counter/clicks/take", [1_000_000], request_id="too-many")
    assert (status, refused["error_type"]) == (500, "ValueError"), refused
    while (value := await patiently(Clicks.at("clicks").value)) < 3 * clicks:
        await asyncio.sleep(LOOK_SECONDS)
    assert value == 3 * clicks, f"{value} clicks were counted"
    return f"{3 * clicks} clicks by HTTP, messages and ordered messages: {value} counted"


async def limiting(cloud: Cloud, requests: int) -> str:
    """A bucket of five that refills by ten a second: repeats cost nothing, and nobody gets more."""
    began = asyncio.get_running_loop().time()

    async def acquire(number: int) -> bool:
        _, answer = await cloud.http_twice("/v1/actors/RateLimiter/ann/acquire", [], request_id=f"r-{number}")
        return bool(answer["result"]["allowed"])

    allowed = sum(await asyncio.gather(*(acquire(number) for number in range(requests))))
    most = 5 + 10 * (asyncio.get_running_loop().time() - began) + 1
    assert 5 <= allowed <= most, f"{allowed} tokens were given, of at most {most:.0f}"
    ids = ("e-1", "e-1", "e-1", "e-2")
    left = [(await patiently(partial(RateLimiter.at("eve", request_id=id).acquire, 2))).left for id in ids]
    assert left[0] == left[1] == left[2] == 3, f"a repeat has cost tokens: {left}"
    return f"{requests} requests, each twice: {allowed} allowed; a repeat costs nothing"


async def scoring(cloud: Cloud, games: int) -> str:
    """Games that are reported in any order and more than once."""
    random, players = Random(1), ("ann", "bob", "cem", "dee")
    reports = [(f"game-{number}", random.choice(players), random.randrange(1, 6)) for number in range(games)]
    for number, (game, player, points) in enumerate(reports):
        if number % 2:
            await cloud.ordered("2026", game, actor="Leaderboard", method="award", args=[player, points])
        else:
            award = {"actor": "Leaderboard", "key": "2026", "method": "award", "args": [player, points]}
            await cloud.command(holdfast="send", request_id=game, **award)
    wanted: Counter[str] = Counter()
    for _, player, points in reports:
        wanted[player] += points
    board = Leaderboard.at("2026")
    while (
        sum((found := {place.player: place.points for place in await patiently(board.top)}).values()) < wanted.total()
    ):
        await asyncio.sleep(LOOK_SECONDS)
    assert found == wanted, f"a game was lost or counted twice: {found}, not {dict(wanted)}"
    return f"{games} games, each reported twice: {wanted.total()} points"


async def processing(cloud: Cloud, count: int) -> str:
    """Orders against limited stock and money; what was not shipped is back where it was."""
    placed = list(orders(count))
    customers = sorted({order.customer for order in placed})
    pieces = PIECES * count // 400  # so that some are sold out
    await asyncio.gather(
        *(patiently(partial(Stock.at(sku, request_id=fresh()).add, pieces)) for sku in PRICES),
        *(patiently(partial(Wallet.at(each, request_id=fresh()).add, CENTS)) for each in customers),
    )

    async def one(order: Any) -> str:
        body = asdict(order)
        await cloud.command(holdfast="start", workflow="process", id=order.id, input=[body])
        return await patiently(process.handle(order.id).result)

    endings = await asyncio.gather(*(one(order) for order in placed))
    shipped = [order for order, ending in zip(placed, endings, strict=True) if ending == "shipped"]
    for sku in PRICES:
        await _even("Stock", sku, pieces, sum(order.lines.get(sku, 0) for order in shipped))
    for customer in customers:
        await _even("Wallet", customer, CENTS, sum(each.cents for each in shipped if each.customer == customer))
    told = ", ".join(f"{number} {ending}" for ending, number in Counter(endings).most_common())
    return f"{count} orders: {told}; stock and wallets are even"


async def _even(actor: str, key: str, begun: int, gone: int) -> None:
    state = (await patiently(app.actor(actor, key).status)).state
    assert state == {"free": begun - gone, "held": {}, "gone": gone}, f"{actor} {key}: {state}, not {gone} gone"


async def ticking(_cloud: Cloud, ticks: int) -> str:
    """A tick every two seconds, each of which starts a job once."""
    every_ms, cron = 2_000, Cron.at("report")
    await patiently(partial(cron.schedule, every_ms))
    while (await patiently(cron.state)).ticks < ticks:
        await asyncio.sleep(LOOK_SECONDS)
    await patiently(Cron.at("report", request_id=fresh()).stop)
    state = await patiently(cron.state)
    assert state.next_tick is None, "it ticks on"
    listed = await patiently(partial(app.executions, "job", tags={"schedule": "report"}, limit=1_000, scan=True))
    jobs = listed.executions
    for each in jobs:
        assert await patiently(job.handle(each.id).result) == "the report of now"
    assert len(jobs) == state.ticks, f"{state.ticks} ticks, {len(jobs)} jobs"
    dues = sorted(datetime.fromisoformat(each.id.split()[1]) for each in jobs)
    steps = [(after - before) / timedelta(milliseconds=every_ms) for before, after in pairwise(dues)]
    assert all(step >= 1 and step.is_integer() for step in steps), f"not a multiple of the period: {steps}"
    skipped = round(sum(steps)) - len(steps)
    return f"{state.ticks} ticks, one job each; {skipped} were skipped while nobody was there"


async def breaking(_cloud: Cloud, callers: int) -> str:
    """A service that is down at first: it is left alone, then tried by one call at a time, then used again."""
    bank = Breaker.at("bank")

    async def admit() -> Admission:
        return await patiently(Breaker.at("bank", request_id=fresh()).admit)

    async def report(era: int, *, worked: bool) -> None:
        await patiently(partial(Breaker.at("bank", request_id=fresh()).report, era, worked=worked))

    admissions = await asyncio.gather(*(admit() for _ in range(3)))
    assert all(each.allowed for each in admissions)
    await asyncio.gather(*(report(each.era, worked=False) for each in admissions))
    assert await patiently(bank.current_phase) != "closed", "three failures did not open it"
    probes = 0
    eras: set[int] = set()
    while await patiently(bank.current_phase) != "closed":
        allowed = [each for each in await asyncio.gather(*(admit() for _ in range(callers))) if each.allowed]
        for probe in allowed:
            assert probe.era not in eras, "two calls at once tried a service that may be down"
            eras.add(probe.era)
            probes += 1
            await report(probe.era, worked=probes > 1)  # down once more, then up
        await asyncio.sleep(LOOK_SECONDS)
    assert probes >= 2
    again = await asyncio.gather(*(admit() for _ in range(callers)))
    assert all(each.allowed for each in again)
    return f"opened by 3 failures, {probes} probes one at a time, closed"
