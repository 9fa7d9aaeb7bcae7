"""The shop in two processes on one file, one of which is killed on the way; and with a Redis that comes and goes."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from examples.shopping_cart.books import audit
from examples.shopping_cart.browser import Browser
from examples.shopping_cart.outside import outside
from examples.shopping_cart.shop import app
from tests.examples.shopping_cart.dying_server import POINTS, UNDOING

from holdfast.coordination.cache import breaker

ROOT = Path(__file__).parents[3]
LINES = "/cart/lines"

WHERE = [*((point, "after") for point in POINTS), ("place", "before"), ("charge", "before")]
EACH_TIME = [("charge", "after"), ("tell", "after"), ("void", "after"), ("place", "before")]


class Server:
    """A process that serves the shop."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port

    @classmethod
    async def start(cls, *plan: str) -> Server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.examples.shopping_cart.dying_server",
            *plan,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        first = (await process.stdout.readline()).decode()
        found = re.search(r"127\.0\.0\.1:(\d+)", first)
        assert found is not None, first
        return cls(process, int(found[1]))

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def two_servers(*plan: str) -> AsyncIterator[list[Server]]:
    servers = [await Server.start(*plan), await Server.start(*plan)]
    try:
        yield servers
    finally:
        for server in servers:
            await server.kill()


async def stubbornly(browser, servers, method, path, data, key=None):
    """Ask, and ask another server if one dies, or says that it cannot tell yet: what a client with a key may do."""
    asked = 0
    while True:
        browser.port = servers[asked % len(servers)].port
        asked += 1
        try:
            answer = await browser.ask(method, path, data, key)
        except OSError:
            continue
        if answer.status not in {409, 503}:
            return answer
        await asyncio.sleep(0.05)


async def shop_with(browser, servers, name, wish, card):
    """Log in, fill the cart, and check out, whatever it takes."""
    await stubbornly(browser, servers, "POST", "/login", {"name": name})
    for sku, quantity in wish.items():
        await stubbornly(browser, servers, "POST", LINES, {"sku": sku, "quantity": quantity}, key=f"add {sku}")
    cents = (await stubbornly(browser, servers, "GET", "/cart", None)).data["cents"]
    return await stubbornly(browser, servers, "POST", "/checkout", {"card": card, "cents": cents}, key="only")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "when"),
    [pytest.param(*each, marks=[] if each in EACH_TIME else [pytest.mark.torture]) for each in WHERE],
)
async def test_wherever_a_process_is_killed_another_finishes_the_order(home, point, when):
    mark, is_undone = home / "mark", point in UNDOING
    async with two_servers(point, when, str(mark)) as servers:
        ann = Browser(0)
        answer = await shop_with(ann, servers, "ann", {"mug": 2, "bench": 1}, "visa")
        # 202: whoever took over has begun later than a customer likes to wait.
        assert answer.status in {202, 402 if is_undone else 201}
        deaths = [asyncio.create_task(server.process.wait()) for server in servers]
        died, waiting = await asyncio.wait(deaths, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert mark.exists() and [each.result() for each in died] == [-9], "nobody has died: the test shows nothing"
        async with app:
            told = await audit()
            world = await outside.get()
        assert not any(each.done() for each in waiting)
    assert told == f"{0 if is_undone else 1} orders confirmed and paid for, {1 if is_undone else 0} declined, 1 letters"
    assert list(world.payments().values()) == [(27_400, "refunded" if is_undone else "charged")]
    times = 2 if (point, when) == ("charge", "after") else 1
    assert len(world.requests("charge")) == times, "a step that died is asked again, under the same key"


@pytest.mark.process
@pytest.mark.slow
async def test_forty_customers_while_servers_are_killed_and_started_again(home):
    async with two_servers() as servers:
        browsers = [Browser(0) for _ in range(40)]
        shopping = [
            asyncio.create_task(
                shop_with(each, servers, f"c{number}", {"mug": 1, "lamp": 2}, "visa" if number % 4 else "declined")
            )
            for number, each in enumerate(browsers)
        ]
        for turn in range(4):
            async with asyncio.timeout(60):
                while sum(each.done() for each in shopping) < 8 * (turn + 1):
                    await asyncio.sleep(0.01)
            dies = servers[turn % 2]
            await dies.kill()
            servers[turn % 2] = await Server.start()
        answers = await asyncio.gather(*shopping)
        assert {answer.status for answer in answers} <= {201, 202, 402}
        async with app:
            told = await audit()
    assert told == "30 orders confirmed and paid for, 10 declined, 40 letters"


# ── Redis ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_redis_that_comes_and_goes_is_no_more_than_slower(opened, redis_server, monkeypatch):
    monkeypatch.setattr(breaker, "FIRST_REST_SECONDS", 0.001)
    monkeypatch.setattr(breaker, "LONGEST_REST_SECONDS", 0.001)
    monkeypatch.setenv("HOLDFAST_CACHE_URL", redis_server.url)
    redis_server.kill()
    async with opened() as visitor:
        ann = visitor()
        for number, price in enumerate((1_100, 1_200, 1_300)):
            assert (await ann.put("/products/mug/price", {"cents": price})).status == 200
            assert (await ann.get("/products/mug")).data["cents"] == price
            assert (await ann.post(LINES, {"sku": "mug"})).data["cents"] == price
            paid = await ann.post("/checkout", {"card": "visa", "cents": price}, key=f"{number}")
            assert paid.status == 201
            (redis_server.start if number == 0 else redis_server.kill)()
        assert await audit() == "3 orders confirmed and paid for, 0 declined, 3 letters"
