"""A port that serves metrics and nothing else, for workers that have no HTTP API: ``GET /metrics``.

HTTP/1.1 by hand, one request a connection (RFC 9112, sections 3 and 9.6): a worker needs no server for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus
from typing import Any, Final

from holdfast.commands.right import Right
from holdfast.http.api import Options, Served
from holdfast.http.authentication import Authenticate, Caller
from holdfast.http.messages import REMOTE, Loopback, Request, Response
from holdfast.http.network import is_loopback_address, is_loopback_host
from holdfast.http.problems import Problem
from holdfast.http.respond import respond

PATHS: Final = ("/metrics", "/v1/metrics")
LONGEST_HEAD_BYTES: Final = 8_192
PATIENCE_SECONDS: Final = 10.0
MOST_CONNECTIONS: Final = 20
SCRAPER: Final = Caller("loopback", frozenset({Right.READ}))


@contextlib.asynccontextmanager
async def metrics_port(app: Served, listener: socket.socket, authenticate: Authenticate | None) -> AsyncGenerator[None]:
    """Serve the app's metrics within the block, on a socket that listens already. Without ``authenticate`` it answers
    requests over the loopback interface only.
    """
    options = Options(authenticate=authenticate or _on_loopback)
    serving: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(serving) >= MOST_CONNECTIONS:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(_serve(app, options, reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(accepted, sock=listener, limit=LONGEST_HEAD_BYTES)
    try:
        yield
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def _on_loopback(request: Request) -> Caller | None:
    """A scraper on this machine. A page in a browser may reach this port by another name; it is refused."""
    hosts = request.header_values("host")
    is_here = isinstance(request.source, Loopback) and len(hosts) == 1 and is_loopback_host(hosts[0])
    return SCRAPER if is_here and not request.header_values("origin") else None


async def _serve(app: Served, options: Options, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(_as_bytes(await _answer(app, options, head, writer)))
            await writer.drain()
    except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
        pass  # the client has left, is too slow, or sends what is no request
    finally:
        writer.close()


async def _answer(app: Served, options: Options, head: bytes, writer: asyncio.StreamWriter) -> Response:
    request = _request(head, writer.get_extra_info)
    if request is None:
        return Problem(400, "bad_request", "this is no HTTP request").response()
    if request.path not in PATHS or request.method != "GET":
        return Problem(404, "no_route", "there is GET /metrics here, and nothing else").response()
    return await respond(app, request, options)


def _request(head: bytes, about: Callable[[str], Any]) -> Request | None:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    path, _, query = words[1].partition("?")
    pairs = (line.partition(":") for line in lines if line)
    headers = tuple((name.lower(), value.strip()) for name, _, value in pairs)
    ends = (about("peername"), about("sockname"))
    is_local = all(bool(end) and is_loopback_address(str(end[0])) for end in ends)
    return Request(
        method=words[0],
        path="/v1/metrics" if path == "/metrics" else path,
        query=query,
        headers=headers,
        source=Loopback() if is_local else REMOTE,
    )


def _as_bytes(response: Response) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in response.headers]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1") + response.body
