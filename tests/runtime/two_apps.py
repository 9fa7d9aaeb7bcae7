"""Two apps on one home, each with code of its own. Run as a program, it works for one of them until it is killed."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import holdfast as hf


class Declined(Exception):
    pass


def two_apps(home: str) -> tuple[hf.App, hf.App, Any]:
    """The shop, whose workflow calls that of the bank, starts it, and awaits it by its handle."""
    shop, bank = hf.App("shop", home=home), hf.App("bank", home=home)

    @bank.workflow
    async def pay(cents: int) -> str:
        await hf.sleep("10ms")
        if cents < 0:
            raise Declined(cents)
        return f"paid {cents}"

    @shop.workflow
    async def order(cents: int) -> list[str]:
        try:
            await pay(-cents)
        except hf.ExecutionFailed as error:
            declined = error.error_type
        called, handle = await asyncio.gather(pay(cents), pay.start(2 * cents))
        return [declined, called, await handle]

    return shop, bank, order


EXPECTED = ["Declined", "paid 7", "paid 14"]


async def work(app: hf.App) -> None:
    async with app.worker():
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(two_apps(sys.argv[1])[int(sys.argv[2])]))
