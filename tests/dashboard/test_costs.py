"""What a page costs: a few reads of the store, whatever the home holds, and few bytes."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest
from tests.dashboard.conftest import Person, at

import holdfast as hf
from holdfast.dashboard.rendering import STATIC_KINDS, static_file
from holdfast.dashboard.visit import MOST_READ
from holdfast.items import Item, Put
from holdfast.workflows.record import ExecutionRecord, encode_record, partition_of

MANY = 3_000
LARGEST_FIRST_PAGE_BYTES = 60 * 1024
MOST_SCRIPT_LINES = 300

READS = ("get", "query", "scan", "due", "get_many")


async def fill(app: hf.App, count: int) -> None:
    """Many executions that have ended, as the store holds them."""
    store, now = app.runtime().home.store, app.runtime().clock.now_ms()
    for first in range(0, count, 100):
        await store.write(
            *(
                Put(
                    Item(
                        partition_of("checkout", f"order-{n:06d}"),
                        status="COMPLETED" if n % 10 else "FAILED",
                        body=encode_record(
                            ExecutionRecord(
                                workflow="checkout",
                                id=f"order-{n:06d}",
                                version="1" * 12,
                                input=hf_raw(["visa"]),
                                fingerprint="",
                                created_at=now - (count - n) * 1_000,
                                ended_at=now - (count - n) * 1_000 + 812,
                                secret="s",  # noqa: S106 - it signs nothing
                                run_at=now,
                                tags={"customer": f"c{n % 97}"},
                            )
                        ),
                    )
                )
                for n in range(first, min(first + 100, count))
            )
        )


def hf_raw(value):
    from msgspec import Raw

    return Raw(json.dumps(value).encode())


class Counted:
    """A store whose reads, and the items that they find, are counted."""

    def __init__(self, store) -> None:
        self._store = store
        self.reads: Counter[str] = Counter()
        self.items = 0

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if name not in READS:
            return found

        async def counted(*args, **kwargs):
            self.reads[name] += 1
            answer = await found(*args, **kwargs)
            self.items += len(getattr(answer, "items", ()) or ()) if not callable(getattr(answer, "items", None)) else 0
            return answer

        return counted


@pytest.fixture
def counted(shop, monkeypatch):
    """The reads of an open app."""

    def count() -> Counted:
        from msgspec.structs import replace

        runtime = shop.runtime()
        store = Counted(runtime.home.store)
        counting = replace(runtime, home=replace(runtime.home, store=store))
        monkeypatch.setattr(shop, "_runtime", counting)
        return store

    return count


async def test_no_page_reads_a_whole_table(shop, counted):
    async with shop:
        await fill(shop, MANY)
        person = Person(shop, authenticate=lambda _request: hf.Caller("ann"))
        await person.get("/dashboard/executions")
        store = counted()
        for page, most_reads, most_items in (
            ("executions", 2, 60),
            ("executions?status=FAILED", 2, 60),
            ("executions?workflow=checkout&id=order-0012", 3, 110),
            ("actors", 2, 0),
            ("letters", 2, 0),
            ("overview", 17, 400),
            ("outbox", 5, 0),
            ("schedules", 3, 0),
            ("leases", 3, 0),
            ("queues", 3, 0),
            ("limits", 1, 0),
            ("workers", 6, 60),
            ("metrics", 1, 0),
            ("audit", 6, 0),
            (at("checkout", "order-000012").removeprefix("/dashboard/"), 6, 10),
        ):
            store.reads.clear()
            store.items = 0
            answer = await person.get(f"/dashboard/{page}")
            assert answer.status == 200
            assert store.reads.total() <= most_reads, (page, store.reads)
            assert store.items <= most_items, (page, store.items)


async def test_a_filter_that_finds_nothing_stops_and_says_so(shop, counted):
    async with shop:
        await fill(shop, MANY)
        person = Person(shop, authenticate=lambda _request: hf.Caller("ann"))
        await person.get("/dashboard/executions")
        store = counted()
        answer = await person.get("/dashboard/executions?error=no%20such")
        assert MOST_READ <= store.items <= MOST_READ + 50
        assert "There may be older ones" in answer.text
        (older,) = [each for each in answer.main.all("a") if each.attributes.get("rel") == "next"]
        answer = await person.get(older.attributes["href"])
        assert "Nothing here is like that" in answer.text


async def test_a_tag_that_nothing_has_is_known_by_the_index(shop, counted):
    async with shop:
        await fill(shop, MANY)
        person = Person(shop, authenticate=lambda _request: hf.Caller("ann"))
        await person.get("/dashboard/executions")
        store = counted()
        answer = await person.get("/dashboard/executions?tag=customer%3Dnone")
        assert store.items == 0
        assert "Nothing here is like that" in answer.text


async def test_the_first_page_is_small(shop):
    async with shop:
        await fill(shop, 200)
        person = Person(shop, authenticate=lambda _request: hf.Caller("ann"))
        page = await person.get("/dashboard/executions")
        assert len(page.main.all("input", name="on")) == 50
        size_bytes = len(page.body) + sum(len(static_file(name)) for name in STATIC_KINDS)
        assert size_bytes <= LARGEST_FIRST_PAGE_BYTES, (len(page.body), size_bytes)
        assert len(gzip.compress(page.body)) < 8 * 1024


def test_the_script_is_short_and_makes_no_code():
    script = static_file("hf.js").decode()
    assert script.count("\n") <= MOST_SCRIPT_LINES
    assert not any(word in script for word in ("eval(", "innerHTML", "outerHTML", "document.write", "new Function"))
