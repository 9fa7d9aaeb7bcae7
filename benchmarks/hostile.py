"""``python -m benchmarks.hostile``: valid requests while the server is idle, and while it is attacked. Prints a table.

A real ``holdfast serve`` with tokens runs on loopback, and a few clients with a valid token ask it one thing after
another on connections that stay. Beside them come, each alone and then all at once: 1,005 connections that say nothing;
100 bodies that never end, half of them with a valid token; 1,000 requests with 4 MB and a token, of a caller or of a
callback, that is garbage; 100 requests with a duration of thousands of digits. The last two are spread over the row.
Attackers are processes of their own on the same machine, so what they cost it counts as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.machine import described

SILENT, SLOW, BAD, DURATIONS = 1_005, 100, 1_000, 100
BODY_BYTES = 4_000_000
SENDERS = 20
CLIENTS = 8
TOKEN = "7" * 64
PATIENCE_SECONDS = 60.0

APP = """
import holdfast as hf

app = hf.App("shop", home="sqlite:///shop.db")


@app.workflow
async def order(n: int) -> int:
    await hf.signal("paid", int)
    return n
"""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the clients saw, and what the server took."""

    per_second: float
    p50_ms: float
    p99_ms: float
    longest_ms: float
    failed: int
    cpu_seconds: float
    most_mb: float


# ── The server ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[Address, int]]:
    """A server of its own, and its process id."""
    (folder / "shop.py").write_text(APP)
    environment = os.environ | {"HOLDFAST_TOKENS": f"till {TOKEN}"}
    command = [sys.executable, "-m", "holdfast.cli", "serve", "-a", "shop:app", "--port", "0", "--json"]
    command += ["--per-address", "1000"]  # all come from one address here
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = urlsplit(json.loads(process.stdout.readline())["url"])
            assert url.hostname is not None
            assert url.port is not None
            yield (url.hostname, url.port), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)


def cpu_seconds(pid: int) -> float:
    """What a process has taken of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """The most memory that a process has taken."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


# ── Clients ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def head(method: str, path: str, token: str = TOKEN, **headers: object) -> bytes:
    """The head of a request."""
    told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\nhost: shop\r\nauthorization: Bearer {token}\r\n{told}\r\n".encode()


async def response(reader: asyncio.StreamReader) -> int:
    """The status of the next response."""
    told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    await reader.readexactly(int(told.partition("content-length: ")[2].partition("\r\n")[0] or 0))
    return int(told.split()[1])


class Client:
    """One that asks one thing after another: it starts workflows, and looks at them."""

    def __init__(self, address: Address, name: str) -> None:
        self._address = address
        self._name = name
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.took_seconds: list[float] = []
        self.failed = 0

    async def work(self, until: float) -> None:
        number = 0
        while (began := time.perf_counter()) < until:
            number += 1
            path = f"/v1/workflows/order/{self._name}-{number // 2}"
            asked = head("GET", path) if number % 2 else head("POST", path, content_length=1) + b"1"
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    status = await self._ask(asked)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                status = 0
                self._connection = None
            if status in {200, 202, 404}:  # the first look comes before the first start
                self.took_seconds.append(time.perf_counter() - began)
            else:
                self.failed += 1

    async def _ask(self, asked: bytes) -> int:
        if self._connection is None:
            self._connection = await asyncio.open_connection(*self._address)
        reader, writer = self._connection
        writer.write(asked)
        return await response(reader)


async def measured(address: Address, pid: int, name: str, seconds: float) -> Measured:
    """Let the clients work for a while."""
    clients = [Client(address, f"{name}-{n}") for n in range(CLIENTS)]
    began, cpu_before = time.perf_counter(), cpu_seconds(pid)
    await asyncio.gather(*(client.work(began + seconds) for client in clients))
    lasted = time.perf_counter() - began
    took = sorted(each for client in clients for each in client.took_seconds)
    return Measured(
        per_second=len(took) / lasted,
        p50_ms=statistics.median(took) * 1000 if took else float("inf"),
        p99_ms=took[len(took) * 99 // 100] * 1000 if took else float("inf"),
        longest_ms=took[-1] * 1000 if took else float("inf"),
        failed=sum(client.failed for client in clients),
        cpu_seconds=cpu_seconds(pid) - cpu_before,
        most_mb=peak_mb(pid),
    )


# ── Attackers ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def silent(address: Address, _seconds: float) -> None:
    """Connections that say nothing, and come again when they are closed."""

    async def stay() -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(*address)
                await reader.read()
                writer.close()
            await asyncio.sleep(1.0)

    await asyncio.gather(*(stay() for _ in range(SILENT)))


async def slow_bodies(address: Address, _seconds: float) -> None:
    """Bodies that come byte by byte, and never end."""

    async def drip(number: int) -> None:
        token = TOKEN if number % 2 else "garbage"
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(head("POST", "/v1/workflows/order/slow", token, content_length=BODY_BYTES))
                ended = asyncio.ensure_future(reader.read())
                while not ended.done():
                    writer.write(b"1")
                    await asyncio.wait((ended,), timeout=0.5)
                await ended
                writer.close()
            await asyncio.sleep(0.1)

    await asyncio.gather(*(drip(number) for number in range(SLOW)))


async def bad_tokens(address: Address, seconds: float) -> None:
    """Tokens that are garbage, with four megabytes each."""
    body, began = b"[" + b"[]," * (BODY_BYTES // 3) + b"[]]", time.perf_counter()

    async def send(numbers: range) -> None:
        for number in numbers:
            await asyncio.sleep(began + seconds * number / BAD - time.perf_counter())
            path = "/v1/workflows/order/bad" if number % 2 else "/v1/callbacks/hf1.W10.garbage"
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(head("POST", path, "garbage", content_length=len(body)))
                writer.write(body)
                status = await response(reader)
                assert status in {400, 401, 404, 413, 503}, status
                writer.transport.abort()

    await asyncio.gather(*(send(range(first, BAD, SENDERS)) for first in range(SENDERS)))


async def durations(address: Address, seconds: float) -> None:
    """Durations of thousands of digits."""
    began = time.perf_counter()
    for number in range(DURATIONS):
        await asyncio.sleep(began + seconds * number / DURATIONS - time.perf_counter())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(*address)
            path = f"/v1/workflows/order/x?wait={'9' * 7_900}"
            writer.write(head("GET", path, connection="close"))
            assert await response(reader) in {400, 503}
            writer.close()


ATTACKS: dict[str, Callable[[Address, float], Coroutine[object, object, None]]] = {
    f"{SILENT:,} silent connections": silent,
    f"{SLOW} slow bodies": slow_bodies,
    f"{BAD:,} bad tokens with 4 MB": bad_tokens,
    f"{DURATIONS} hostile durations": durations,
}


def attack(name: str, address: Address, seconds: float, begun: Event) -> None:
    """Run one attack in this process until it is ended; those that come to their end begin again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096) if hard > 0 else 4_096, hard))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begun.set()
    while True:
        asyncio.run(ATTACKS[name](address, seconds))


@contextlib.contextmanager
def attacked(names: Sequence[str], address: Address, seconds: float) -> Iterator[None]:
    """While this is open, the server is attacked so."""
    context = multiprocessing.get_context("spawn")
    attackers = []
    for name in names:
        begun = context.Event()
        attacker = context.Process(target=attack, args=(name, address, seconds, begun), daemon=True)
        attacker.start()
        begun.wait(PATIENCE_SECONDS)
        attackers.append(attacker)
    time.sleep(1.0 if names else 0.0)  # until the silent ones are there
    try:
        yield
    finally:
        for attacker in attackers:
            attacker.terminate()
            attacker.join()


# ── The command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each row is measured")
    chosen = parser.parse_args(arguments)
    where = described()
    print(f"Holdfast at {where['commit']}; {where['machine']['processors']} × {where['machine']['processor']}")
    print(f"{CLIENTS} clients with a valid token, {chosen.seconds:g} s a row; load {os.getloadavg()[0]:.1f} before\n")
    print(f"| {'beside':28} | valid/s | p50 ms | p99 ms | longest ms | failed | CPU s of server | most MB |")
    print(f"|{'-' * 30}|--------:|-------:|-------:|-----------:|-------:|----------------:|--------:|")
    rows = {"nothing": (), **{name: (name,) for name in ATTACKS}, "all of them": tuple(ATTACKS)}
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".run-", suffix=".tmp") as folder:
        for place, (row, names) in enumerate(rows.items()):
            with server(Path(folder)) as (address, pid), attacked(names, address, chosen.seconds):
                found = asyncio.run(measured(address, pid, str(place), chosen.seconds))
            print(
                f"| {row:28} | {found.per_second:7,.0f} | {found.p50_ms:6.1f} | {found.p99_ms:6.1f} "
                f"| {found.longest_ms:10.1f} | {found.failed:6} | {found.cpu_seconds:15.1f} | {found.most_mb:7.0f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
