"""The shop in a process of its own, which kills itself at a named point, once for all that have the same mark.

``python -m tests.examples.shopping_cart.dying_server POINT before|after MARK``: the mark is a file that must not exist.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys

from examples.shopping_cart import checkout, orders, stock
from examples.shopping_cart.__main__ import serve
from examples.shopping_cart.outside import Outside
from examples.shopping_cart.shop import Refused

POINTS = {
    "place": (orders, "place"),
    "hold": (stock, "hold"),
    "charge": (Outside, "charge"),
    "sell": (stock, "sell"),
    "note": (checkout, "note"),
    "tell": (orders, "become"),
    "post": (Outside, "post"),
    "void": (Outside, "void"),
    "give back": (stock, "give_back"),
    "return": (checkout, "return_to_cart"),
}
UNDOING = {"void", "give back", "return"}
"""Only an order that is undone comes by here. So there none can be sold, though it was paid for."""


def plant(point: str, when: str, mark: str) -> None:
    """Let this process die before or after whatever is done at the point."""
    if point in UNDOING:
        stock.sell = cannot_be_sold
    place, name = POINTS[point]
    done = getattr(place, name)

    def die() -> None:
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    async def deadly(*args, **kwargs):
        if when == "before":
            die()
        result = await done(*args, **kwargs)
        die()
        return result

    def deadly_in_a_thread(*args, **kwargs):
        if when == "before":
            die()
        result = done(*args, **kwargs)
        die()
        return result

    setattr(place, name, deadly if inspect.iscoroutinefunction(done) else deadly_in_a_thread)


async def cannot_be_sold(_: str) -> None:
    raise Refused("the goods were damaged")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        plant(*sys.argv[1:])
    asyncio.run(serve(0))
