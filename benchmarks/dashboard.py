"""What the pages of the dashboard cost with 100,000 executions: server time, bytes, and reads of the store.

python -m benchmarks.dashboard [EXECUTIONS]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from typing import Any

from msgspec import Raw

import holdfast as hf
from holdfast.dashboard.rendering import STATIC_KINDS, static_file
from holdfast.items import Item, Put
from holdfast.workflows.record import ExecutionRecord, encode_record, partition_of

MANY = 100_000
ROUNDS = 25
PAGES = (
    "executions",
    "executions?status=FAILED",
    "executions?workflow=checkout&id=order-0999",
    "execution?workflow=checkout&id=order-000012",
    "overview",
    "actors",
    "letters",
    "audit",
)
READS = ("get", "query", "scan", "due")


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = hf.App("shop", home=f"sqlite:///{folder}/shop.db")

        @app.workflow
        async def checkout(card: str) -> str:
            return card

        async with app:
            await fill(app, count)
            api = app.asgi(authenticate=lambda _request: "ann", dashboard=hf.Dashboard())
            cookie = (await get(api, "/dashboard/executions"))[1]
            static_bytes = sum(len(static_file(name) or b"") for name in STATIC_KINDS)
            print(f"{count:,} executions; style, script and icon: {static_bytes / 1024:.1f} KB")
            print(f"{'page':<44} {'median ms':>10} {'worst ms':>9} {'KB':>6} {'reads':>6}")
            for page in PAGES:
                took, body = [], b""
                for _ in range(ROUNDS):
                    began = time.perf_counter()
                    body, _ = await get(api, f"/dashboard/{page}", cookie)
                    took.append((time.perf_counter() - began) * 1_000)
                reads = await reads_of(app, api, page, cookie)
                told = f"{statistics.median(took):>10.1f} {max(took):>9.1f} {len(body) / 1024:>6.1f} {reads:>6}"
                print(f"{page:<44} {told}")


async def fill(app: hf.App, count: int) -> None:
    """Executions that have ended, as the store holds them."""
    store, now = app.runtime().home.store, app.runtime().clock.now_ms()
    for first in range(0, count, 100):
        await store.write(*(Put(execution(n, count, now)) for n in range(first, first + 100)))


def execution(n: int, count: int, now: int) -> Item:
    created_at = now - (count - n) * 1_000
    record = ExecutionRecord(
        workflow="checkout",
        id=f"order-{n:06d}",
        version="1" * 12,
        input=Raw(b'{"card":"visa"}'),
        fingerprint="",
        created_at=created_at,
        ended_at=created_at + 812,
        secret="s",  # noqa: S106 - it signs nothing
        run_at=created_at,
        tags={"customer": f"c{n % 97}"},
        result=Raw(b'"ok"'),
    )
    status = "FAILED" if n % 50 == 0 else "COMPLETED"
    return Item(partition_of("checkout", record.id), status=status, body=encode_record(record))


async def get(api: Any, where: str, cookie: str = "") -> tuple[bytes, str]:
    """A page, and the cookie that came with it."""
    path, _, query = where.partition("?")
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1"), (b"cookie", cookie.encode())],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 5),
    }
    await api(scope, receive, send)
    assert sent[0]["status"] == 200, sent
    told = next((value.decode() for name, value in sent[0]["headers"] if name == b"set-cookie"), "")
    return b"".join(each.get("body", b"") for each in sent[1:]), told.partition(";")[0]


async def reads_of(app: hf.App, api: Any, page: str, cookie: str) -> int:
    """How often a page asks the store."""
    store = type(app.runtime().home.store)
    count = 0

    def counting(method: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            return method(*args, **kwargs)

        return counted

    kept = {name: getattr(store, name) for name in READS}
    for name, method in kept.items():
        setattr(store, name, counting(method))
    try:
        await get(api, f"/dashboard/{page}", cookie)
    finally:
        for name, method in kept.items():
            setattr(store, name, method)
    return count


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else MANY))
