"""Visits in virtual time: they last while they are used, and not for ever."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie

import pytest
from examples.shopping_cart.shop import app
from examples.shopping_cart.visits import Visits

MINUTE, DAY = 60, 86_400


class Visitor:
    """Requests to the middleware alone, each with the cookie that the last one gave."""

    def __init__(self):
        self.cookie = ""

    async def owner(self):
        """Whose request it was."""
        seen = []

        async def inner(scope, receive, send):
            seen.append(scope["visit"].owner)
            await send({"type": "http.response.start", "status": 204, "headers": []})

        async def send(message):
            for name, value in message["headers"]:
                assert name == b"set-cookie"
                self.cookie = SimpleCookie(value.decode())["visit"].OutputString(attrs=[])

        headers = [(b"cookie", self.cookie.encode())] if self.cookie else []
        await Visits(inner)({"type": "http", "headers": headers}, None, send)
        return seen[0]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """The app is that of other tests too."""
    monkeypatch.setattr(app, "_home", None)
    monkeypatch.setattr(app, "_clock", app.clock)


def test_a_visit_lasts_while_it_is_used_and_ends_half_an_hour_later(virtually):
    async def main():
        ann = Visitor()
        guest = await ann.owner()
        for _ in range(10):
            await asyncio.sleep(26 * MINUTE)
            assert await ann.owner() == guest
        await asyncio.sleep(31 * MINUTE)
        assert await ann.owner() not in {"", guest}

    virtually(app, main)


@pytest.mark.torture
def test_a_visit_ends_after_a_month_however_often_it_is_used(virtually):
    async def main():
        ann = Visitor()
        guest = await ann.owner()
        for _ in range(60 * 24 * 30 // 29):
            await asyncio.sleep(29 * MINUTE)
            assert await ann.owner() == guest
        await asyncio.sleep(29 * MINUTE)
        assert await ann.owner() != guest

    virtually(app, main)
