"""Listing by an index: what is found, how little of the file is read for it, and from which moment it is."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import apsw
import pytest

from holdfast.backends.memory import open_memory_home
from holdfast.backends.sqlite import listing
from holdfast.backends.sqlite import store as store_module
from holdfast.backends.sqlite.listing import OF_STATUS, OF_SUBKIND, walks_for
from holdfast.backends.sqlite.schema import APPLICATION_ID, MIGRATIONS
from holdfast.items import HEAD, Delete, Item, Put, Update

STATUSES = ("COMPLETED", "FAILED", "READY", "RUNNING", "SUSPENDED")
PREFIXES = ("wf#", "wf#a#", "wf#a#1", "wf#b", "wf#b#", "wf#c#", "actor#", "actor#a#", "other#", "wf#none#", "limit#")

FILL = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
INSERT INTO holdfast_heads (partition, revision, status, epoch, body)
SELECT printf(?2, n), 1, ?3, 1, x'7b7d' FROM numbers
"""


async def listed(store: Any, prefix: str, status: str | None, limit: int) -> list[str]:
    found, after = [], None
    while True:
        page = await store.scan(prefix, status=status, after=after, limit=limit)
        found += [head.partition for head in page.items]
        after = page.cursor
        if after is None:
            return found


class Steps:
    """The work of the store's reader, in instructions of SQLite's virtual machine."""

    def __init__(self, connection: Any) -> None:
        self.count = 0
        connection.set_progress_handler(self._one_more, 1)

    def _one_more(self) -> bool:
        self.count += 1
        return False


@pytest.mark.parametrize("seed", range(5))
async def test_it_finds_what_the_model_of_a_store_finds(open_home, seed: int, monkeypatch) -> None:
    monkeypatch.setattr(store_module, "SCAN_ROWS", 5)
    random, model = Random(seed), open_memory_home().store
    async with open_home() as home:
        for number in range(120):
            kind, name = random.choice([("wf", "a"), ("wf", "b"), ("wf", "bc"), ("actor", "a"), ("limit", None)])
            partition = f"{kind}#{number}" if name is None else f"{kind}#{name}#{number}"
            put = Put(Item(partition, status=random.choice(STATUSES)))
            change = Update(partition=partition, status=random.choice(STATUSES), add_revision=1)
            writes = [
                put,
                *([change] if random.random() < 0.5 else ()),
                *([Delete(partition, HEAD)] * (number % 10 == 0)),
            ]
            for store in (home.store, model):
                for write in writes:
                    await store.write(write)
        await home.store.write(Put(Item("wf#a#nobody", "i#1")))  # a message without a head: a placeholder
        found = 0
        for prefix in PREFIXES:
            for status in (None, *STATUSES):
                expected = await listed(model, prefix, status, 100)
                found += len(expected)
                for limit in (1, 3, 100):
                    assert await listed(home.store, prefix, status, limit) == expected
        assert found > 200


@pytest.mark.parametrize(
    ("prefix", "status"),
    [("wf#", "FAILED"), ("wf#common#", "FAILED"), ("wf#rare#", None), ("wf#rare#", "COMPLETED"), ("wf#", None)],
)
async def test_a_page_reads_no_more_of_a_large_file_than_of_a_small_one(
    open_home, prefix: str, status: str | None, monkeypatch
) -> None:
    monkeypatch.setattr(store_module, "SCAN_ROWS", 50)
    async with open_home() as home:
        writer = home.store.runner.connection
        for partition, of, count in (("wf#rare#%d", "COMPLETED", 3), ("wf#common#0%d", "FAILED", 3)):
            writer.execute(FILL, (count, partition, of)).fetchall()
        costs = []
        for size in (1_000, 30_000):
            writer.execute(FILL, (size, f"wf#common#{size}-%d", "COMPLETED")).fetchall()
            writer.execute(FILL, (size, f"actor#cart#{size}-%d", "FAILED")).fetchall()
            steps = Steps(home.store._reader)
            page = await home.store.scan(prefix, status=status, limit=3)
            assert len(page.items) == 3
            costs.append(steps.count)
        assert costs[1] <= costs[0] + 50
        assert costs[1] <= 2_000


@pytest.mark.parametrize(
    "text",
    [
        OF_SUBKIND.bound,
        OF_SUBKIND.heads,
        OF_STATUS.bound,
        OF_STATUS.heads,
        listing.STATUSES,
        listing.NUMBERS,
        listing.HEADS,
    ],
)
async def test_no_listing_scans(open_home, text: str) -> None:
    async with open_home() as home:
        parameters = (None,) * max(int(number) for number in re.findall(r"\?([0-9])", text))
        told = [row[3] for row in home.store.rows(f"EXPLAIN QUERY PLAN {text}", parameters)]
        assert [each for each in told if each.startswith("SEARCH holdfast_heads USING")]
        assert not [each for each in told if each.startswith("SCAN holdfast_heads")]


async def test_no_change_of_a_head_is_written_to_the_index_of_subkinds(open_home) -> None:
    change = (
        "UPDATE holdfast_heads SET revision = 2, status = 'X', owner = NULL, due_at = NULL, body = x'' WHERE number = 1"
    )
    async with open_home() as home:
        program = home.store.runner.connection.execute(f"EXPLAIN {change}").fetchall()
        opened = {row[3] for row in program if row[1] == "OpenWrite"}  # its root page
        there = home.store.rows("SELECT name, rootpage FROM sqlite_schema WHERE tbl_name = 'holdfast_heads'", ())
        written = {name for name, root in there if root in opened}
        assert {"holdfast_heads", "holdfast_heads_kind"} <= written
        assert "holdfast_heads_subkind" not in written


async def test_a_head_whose_status_changes_during_a_listing_of_a_kind_is_in_it(open_home) -> None:
    async with open_home() as home, open_home() as other:
        for number in range(3):
            await home.store.write(Put(Item(f"wf#a#{number}", status="RUNNING")))
        await home.store.write(Put(Item("wf#a#ended", status="COMPLETED")))
        read, changes = home.store.rows, 0

        def rows(text: str, parameters: Any) -> Any:
            nonlocal changes
            found = read(text, parameters)
            if parameters[1:2] == ("COMPLETED",):  # it comes before RUNNING
                changes += 1
                other.store.runner.run([[Update(partition="wf#a#1", status="COMPLETED")]])
            return found

        home.store.rows = rows
        page = await home.store.scan("wf#")
        assert changes == 1
        assert [head.partition for head in page.items] == ["wf#a#ended", "wf#a#2", "wf#a#1", "wf#a#0"]
        assert (await home.store.get("wf#a#1")).status == "COMPLETED"


def test_a_prefix_is_looked_for_on_every_walk_that_has_all_of_it() -> None:
    assert walks_for("wf#check", None) == []
    assert walks_for("wf#check", "X") == [(OF_STATUS, "wf#")]
    assert walks_for("wf#checkout#", None) == [(OF_SUBKIND, "wf#checkout#")]
    assert walks_for("wf#checkout#order-1#x", "X") == [(OF_SUBKIND, "wf#checkout#"), (OF_STATUS, "wf#")]


async def test_the_heads_of_an_older_file_are_listed(path, open_home) -> None:
    old = apsw.Connection(str(path))
    for statement in (each for migration in MIGRATIONS[:4] for each in migration):
        old.execute(statement)
    old.execute(FILL, (5, "wf#a#%d", "FAILED"))
    old.pragma("application_id", APPLICATION_ID)
    old.pragma("user_version", 4)
    old.close()
    async with open_home() as home:
        assert await listed(home.store, "wf#a#", None, 2) == [f"wf#a#{number}" for number in (5, 4, 3, 2, 1)]
        assert await home.store.integrity() == []


async def test_a_process_with_the_release_before_goes_on_with_a_file_that_was_migrated(path, open_home) -> None:
    async with open_home():
        pass
    old = apsw.Connection(str(path))
    old.execute(
        "INSERT INTO holdfast_heads (partition, revision, status, epoch, body) VALUES ('wf#a#1', 1, 'X', 1, x'')"
    )
    by_kind = "SELECT number FROM holdfast_heads INDEXED BY holdfast_heads_kind WHERE kind = 'wf#' AND status = 'X'"
    assert old.execute(by_kind).fetchall() == [(1,)]
    old.close()
    async with open_home() as home:
        assert await listed(home.store, "wf#a#", "X", 2) == ["wf#a#1"]
