"""What open pages of the dashboard cost a busy worker in the same process: throughput with none and with many.

Each tab listens for news and fetches its page whenever it is old, as the script of the pages does. Rounds alternate.

    python -m benchmarks.open_tabs [TABS] [ROUNDS]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from typing import Any

import holdfast as hf
from benchmarks.dashboard import get

TABS = 20
ROUNDS = 6
ROUND_SECONDS = 4.0
AT_ONCE = 100


async def main(tabs: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = hf.App("shop", home=f"sqlite:///{folder}/shop.db")

        @app.step
        async def charge(card: str) -> str:
            return card

        @app.workflow
        async def checkout(card: str) -> str:
            return await charge(card)

        async with app.worker():
            api = app.asgi(authenticate=lambda _request: "ann", dashboard=hf.Dashboard())
            cookie = (await get(api, "/dashboard/executions"))[1]
            await throughput(checkout)  # warm
            found: dict[int, list[float]] = {0: [], tabs: []}
            for _ in range(rounds):
                for count in tuple(found):
                    opened = [Tab(api, cookie) for _ in range(count)]
                    rate = await throughput(checkout)
                    found[count].append(rate)
                    looks = sum([await each.close() for each in opened])
                    print(f"{count:>3} tabs: {rate:>7.0f} workflows/s, {looks / ROUND_SECONDS:>5.1f} looks/s")
            without, with_tabs = (statistics.median(found[count]) for count in found)
            print(f"median {without:.0f} and {with_tabs:.0f} workflows/s: {1 - with_tabs / without:.1%} less")


async def throughput(workflow: Any) -> float:
    """Workflows of one step a second, ``AT_ONCE`` at a time."""
    until, done = time.perf_counter() + ROUND_SECONDS, 0

    async def one_after_another() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await (await workflow.start("visa"))
            done += 1

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))
    return done / ROUND_SECONDS


class Tab:
    """An open page: a stream of news, and a look whenever some comes."""

    def __init__(self, api: Any, cookie: str) -> None:
        self._api = api
        self._cookie = cookie
        self._looks = 0
        self._task = asyncio.create_task(self._listen())

    async def close(self) -> int:
        """Close it; answers how often it has looked."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return self._looks

    async def _listen(self) -> None:
        never = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await never.wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            if b"stale" in message.get("body", b""):
                await get(self._api, "/dashboard/executions", self._cookie)
                self._looks += 1

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": "GET",
            "path": "/dashboard/events",
            "query_string": b"watch=executions",
            "headers": [(b"host", b"127.0.0.1"), (b"cookie", self._cookie.encode())],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 5),
        }
        await self._api(scope, receive, send)


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    asyncio.run(main(*(given + [TABS, ROUNDS][len(given) :])))
