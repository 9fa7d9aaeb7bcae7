"""Serve the shop on loopback, or let it show itself: ``python -m examples.shopping_cart [--port N] [--demo]``."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from examples.shopping_cart.demo import story
from examples.shopping_cart.outside import BOOKS_VARIABLE
from examples.shopping_cart.service import service
from examples.shopping_cart.shop import app

WHAT_TO_TYPE = """\
The shop is open at {url}; Ctrl-C closes it. It lives in {home}.

  curl {url}/products
  curl -c jar -b jar {url}/cart/lines -d '{{"sku": "mug", "quantity": 2}}'
  curl -c jar -b jar {url}/login -d '{{"name": "ann"}}'
  curl -c jar -b jar {url}/cart
  curl -c jar -b jar {url}/checkout -H 'Idempotency-Key: "one"' -d '{{"card": "visa", "cents": 2500}}'
  curl -c jar -b jar {url}/orders
  curl {url}/sales

The same checkout again gets the same answer; with "card": "declined" all of it is undone.
"""


def free_socket(port: int) -> socket.socket:
    """A socket on loopback; port 0 is one that is free."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    return listening


def server() -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(service, log_level="warning", timeout_graceful_shutdown=15))


async def serve(port: int) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    with free_socket(port) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        print(WHAT_TO_TYPE.format(url=url, home=app.home_url), flush=True)
        await server().serve(sockets=[listening])


@asynccontextmanager
async def serving() -> AsyncGenerator[int]:
    """Serve in this process while the block runs; gives the port."""
    with free_socket(0) as listening:
        serving = server()
        task = asyncio.create_task(serving.serve(sockets=[listening]))
        listening.listen()  # who comes before the shop has opened waits
        try:
            yield listening.getsockname()[1]
        finally:
            serving.should_exit = True
            await task


async def demonstrate() -> None:
    async with serving() as port:
        await story(port)


def main() -> None:
    arguments = argparse.ArgumentParser(description="A shopping cart, whole.")
    arguments.add_argument("--port", type=int, default=8017, help="0 is one that is free")
    arguments.add_argument("--demo", action="store_true", help="drive itself over HTTP, check the books, and end")
    given = arguments.parse_args()
    if not given.demo:
        asyncio.run(serve(given.port))
        return
    with tempfile.TemporaryDirectory() as folder:
        app.home_url = f"sqlite:///{folder}/shop.db"
        os.environ[BOOKS_VARIABLE] = f"{folder}/outside.db"
        asyncio.run(demonstrate())


if __name__ == "__main__":
    main()
