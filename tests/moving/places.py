"""A shop with something of everything, and homes to move it between."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.opening import open_home
from holdfast.ports import Home

LARGE = Random(3).randbytes(200_000).hex()
"""Over the limit of what stays in an item, and hardly compressible."""
FILE = Random(4).randbytes(1_500_000)

HOUR_MS = 3_600_000


class Clock:
    """One that tests set."""

    def __init__(self, ms: int = 1_000_000_000_000) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms


@dataclass
class Placed:
    order: str


class Sqlite:
    """A home in a file."""

    def __init__(self, path: Path) -> None:
        self.home = f"sqlite:///{path}"

    async def open(self) -> Home:
        return await open_home(self.home)


class Memory:
    """A home in memory that outlives those who open it."""

    def __init__(self) -> None:
        self.data = MemoryData()

    @property
    def home(self) -> Any:
        return self.open

    async def open(self) -> Home:
        return open_memory_home(data=self.data)


@asynccontextmanager
async def opened(place: Any):
    """The bare home."""
    home = await place.open()
    try:
        yield home
    finally:
        await home.doorbell.close()
        await home.store.close()


class Mirror:
    """A seal, of a kind."""

    def seal(self, data: bytes, place: bytes) -> bytes:
        return place + data[::-1]

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        assert sealed.startswith(place)
        return sealed[len(place) :][::-1]


class Shop:
    """The code, on one home; what its steps and handlers did is in ``done``."""

    def __init__(self, place: Any, clock: Clock) -> None:
        self.app = app = hf.App("shop", home=place.home, clock=clock, limits=hf.Limits(near_seconds=0.1))
        self.done: list[str] = []
        self.tokens: list[str] = []

        @app.step
        async def charge(order: str) -> str:
            self.done.append(f"charge {order}")
            return f"paid {order}"

        @app.step
        async def ask(token: str) -> None:
            self.tokens.append(token)

        @app.workflow
        async def approval(order: str) -> str:
            payment = await charge(order)
            return f"{payment}, {await hf.signal('decision', str)}"

        @app.workflow
        async def nap() -> str:
            await hf.sleep("1h")
            return await charge("nap")

        @app.workflow
        async def parcel() -> str:
            callback = hf.callback(str)
            await ask(callback.token)
            return await callback

        @app.workflow
        async def large(text: str) -> int:
            await hf.signal("go")
            return len(text)

        class Cart(hf.Actor, app=app):
            items: dict[str, int] = hf.field(default_factory=dict)
            closed: bool = False

            async def add(self, sku: str) -> int:
                self.items[sku] = self.items.get(sku, 0) + 1
                return self.items[sku]

            async def close_later(self) -> None:
                self.close.after("1h")

            @hf.timer
            async def close(self) -> None:
                self.closed = True

            @hf.read
            async def all(self) -> dict[str, int]:
                return self.items

            @hf.read
            async def is_closed(self) -> bool:
                return self.closed

        @app.consumer(Placed)
        async def bill(event: Placed) -> None:
            self.done.append(f"bill {event.order}")

        @app.idempotent(key="order", window="30d")
        async def pay(order: str) -> str:
            self.done.append(f"pay {order}")
            return f"{order} by {len(self.done)}"

        self.approval, self.nap, self.parcel, self.large, self.cart, self.pay = approval, nap, parcel, large, Cart, pay
