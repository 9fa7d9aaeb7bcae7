"""The shop that the troubles are planted in. A worker in a process of its own runs it: ``holdfast run planted:app``."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

import holdfast as hf
from holdfast.bus import BusEvent, NotTaken, Unfit
from holdfast.testing.faulty_bus import with_bus

CLOSED = os.environ["PLANTED_CLOSED"]
HOME = os.environ["HOLDFAST_URL"]
DECLARED = os.environ.get("PLANTED_CODE", "new")
LIMITS = hf.Limits(lease_ms=int(os.environ["PLANTED_LEASE_MS"]))
BEHIND_MS = int(os.environ.get("PLANTED_BEHIND_MS", "0"))


class BusOverHttp:
    """A bus behind HTTP, as a user might write one."""

    async def put(self, events: Sequence[BusEvent]) -> Sequence[NotTaken | Unfit | None]:
        try:
            await asyncio.to_thread(urllib.request.urlopen, CLOSED, b"", 10)
        except OSError as error:
            return [NotTaken(f"the bus does not answer: {error}")] * len(events)
        return [None] * len(events)


class Behind:
    """A clock that is behind, to do now what is to be an hour old."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 - BEHIND_MS


app = hf.App("shop", home=with_bus(HOME, BusOverHttp()), clock=Behind(), limits=LIMITS)


PRICES = {"tea": 3}


@app.step(retry=hf.Retry(max_attempts=1))
async def price(sku: str) -> int:
    return PRICES[sku]


@app.workflow
async def quote(sku: str) -> int:
    return await price(sku)


@app.step
def ask(url: str) -> str:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - a server of the test
        return str(answer.read())


@app.workflow
async def exchange(url: str) -> str:
    return await ask(url)


class TooManyRequests(Exception):
    def __init__(self, url: str, retry_after: str) -> None:
        super().__init__(f"429 Too Many Requests from {url}, Retry-After: {retry_after}")
        self.retry_after = f"{retry_after}s"


@app.step(retry=hf.Retry(delay=lambda error, attempt: getattr(error, "retry_after", None)))
def quota(url: str) -> str:
    try:
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - a server of the test
            return str(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise TooManyRequests(url, error.headers["Retry-After"]) from None


@app.workflow
async def limited(url: str) -> str:
    return await quota(url)


@app.step(retry=hf.Retry(initial="1m", max_attempts=10, jitter=hf.Jitter.NONE))
def carry(url: str) -> None:
    urllib.request.urlopen(url)  # noqa: S310 - a port of the test


@app.workflow
async def shipment(url: str) -> None:
    await carry(url)


@app.workflow
async def approval() -> str:
    return await hf.signal("approved", str)


@app.workflow
async def purchase() -> str:
    return await approval()


@app.step
def order_courier(token: str) -> None:
    """The courier answers with the token some day, or never."""


@app.workflow
async def parcel() -> str:
    callback = hf.callback(str)
    await order_courier(callback.token)
    return await callback


@app.workflow
async def spinning() -> None:
    approved = asyncio.ensure_future(hf.signal("approved", str))
    while not approved.done():
        await asyncio.sleep(0)


@app.workflow(versions="pinned", version="1" if DECLARED == "old" else "2")
async def tour() -> str:
    return await hf.signal("arrived", str)


@app.step
async def reserve() -> None:
    pass


@app.step
async def weigh() -> None:
    pass


@app.workflow
async def packing() -> str:
    await (reserve() if DECLARED == "old" else weigh())
    return await hf.signal("packed", str)


@app.step
async def report() -> None:
    async with app.lease("nightly-report", ttl="10m"):
        await asyncio.Event().wait()


@app.workflow
async def nightly() -> None:
    await report()


@app.step
async def hold() -> None:
    await asyncio.Event().wait()


@app.workflow
async def holding() -> None:
    await hold()


@app.transaction
def stop(cursor: hf.SqlCursor) -> None:
    signal.raise_signal(signal.SIGSTOP)  # kill() may stop another thread first, and this one would commit meanwhile


@app.workflow
async def stopping() -> None:
    await stop()


@dataclass
class Placed:
    order: str


@app.consumer(Placed, retry=hf.Retry(max_attempts=2, initial="1ms"))
async def bill(event: Placed) -> None:
    raise ValueError(f"order {event.order} has no address")


@app.cron("* * * * *", missed=hf.Missed.ONCE)
async def close_the_minute() -> None:
    pass


@dataclass
class Shipped:
    order: str


app.to_bus(Shipped)
