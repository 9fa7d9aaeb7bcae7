"""Measure Restate. Runs in the peer's own environment, never in ours; prints one line of JSON.

    python measure_restate.py BENCH '{"folder": ..., "server": "hypercorn", ...}'

Each measurement has a Restate server of its own, on loopback, with free ports and an empty data directory, set up as it
comes: one node, 24 partitions, its log synced to the disk (asserted). The handlers run in a second process
(``restate_service.py``), and this one calls them over HTTP: such is Restate's way, and its network boundary is in every
figure. Each ``bench_*`` function does what the function of the same name does for Holdfast in ``benchmarks/groups``.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Params = dict[str, Any]
Values = dict[str, float | list[float]]

SERVICE = Path(__file__).with_name("restate_service.py")
START_SECONDS = 60
STALLED_SECONDS = 300
KEYS = 1_000


# ── The two processes ───────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def running(params: Params) -> Iterator[tuple[int, Path, dict[str, Any]]]:
    """A server and the service, ready for calls: the port to call, the file of marks, the settings in force."""
    folder = Path(params["folder"])
    ingress, admin, node, service = free_ports(4)
    server = {
        **os.environ,
        "RESTATE_BASE_DIR": str(folder / "restate"),
        "RESTATE_NODE_NAME": "bench",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
    }
    options = ["--no-logo", "--listen-mode", "tcp", "--bind-ip", "127.0.0.1"]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("w+"))
        serve = [sys.executable, str(SERVICE), params["server"], str(service), str(folder / "marks")]
        children = (
            stack.enter_context(started([str(binary()), *options], log, server)),
            stack.enter_context(started(serve, log, dict(os.environ))),
        )
        if not registered(admin, service, children):
            log.seek(0)
            raise SystemExit(f"Restate did not get ready; its last words: {log.read()[-500:]!r}")
        yield ingress, folder / "marks", settings(server)


def binary() -> Path:
    """The server that npm has put into this environment."""
    return next(Path(sys.prefix).glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def started(command: list[str], log: Any, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process, killed at the end: its files go too, so that it need not close them."""
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def registered(admin: int, service: int, children: Iterable[subprocess.Popen[bytes]]) -> bool:
    """Tell the server where the service is, as soon as both are there; false if one of them does not come up."""
    give_up_at = time.monotonic() + START_SECONDS
    body = json.dumps({"uri": f"http://127.0.0.1:{service}"})
    while time.monotonic() < give_up_at and all(child.poll() is None for child in children):
        connection = http.client.HTTPConnection("127.0.0.1", admin, timeout=START_SECONDS)  # knows no proxies
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/deployments", body, {"content-type": "application/json"})
            if connection.getresponse().status in {200, 201}:
                return True
        time.sleep(0.05)
    return False


def settings(environment: dict[str, str]) -> dict[str, Any]:
    """What the server itself says of its log. Asserts that every write of it is synced."""
    dump = subprocess.run([str(binary()), "--dump-config"], env=environment, check=True, stdout=subprocess.PIPE).stdout
    found = tomllib.loads(dump.decode())
    unsynced = found["log-server"]["rocksdb-disable-wal-fsync"], found["bifrost"]["local"]["rocksdb-disable-wal-fsync"]
    assert unsynced == (False, False), unsynced
    return {
        "log": found["bifrost"]["default-provider"],
        "rocksdb_disable_wal_fsync": False,
        "partitions": found["default-num-partitions"],
    }


# ── Calling it ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Caller:
    """A connection of HTTP/1.1 that is kept, with one request on it at a time.

    As little as will do: the caller shares the processors with what it measures.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Caller:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def __call__(self, path: str, argument: object) -> Any:
        body = json.dumps(argument)
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}".encode()
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        answer = await self._body(dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2]))
        if head.split(" ", 2)[1] not in {"200", "202"}:
            raise SystemExit(f"{path}: {head.splitlines()[0]}, {answer!r}")
        return json.loads(answer) if answer else None

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _body(self, fields: dict[str, str]) -> bytes:
        if "chunked" not in fields.get("transfer-encoding", ""):
            return await self._reader.readexactly(int(fields.get("content-length", 0)))
        body = b""
        while size := int(await self._reader.readline(), 16):
            body += await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
        return body


class Callers:
    """So many connections, each a lane."""

    def __init__(self, lanes: list[Caller], port: int, marks: Path) -> None:
        self.lanes = lanes
        self._port, self._marks = port, marks

    async def __call__(self, path: str, argument: object) -> Any:
        return await self.lanes[0](path, argument)

    async def widen(self, lanes: int) -> None:
        while len(self.lanes) < lanes:
            self.lanes.append(await Caller.connect(self._port))

    async def close(self) -> None:
        for lane in self.lanes:
            await lane.close()

    async def drive(self, requests: Iterable[tuple[str, object]], lanes: int) -> float:
        """Make the calls, ``lanes`` of them at a time; answers the seconds."""
        await self.widen(lanes)
        shared = iter(requests)

        async def lane(call: Caller) -> None:
            for path, argument in shared:
                await call(path, argument)

        began = time.perf_counter()
        await asyncio.gather(*[lane(call) for call in self.lanes[:lanes]])
        return time.perf_counter() - began

    async def rate(self, path: Callable[[int], str], lanes: int, seconds: float) -> float:
        """Calls per second, by so many lanes for so many seconds."""
        await self.drive(((path(number), number) for number in range(lanes * 4)), lanes)
        numbers = Numbers(seconds)
        took = await self.drive(((path(number), number) for number in numbers), lanes)
        return numbers.drawn / took

    async def took_ms(self, path: str, count: int) -> list[float]:
        """How long each of so many calls takes, one at a time."""
        took = []
        for number in range(20 + count):
            began = time.perf_counter()
            await self(path, number)
            took.append((time.perf_counter() - began) * 1e3)
        return took[20:]

    async def applied(self, count: int) -> None:
        """Wait until so many messages are applied."""
        give_up_at = time.monotonic() + STALLED_SECONDS
        while self._marks.stat().st_size < count:
            if time.monotonic() > give_up_at:
                raise SystemExit(f"Restate has stalled at {self._marks.stat().st_size} of {count} messages")
            await asyncio.sleep(0.001)


class Numbers:
    """Numbers for so many seconds, at least 20 of them."""

    def __init__(self, seconds: float) -> None:
        self.drawn = 0
        self._until = time.perf_counter() + seconds

    def __iter__(self) -> Iterator[int]:
        while self.drawn < 20 or time.perf_counter() < self._until:
            self.drawn += 1
            yield self.drawn


# ── What is measured ────────────────────────────────────────────────────────────────────────────────────────────────


async def bench_one_step(call: Callers, params: Params) -> Values:
    return {"workflows_s": await call.rate(lambda _: "/Bench/one_step", params["concurrency"], params["seconds"])}


async def bench_sequential(call: Callers, params: Params) -> Values:
    await call("/Bench/sequence", 20)
    values: Values = {}
    for size, times in params["sizes"]:
        began = time.perf_counter()
        for _ in range(times):
            await call("/Bench/sequence", size)
        took = (time.perf_counter() - began) / times
        values |= {f"steps_s_{size}": size / took, f"us_per_step_{size}": took / size * 1e6}
    return values


async def bench_parallel(call: Callers, params: Params) -> Values:
    return await timed(call, "/Bench/parallel", params["count"])


async def bench_children(call: Callers, params: Params) -> Values:
    return await timed(call, "/Bench/children", params["count"])


async def timed(call: Callers, path: str, count: int) -> Values:
    await call(path, 20)
    began = time.perf_counter()
    assert await call(path, count) == count
    return {"ms": (time.perf_counter() - began) * 1e3}


async def bench_calls(call: Callers, params: Params) -> Values:
    took = await call.took_ms("/Bench/one_step", params["count"])
    return {"p50_ms": percentile(took, 0.5), "p99_ms": percentile(took, 0.99)}


async def bench_timers(call: Callers, params: Params) -> Values:
    count, seconds = params["count"], params["seconds"]
    await call("/Bench/overshoot", time.time() + 0.01)
    await call.widen(count)
    late: list[float] = []
    for _ in range(params["times"]):
        due = time.time() + seconds
        late += await asyncio.gather(*[lane("/Bench/overshoot", due) for lane in call.lanes[:count]])
    return {"late_ms": statistics.median(late) * 1e3, "latest_ms": max(late) * 1e3}


async def bench_actor_calls(call: Callers, params: Params) -> Values:
    """Calls at once on one key, and on 1,000; then one at a time."""
    one = await call.rate(lambda _: "/Counter/0/add", 64, params["seconds"])
    await call.drive(((f"/Counter/{key}/add", 1) for key in range(KEYS)), 64)
    many = await call.rate(lambda number: f"/Counter/{number % KEYS}/add", 64, params["seconds"])
    took = await call.took_ms("/Counter/alone/add", params["alone"])
    return {"one": one, "many": many, "p50_ms": percentile(took, 0.5), "p99_ms": percentile(took, 0.99)}


async def bench_messages(call: Callers, params: Params) -> Values:
    """Messages from outside to 1,000 objects, until all are applied; then from objects to 100 objects."""
    count = params["count"]
    sent = await call.drive(((f"/Counter/{number % KEYS}/hit/send", 1) for number in range(count)), 64)
    began = time.perf_counter() - sent
    await call.applied(count)
    applied = time.perf_counter() - began
    began = time.perf_counter()
    await call.drive(((f"/Counter/from{number}/fan_out", 100) for number in range(count // 100)), 64)
    await call.applied(2 * count)
    inside = time.perf_counter() - began
    return {"sent": count / sent, "applied": count / applied, "inside": count / inside}


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@contextlib.asynccontextmanager
async def callers(port: int, marks: Path) -> AsyncIterator[Callers]:
    """One connection to begin with, tried until the server knows the service."""
    give_up_at = time.monotonic() + START_SECONDS
    while True:
        call = Callers([], port, marks)
        try:
            await call.widen(1)
            await call("/Bench/child", 1)
        except (OSError, EOFError, SystemExit):
            await call.close()
            if time.monotonic() > give_up_at:
                raise
            await asyncio.sleep(0.05)
        else:
            break
    try:
        yield call
    finally:
        await call.close()


async def measure(bench: Callable[[Callers, Params], Awaitable[Values]], params: Params) -> tuple[Values, Any]:
    with running(params) as (port, marks, notes):
        async with asyncio.timeout(STALLED_SECONDS), callers(port, marks) as call:  # a handler that fails is retried
            return await bench(call, params), notes


def main() -> None:
    values, notes = asyncio.run(measure(BENCHES[sys.argv[1]], json.loads(sys.argv[2])))
    print(json.dumps({"values": values, "notes": notes}))


BENCHES: dict[str, Callable[[Callers, Params], Awaitable[Values]]] = {
    name.removeprefix("bench_"): each for name, each in list(globals().items()) if name.startswith("bench_")
}


if __name__ == "__main__":
    main()
