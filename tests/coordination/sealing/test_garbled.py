"""Whatever is left of a body in the store, what reads it fails with an error of ours, which says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.coordination.sealing.secrets_kept import CARD, Cipher, Paid

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnusable
from holdfast.ports import Home

GARBLED: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda body: b"",
    "the mark": lambda body: body[:1],
    "the beginning": lambda body: body[: len(body) // 2],
    "all but the end": lambda body: body[:-1],
    "all but the beginning": lambda body: body[1:],
    "another mark": lambda body: b"\3" + body[1:],
    "another value": lambda body: b"7",
    "no text": lambda body: b"\xff",
}

Reader = Callable[[], Awaitable[Any]]


class Shop:
    """An app with a value of each kind, and all that reads them."""

    def __init__(self, data: MemoryData, seal: Any) -> None:
        async def opened() -> Home:
            return open_memory_home(data=data)

        self.app = app = hf.App("shop", home=opened, seal=seal)

        @app.workflow
        async def pay(card: str) -> str:
            return card + await hf.signal("more", str)

        @app.idempotent(key="id")
        async def once(id: str, card: str) -> str:
            return card

        self.pay, self.once, self.web = pay, once, app.session("web", idle="30m", lifetime="30d")
        self.document, self.stream = app.document(Paid, "d"), app.streams(Paid, name="payments").at("s")

    async def fill(self) -> str:
        async with self.app.worker():
            handle = await self.pay.start(CARD, id="p")
            await handle.signal("more", CARD)
            await handle
            await self.once("1", CARD)
            await self.document.create(Paid(CARD))
            await self.stream.append(Paid(CARD))
            return (await self.web.start({"card": CARD})).id

    def readers(self, session: str) -> Iterator[Reader]:
        yield self.pay.handle("p").result
        yield self.pay.handle("p").history
        yield self.pay.handle("p").status
        yield self.pay.handle("p").retry
        yield lambda: self.pay.start(CARD, id="p")
        yield lambda: self.once("1", CARD)
        yield self.document.get
        yield lambda: self.document.put(Paid(CARD), version=1)
        yield self._events
        yield lambda: self.stream.append(Paid(CARD))
        yield lambda: self.web.find(session)
        yield lambda: self.web.update(session, {"n": 1})
        yield lambda: self.web.rotate(session)

    async def _events(self) -> list[Any]:
        return [each async for each in self.stream.read()]


@pytest.mark.parametrize("seal", [Cipher(b"key"), hf.SealedOnly(Cipher(b"key"))], ids=["lenient", "strict"])
@pytest.mark.parametrize("name", GARBLED)
async def test_a_body_of_which_nothing_sensible_is_left_says_what_to_do(name, seal):
    data = MemoryData()
    session = await Shop(data, seal).fill()
    items = [item for each in data.partitions.values() for item in each.values() if item.body]
    told: list[str] = []
    for item in items:
        data.set(replace(item, body=GARBLED[name](item.body)))
        shop = Shop(data, seal)
        async with shop.app:
            for read in shop.readers(session):
                try:
                    async with asyncio.timeout(5):
                        await read()
                except hf.HoldfastError as error:
                    told += [str(error)] if isinstance(error, StoreUnusable) else []
        for each in items:
            data.set(each)
    assert len(told) >= len(items)
    assert all("backup" in each or "SealedOnly" in each for each in told)
