"""Connections are counted, have deadlines, and keep nobody out: by the rule, and by a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import holdfast as hf
from holdfast.http import connections
from holdfast.http.connections import QUIET_SECONDS, READING_SECONDS, ConnectionLimits, Crowd
from holdfast.http.uvicorn_server import GuardedConnection, server_of

TOKENS = hf.BearerTokens({"till": "7" * 64})
VALID = "Bearer " + "7" * 64
PATIENCE_SECONDS = 60


class Guest:
    """A connection that remembers how it was ended."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ended = ""

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def arrive(crowd: Crowd, addresses: str, now: float = 0.0) -> list[Guest]:
    guests = [Guest(address) for address in addresses]
    for guest in guests:
        assert crowd.admit(guest, now)
    return guests


def test_the_one_that_has_been_quiet_for_the_longest_makes_room():
    crowd = Crowd(ConnectionLimits(total=3, per_address=3))
    first, second, third = arrive(crowd, "abc")
    crowd.begins(first)
    arrive(crowd, "d")
    assert [each.ended for each in (first, second, third)] == ["", "aborted", ""]
    assert len(crowd) == 3


def test_an_address_makes_room_for_itself_alone():
    crowd = Crowd(ConnectionLimits(total=9, per_address=2))
    other, first, second = arrive(crowd, "baa")
    crowd.begins(first)
    arrive(crowd, "a")
    assert [each.ended for each in (other, first, second)] == ["", "", "aborted"]


@pytest.mark.parametrize("limits", [ConnectionLimits(total=2, per_address=2), ConnectionLimits(total=9, per_address=2)])
def test_where_all_are_busy_a_new_one_is_refused_until_one_rests(limits):
    crowd = Crowd(limits)
    for guest in (guests := arrive(crowd, "aa")):
        crowd.begins(guest)
    assert not crowd.admit(Guest("a"), 0.0)
    crowd.rests(guests[0], 0.0)
    assert crowd.admit(Guest("a"), 0.0)
    assert guests[0].ended == "aborted"


def test_what_leaves_is_counted_no_more():
    crowd = Crowd(ConnectionLimits(total=2, per_address=2))
    for guest in (guests := arrive(crowd, "aa")):
        crowd.begins(guest)
        crowd.leaves(guest)
        crowd.leaves(guest)
    assert len(crowd) == 0 and not crowd._of_address
    arrive(crowd, "aa")
    assert [each.ended for each in guests] == ["", ""]


def test_a_quiet_connection_has_a_deadline_which_a_request_starts_anew():
    crowd = Crowd(ConnectionLimits())
    (quiet, busy, rested) = arrive(crowd, "abc")
    for guest in (busy, rested):
        crowd.begins(guest)
    crowd.rests(rested, 1.0)
    crowd.begins(quiet)
    crowd.rests(quiet, 0.0)
    crowd._quiet = dict(sorted(crowd._quiet.items(), key=lambda each: each[1]))
    crowd.sweep(QUIET_SECONDS)
    assert [each.ended for each in (quiet, busy, rested)] == ["closed", "", ""]
    crowd.sweep(QUIET_SECONDS + READING_SECONDS)
    assert [each.ended for each in (quiet, busy, rested)] == ["aborted", "", "closed"]


def test_there_are_no_more_connections_than_file_descriptors():
    assert ConnectionLimits(total=1_000, per_address=900).within(600) == ConnectionLimits(total=500, per_address=500)
    with pytest.raises(hf.ConfigurationError, match="ulimit"):
        ConnectionLimits().within(100)


# ── A real server ───────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def serving(app: hf.App, **limits: int) -> AsyncIterator[int]:
    """The port of a server of this app."""
    started = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = server_of(
            app.asgi(authenticate=TOKENS),
            grace_seconds=5,
            limits=ConnectionLimits(**limits),
            announce=started.set,
        )
        running = asyncio.ensure_future(server._serve([listener]))
        try:
            await asyncio.wait((running, asyncio.ensure_future(started.wait())), return_when=asyncio.FIRST_COMPLETED)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await running


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


def head(method: str, path: str, token: str = VALID, **headers: Any) -> bytes:
    told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\n{told}\r\n".encode()


async def ask(port: int, request: bytes) -> tuple[int, Any]:
    reader, writer = await connect(port)
    try:
        writer.write(request)
        return await answer(reader)
    finally:
        await leave(writer)


async def answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(told.partition("content-length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
    return int(told.split()[1]), json.loads(body) if body else None


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def ended(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            return await reader.read() == b""
        except ConnectionError:
            return True


async def test_silent_connections_keep_nobody_out(memory_shop):
    """As many as there may be, and then as many again."""
    async with serving(memory_shop.app, total=20, per_address=20) as port:
        silent = [await connect(port) for _ in range(40)]
        assert await ask(port, head("GET", "/v1/workflows")) == (200, {"executions": [], "cursor": None})
        assert await ended(silent[0][0])
        for _, writer in silent:
            await leave(writer)


async def test_a_head_that_never_ends_keeps_nobody_out(memory_shop):
    async with serving(memory_shop.app, total=5, per_address=5) as port:
        slow = [await connect(port) for _ in range(5)]
        for _, writer in slow:
            writer.write(b"GET /v1/workflows HTTP/1.1\r\nhost:")
        assert (await ask(port, head("GET", "/v1/workflows")))[0] == 200
        for _, writer in slow:
            await leave(writer)


async def test_a_silent_connection_is_closed_at_its_deadline(memory_shop, monkeypatch):
    monkeypatch.setattr(connections, "QUIET_SECONDS", 0.01)
    async with serving(memory_shop.app) as port:
        reader, writer = await connect(port)
        assert await ended(reader)
        await leave(writer)


async def test_a_request_that_waits_is_no_silent_connection(memory_shop, monkeypatch, eventually):
    monkeypatch.setattr(connections, "QUIET_SECONDS", 0.01)
    app = memory_shop.app
    async with app.worker():
        await app.registry.workflow("approval").start(7, id="a")
        async with serving(app) as port:
            reader, writer = await connect(port)
            writer.write(head("GET", "/v1/workflows/approval/a?wait=20s"))
            silent, other = await connect(port)
            assert await ended(silent), "the sweep has been"
            await leave(other)
            await app.handle("approval", "a").cancel()
            status, told = await answer(reader)
            assert (status, told["status"]) == (200, "CANCELLED")
            await leave(writer)


async def test_where_all_work_a_new_connection_is_told_so(memory_shop, eventually):
    app = memory_shop.app
    async with app.worker():
        await app.registry.workflow("approval").start(7, id="a")
        async with serving(app, total=1, per_address=1) as port:
            reader, writer = await connect(port)
            writer.write(head("GET", "/v1/workflows/approval/a?wait=20s"))
            await eventually(lambda: app.runtime().wake_listeners._by_partition)
            assert await ask(port, head("GET", "/v1/workflows")) == (503, None)
            await app.handle("approval", "a").cancel()
            assert (await answer(reader))[0] == 200
            await leave(writer)
            assert (await ask(port, head("GET", "/v1/workflows")))[0] == 200


@pytest.mark.parametrize(("token", "path"), [("garbage", "/v1/workflows/checkout/a"), (VALID, "/v1/nothing")])
async def test_whoever_is_refused_while_he_sends_reads_why(memory_shop, token, path):
    """Else his connection is reset, and he never hears of it."""
    async with serving(memory_shop.app) as port:
        reader, writer = await connect(port)
        writer.write(head("POST", path, token, content_length=4_000_000) + b"x" * 4_000_000)
        status, problem = await answer(reader)
        assert (status, problem["code"]) in {(401, "unauthenticated"), (404, "no_route")}
        assert await reader.read() == b""
        await leave(writer)


async def test_a_connection_serves_one_request_after_another(memory_shop):
    async with serving(memory_shop.app, total=1, per_address=1) as port:
        reader, writer = await connect(port)
        for _ in range(3):
            writer.write(head("GET", "/v1/health"))
            assert (await answer(reader))[0] == 200
        await leave(writer)


async def test_a_client_that_reads_nothing_makes_room(memory_shop):
    """Its responses wait in the server, request after request: it counts as quiet then."""
    app = memory_shop.app
    async with app.worker():
        for n in range(30):
            await app.registry.workflow("approval").start(n, id=f"a{n}", tags={"t": "x" * 200})
        async with serving(app, total=1, per_address=1) as port:
            _, writer = await connect(port)
            writer.write(head("GET", "/v1/workflows?limit=1000") * 1_000)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await ask(port, head("GET", "/v1/health")))[0] != 200:
                    await asyncio.sleep(0.05)
            writer.transport.abort()


async def test_a_response_does_not_wait_for_its_head_to_be_acknowledged(memory_shop, monkeypatch):
    seen = []
    real = GuardedConnection.connection_made

    def watched(connection, transport):
        real(connection, transport)
        seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(GuardedConnection, "connection_made", watched)
    async with serving(memory_shop.app) as port:
        assert (await ask(port, head("GET", "/v1/health")))[0] == 200
    assert all(seen) and seen
