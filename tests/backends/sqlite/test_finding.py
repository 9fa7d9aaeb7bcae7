"""Finding executions by tags and times: all that are there are found, and little is read for it."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import apsw
import pytest
from msgspec import Raw
from msgspec.structs import replace

from holdfast.backends.sqlite import store as store_module
from holdfast.backends.sqlite.blobs import SqliteBlobs
from holdfast.backends.sqlite.finding import NEWEST_BLOCK, OTHER_BLOCK, SqliteFinder
from holdfast.backends.sqlite.listing import OF_TAG
from holdfast.backends.sqlite.schema import APPLICATION_ID, MIGRATIONS
from holdfast.finder import Sought
from holdfast.items import ABSENT, HEAD, Always, Delete, Expired, Item, Put, Update
from holdfast.ports import BLOB_MARK
from holdfast.workflows.record import ExecutionRecord, decode_record, encode_record

HOUR_MS = 3_600_000
SINCE = 1_800_000_000_000


def body_of(created_at: int, tags: dict[str, str], input: bytes = b"{}") -> bytes:
    return encode_record(
        ExecutionRecord(
            created_at=created_at,
            tags=tags,
            workflow="a",
            id="1",
            version="1",
            input=Raw(input),
            fingerprint="",
            secret="",
            run_at=0,
        )
    )


def as_before(body: bytes) -> bytes:
    """The record as an earlier release has written it: its fields are in another order."""
    return b'{"workflow":"a",' + body[1:].replace(b'"workflow":"a",', b"")


async def found(home: Any, prefix: str, sought: Sought, status: str | None, limit: int) -> list[str]:
    names, after = [], None
    while True:
        page = await SqliteFinder(home.store).find(prefix, sought, status=status, after=after, limit=limit)
        names += page.names
        after = page.cursor
        if after is None:
            return names


def expected(model: dict[str, Item], prefix: str, sought: Sought, status: str | None) -> set[str]:
    answer = set()
    for name, item in model.items():
        record = decode_record(item.body)
        if (
            name.startswith(prefix)
            and status in {None, item.status}
            and sought.tags.items() <= record.tags.items()
            and sought.since <= record.created_at < sought.until
        ):
            answer.add(name)
    return answer


@pytest.mark.parametrize("seed", range(3))
async def test_all_that_are_sought_are_found(open_home, seed: int, monkeypatch) -> None:
    monkeypatch.setattr(store_module, "SCAN_ROWS", 7)
    random, model = Random(seed), dict[str, Item]()
    tags = [
        {},
        {},
        {"customer": "acme"},
        {"customer": 'a"=ü'},
        {"customer": "acme", "rare": "1"},
        {"a=b": "c", "a": "b=c"},
    ]
    async with open_home() as home:
        write = home.store.write
        for number in range(150):
            name = f"wf#{random.choice('ab')}#{number if number % 5 else number // 2}"
            created_at = SINCE + number * HOUR_MS + random.randrange(HOUR_MS)
            body = body_of(created_at, random.choice(tags), random.choice([b"{}", b'{"tags":{"customer":"acme"}}']))
            body = random.choice([body, body, as_before(body)])
            item = Item(name, status=random.choice(["FAILED", "COMPLETED"]), body=body)
            there = model.get(name)
            if there is not None:  # it has expired, and begins again
                await write(Update(partition=name, expires_at=1))
                await write(Put(item, Expired(2)))
            elif number % 7 == 0:  # its messages came first
                await write(Put(Item(name, "i#1")))
                await write(Put(replace(item, expires_at=5 if number % 2 else None), ABSENT))  # perhaps ended already
            else:
                await write(Put(item, random.choice([ABSENT, Always()])))
            model[name] = item
            if number % 11 == 0:
                await write(Delete(name, HEAD))
                del model[name]
            elif number % 3 == 0:  # some work of it: only the rest of its record changes
                model[name] = Item(name, status="FAILED", body=item.body.replace(b'"run_at":0', b'"run_at":1'))
                await write(Update(partition=name, status="FAILED", body=model[name].body, add_revision=1))
        count = 0
        for each in ({}, {"customer": "acme"}, {"customer": 'a"=ü'}, {"rare": "1", "customer": "acme"}, {"no": "1"}):
            for since, until in ((0, 2**62), (SINCE + 60 * HOUR_MS, SINCE + 80 * HOUR_MS), (0, SINCE - 1)):
                for prefix, status in (("wf#", None), ("wf#a#", None), ("wf#b#1", "FAILED"), ("wf#", "COMPLETED")):
                    sought = Sought(each, since, until)
                    names = await found(home, prefix, sought, status, random.choice([1, 4, 100]))
                    wanted = expected(model, prefix, sought, status)
                    assert wanted <= set(names)
                    assert len(names) == len(set(names))
                    count += len(wanted)
        assert count > 200


async def test_a_page_reads_no_more_of_a_large_file_than_of_a_small_one(open_home) -> None:
    fill = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
INSERT INTO holdfast_heads (partition, revision, status, epoch, body)
SELECT printf('wf#a#%d', n + ?2), 1, 'COMPLETED', 1,
    CAST('{"created_at":' || (1800000000000 + (n + ?2) * 60000)
        || iif((n + ?2) % 2, ',"tags":{"many":"1"}', '') || '}' AS BLOB)
FROM numbers
"""
    async with open_home() as home:
        writer, reader = home.store.runner.connection, home.store._reader
        await home.store.write(Put(Item("wf#a#rare", status="FAILED", body=body_of(SINCE, {"rare": "1", "many": "1"}))))
        costs, size = [], 0
        for size_then in (5_000, 30_000):
            writer.execute(fill, (size_then - size, size)).fetchall()
            size, steps = size_then, 0

            def step() -> bool:
                nonlocal steps
                steps += 1
                return False

            reader.set_progress_handler(step, 1)
            for sought in (Sought({"rare": "1"}), Sought({"rare": "1", "many": "1"}), Sought({}, 0, SINCE + 1)):
                assert "wf#a#rare" in await found(home, "wf#", sought, None, 1_000)
            assert (await SqliteFinder(home.store).find("wf#a#", Sought({}, 0, SINCE - 70_000))).cursor is None
            assert (await SqliteFinder(home.store).find("wf#a#", Sought({"rare": "2"}))).cursor is None
            costs.append(steps)
        assert costs[1] <= costs[0] + 1_000
        assert costs[1] <= 70_000


@pytest.mark.parametrize("text", [OF_TAG.bound, OF_TAG.names, NEWEST_BLOCK, OTHER_BLOCK])
async def test_nothing_is_found_by_a_scan(open_home, text: str) -> None:
    async with open_home() as home:
        parameters = (None,) * max(int(number) for number in re.findall(r"\?([0-9]+)", text))
        told = [row[3] for row in home.store.rows(f"EXPLAIN QUERY PLAN {text}", parameters)]
        assert any(each.startswith("SEARCH holdfast_") for each in told)
        assert not [each for each in told if each.startswith(("SCAN holdfast_", "USE TEMP B-TREE"))]


async def test_a_start_without_tags_costs_little_more_than_any_other_head(open_home) -> None:
    async with open_home() as home:
        steps = 0

        def step() -> bool:
            nonlocal steps
            steps += 1
            return False

        async def cost(name: str) -> int:
            before = steps
            await home.store.write(Put(Item(name, status="READY", body=body_of(SINCE, {})), ABSENT))
            return steps - before

        home.store.runner.connection.set_progress_handler(step, 1)
        for name in ("wf#a#1", "actor#a#1"):
            await cost(name)  # the first finds no block
        assert await cost("wf#a#2") - await cost("actor#a#2") <= 50


@pytest.mark.parametrize("version", [5, 6])
async def test_executions_of_an_older_file_are_found_and_large_ones(path, open_home, version: int) -> None:
    old = apsw.Connection(str(path))
    for statement in (each for migration in MIGRATIONS[:version] for each in migration):
        old.execute(statement)
    put = "INSERT INTO holdfast_heads (partition, revision, status, epoch, body) VALUES (?, 1, 'FAILED', 1, ?)"
    old.execute(put, ("wf#a#1", as_before(body_of(SINCE, {"customer": "acme"}))))
    old.execute(put, ("wf#a#2", as_before(body_of(SINCE + HOUR_MS, {}))))
    old.execute(put, ("actor#a#1", b"{"))
    old.pragma("application_id", APPLICATION_ID)
    old.pragma("user_version", version)
    async with open_home() as home:  # migrated under the older process, which goes on
        spans = "SELECT * FROM holdfast_spans"
        assert home.store.rows(spans, ()) == [(0, SINCE & ~65535, SINCE + HOUR_MS | 65535)]
        large = as_before(body_of(SINCE, {"customer": "acme"}, b'"' + b"x" * 3_000_000 + b'"'))
        await SqliteBlobs(home.store).put("a" * 64, large, 1)
        old.execute(put, ("wf#a#3", BLOB_MARK + b"a" * 64))
        old.execute(put, ("wf#a#4", b"\x02sealed"))
        old.close()
        assert await found(home, "wf#", Sought({"customer": "acme"}), None, 10) == ["wf#a#3", "wf#a#1"]
        assert home.store.rows(spans, ()) == [(0, -(2**62), 2**62 | 65535)]
        assert await home.store.integrity() == []
        await SqliteFinder(home.store).forget()
        assert await found(home, "wf#", Sought({"customer": "acme"}), None, 10) == []
