"""An app behind the API, in memory, on a loop of its own: what hostile requests are sent to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from tests.http.conftest import Shop

import holdfast as hf
from holdfast.http.api import Options
from holdfast.http.limits import HttpLimits
from holdfast.http.respond import respond


class Served:
    """The app, and what it must never answer."""

    def __init__(self, app: hf.App, loop: asyncio.AbstractEventLoop) -> None:
        self.app = app
        self.options = Options(authenticate=lambda _request: "tester", limits=HttpLimits(wait_seconds=0.01))
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def ask(self, method: str, path: str, query: str, headers: list[tuple[str, str]], body: bytes) -> None:
        request = hf.Request(method=method, path=path, query=query, headers=tuple(headers), body=body)
        response = self.run(respond(self.app, request, self.options))
        self.check(response.status)
        for name, value in response.headers:
            assert "\n" not in name + value
            assert "\r" not in name + value

    def check(self, status: int) -> None:
        assert 200 <= status < 500 or status in {503, 504}, status


@contextmanager
def served() -> Iterator[Served]:
    """The app, which nobody works on: what is asked of it is written, and stays."""
    with asyncio.Runner() as runner:
        shop = Shop(hf.App("shop", home="memory://"))

        async def enter() -> None:
            await shop.app.__aenter__()

        async def leave() -> None:
            await shop.app.__aexit__(None, None, None)

        runner.run(enter())
        try:
            yield Served(shop.app, runner.get_loop())
        finally:
            runner.run(leave())
