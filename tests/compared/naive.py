"""State patterns as they are commonly published, each with the mistake that comes with it.

They are written as plainly as in the articles that they stand for, and work as long as nothing goes wrong. What
happens otherwise is told in docs/patterns-compared.md, which shows this code, and by the tests beside this file.
"""

from __future__ import annotations

import asyncio
import uuid


class Refused(Exception):
    """The condition of a write did not hold."""


class InProgress(Exception):
    """Somebody else is at it."""


def absent(row):
    return row is None


class Store:
    """Rows under keys, as in DynamoDB, Redis or a table. Each call is one round trip; writes may have a condition."""

    def __init__(self):
        self.rows = {}
        self.failing = 0  # so many of the next writes fail

    def now(self):
        return asyncio.get_running_loop().time()

    async def get(self, key):
        await asyncio.sleep(0.005)
        return self.rows.get(key)

    async def query(self, prefix, after="", limit=100):
        await asyncio.sleep(0.005)
        keys = sorted(key for key in self.rows if key.startswith(prefix) and key > after)
        return [(key, self.rows[key]) for key in keys[:limit]]

    async def put(self, key, row, when=lambda there: True):
        await self.update(key, lambda there: row, when)

    async def update(self, key, change, when=lambda there: True):
        await asyncio.sleep(0.005)
        if self.failing > 0:
            self.failing -= 1
            raise ConnectionError("throttled")
        if not when(self.rows.get(key)):
            raise Refused(key)
        self.rows[key] = change(self.rows.get(key))

    async def delete(self, key, when=lambda there: True):
        await self.update(key, lambda there: None, when)


# ── Idempotency ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def once_cleaning_up(store, key, work):
    try:
        await store.put(key, {"status": "running"}, when=absent)
        result = await work()
        await store.put(key, {"status": "done", "result": result})
        return result
    except Exception:
        await store.delete(key)  # so that it can be tried again
        raise


async def once(store, key, work):
    try:
        await store.put(key, {"status": "running"}, when=absent)
    except Refused:
        row = await store.get(key)
        if row["status"] == "done":
            return row["result"]
        raise InProgress(key) from None
    result = await work()
    await store.put(key, {"status": "done", "result": result})
    return result


async def once_with_expiry(store, key, work, lock_seconds=60):
    now = store.now()
    lock = {"status": "running", "expires": now + lock_seconds}
    try:
        await store.put(key, lock, when=lambda row: row is None or row["expires"] < now)
    except Refused:
        row = await store.get(key)
        if row["status"] == "done":
            return row["result"]
        raise InProgress(key) from None
    result = await work()
    await store.update(key, lambda row: {**row, "status": "done", "result": result})
    return result


# ── Lock ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def with_lock(store, name, work, ttl_seconds=10):
    now = store.now()
    await store.put(name, {"until": now + ttl_seconds}, when=lambda row: row is None or row["until"] < now)
    try:
        return await work()
    finally:
        await store.delete(name)


async def with_owned_lock(store, name, work, ttl_seconds=10):
    now, me = store.now(), str(uuid.uuid4())
    mine = {"owner": me, "until": now + ttl_seconds}
    await store.put(name, mine, when=lambda row: row is None or row["until"] < now)
    try:
        return await work()
    finally:
        await store.delete(name, when=lambda row: row is not None and row["owner"] == me)


# ── Versioned document ──────────────────────────────────────────────────────────────────────────────────────────────


async def save(store, key, row):
    await store.put(key, row, when=lambda there: there is None or there["version"] == row["version"])


async def save_counting(store, key, row):
    row = {**row, "version": row["version"] + 1}
    await store.put(key, row, when=lambda there: there is None or there["version"] == row["version"])


async def save_with_back_off(store, key, row, attempts=5):
    version = row["version"]
    for attempt in range(attempts):
        try:
            await store.put(key, {**row, "version": version + 1}, when=lambda there: there["version"] == version)
            return
        except Refused:
            await asyncio.sleep(2**attempt)
    raise TimeoutError(f"{key} is too busy")


# ── Outbox ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def relay_marking_first(store, publish):
    for key, row in await store.query("outbox/"):
        if not row["published"]:
            await store.put(key, {**row, "published": True})
            await publish(row["event"])


async def relay_publishing_first(store, publish):
    for key, row in await store.query("outbox/"):
        if not row["published"]:
            await publish(row["event"])
            await store.put(key, {**row, "published": True})


# ── Inbox ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def consume(store, event, effect, lease_seconds=30):
    key, now = f"inbox/{event}", store.now()
    claim = {"done": False, "until": now + lease_seconds}
    try:
        await store.put(key, claim, when=lambda row: row is None or (not row["done"] and row["until"] < now))
    except Refused:
        return  # handled, or somebody is at it
    try:
        await effect()
    except Exception:
        await store.delete(key)  # so that the next delivery is handled
        raise
    await store.put(key, {"done": True})


# ── Event stream ────────────────────────────────────────────────────────────────────────────────────────────────────


async def append(store, stream, event):
    key = f"{stream}/{store.now():020.6f}-{uuid.uuid4()}"
    await store.put(key, event, when=absent)


async def load(store, stream):
    return [event for _, event in await store.query(f"{stream}/")]


# ── Saga ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def trip(do, undo):
    await do("hotel")
    try:
        await do("flight")
        try:
            await do("payment")
        except Exception:
            await undo("flight")
            await undo("hotel")
            raise
    except Exception:
        await undo("hotel")
        raise


async def trip_with_list(do, undo):
    done = []
    try:
        for what in ("hotel", "flight", "payment"):
            await do(what)
            done.append(what)
    except Exception:
        for what in reversed(done):
            await undo(what)
        raise


# ── Cache ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def read_through(cache, key, find, ttl_seconds=300):
    row = await cache.get(key)
    if row is not None and row["until"] > cache.now():
        return row["value"]
    value = await find(key)
    await cache.put(key, {"value": value, "until": cache.now() + ttl_seconds})
    return value


# ── Large state ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def save_large(store, bucket, name, data):
    blob = f"{name}/{int(store.now())}"
    await bucket.upload(blob, data)
    await store.put(name, {"blob": blob})
    return blob


# ── Stock ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def reserve(store, wanted):
    for sku, count in wanted.items():
        await store.update(
            f"stock/{sku}",
            lambda row, count=count: {"left": row["left"] - count},
            when=lambda row, count=count: row["left"] >= count,
        )
