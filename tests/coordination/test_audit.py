"""Rows of the audit: before the change, after it, for a while."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.coordination.audit import MOST_PARTS, WINDOW_VARIABLE, audited, list_rows, rows_since
from holdfast.errors import StoreUnavailable

START = datetime(2026, 1, 30, 12, tzinfo=UTC)


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = START

    def now_ms(self) -> int:
        return round(self.now.timestamp() * 1_000)


@pytest.fixture
def clock():
    return Hands()


@pytest.fixture
def home():
    return open_memory_home(data=MemoryData())


async def change(home, clock, what, error=None):
    async with audited(home.store, clock, "ann", "cancel", what):
        if error is not None:
            raise error


async def outcomes(home, clock, limit=100, since=0):
    return [(row.what, row.outcome) for row in await rows_since(home.store, clock, since, limit)]


async def test_the_row_is_there_before_the_change_is_made(home, clock):
    async with audited(home.store, clock, "ann", "cancel", "a"):
        assert await outcomes(home, clock) == [("a", "begun")]
    assert await outcomes(home, clock) == [("a", "done")]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(hf.InvalidState("canary"), "invalid_state"), (KeyError("canary"), "failed"), (asyncio.CancelledError(), "begun")],
)
async def test_how_it_went_is_a_code_and_never_what_an_error_says(home, clock, error, outcome):
    with pytest.raises(type(error)):
        await change(home, clock, "a", error)
    assert await outcomes(home, clock) == [("a", outcome)]
    assert "canary" not in str(await rows_since(home.store, clock, 0, 10))


async def test_nothing_is_changed_that_cannot_be_kept(home, clock, monkeypatch):
    async def refuses(*_writes):
        raise StoreUnavailable("gone")

    monkeypatch.setattr(home.store, "write", refuses)
    monkeypatch.setattr("holdfast.persist.CALLER_PATIENCE_SECONDS", 0)
    with pytest.raises(StoreUnavailable):
        async with audited(home.store, clock, "ann", "cancel", "a"):
            raise AssertionError("the change was made")


async def test_rows_are_listed_newest_first_over_months_and_up_to_a_limit(home, clock):
    for day in range(60):
        clock.now = START + timedelta(days=day)
        await change(home, clock, str(day))
    newest_first = [str(day) for day in reversed(range(60))]
    assert [what for what, _ in await outcomes(home, clock)] == newest_first
    assert [what for what, _ in await outcomes(home, clock, limit=35)] == newest_first[:35]
    since = round((clock.now - timedelta(days=10)).timestamp() * 1_000)
    assert [what for what, _ in await outcomes(home, clock, since=since)] == newest_first[:11]


@pytest.mark.parametrize(("window", "days"), [("", 90), ("7d", 7)])
async def test_a_row_goes_by_itself_when_its_time_is_over(home, clock, monkeypatch, window, days):
    monkeypatch.setenv(WINDOW_VARIABLE, window)
    await change(home, clock, "old")
    clock.now = START + timedelta(days=days - 1)
    await change(home, clock, "new")
    clock.now = START + timedelta(days=days, minutes=1)
    assert await outcomes(home, clock) == [("new", "done")]
    assert await home.purges.purge(clock.now_ms(), 100) == 1
    assert len(home.store.data.partitions) >= 1


async def pages(home, clock, limit, **options):
    """What each page holds, until the last."""
    found, after = [], None
    while True:
        page = await list_rows(home.store, clock, after=after, limit=limit, **options)
        assert len(page.items) <= limit
        found.append([row.what for row in page.items])
        assert page.after is None or after is None or page.after < after, "a page leads further back"
        if (after := page.after) is None:
            return found


@pytest.mark.parametrize("limit", [1, 3, 10, 100, 1000])
async def test_pages_hold_every_row_once_however_close_they_are(home, clock, limit):
    gaps_ms = [0, 0, 1, 50, 3_000, 0, 0, 0, 0, 0, 86_400_000, 1, 12 * 86_400_000, 7, 31 * 86_400_000, 10, 0, 5]
    for number, gap_ms in enumerate(gaps_ms):
        clock.now += timedelta(milliseconds=gap_ms)
        await change(home, clock, f"{number:02}")
    found = [what for page in await pages(home, clock, limit) for what in page]
    assert sorted(found) == [f"{number:02}" for number in range(len(gaps_ms))]
    at = {row.what: row.at for row in await rows_since(home.store, clock, 0, 100)}
    assert [at[what] for what in found] == sorted(at.values(), reverse=True)


async def test_a_page_reads_a_bounded_number_of_parts_and_rows(home, clock, monkeypatch):
    for _ in range(600):
        clock.now += timedelta(seconds=7)
        await change(home, clock, "dense")
    asked, rows, query = 0, 0, home.store.query

    async def counted(*args, **options):
        nonlocal asked, rows
        page = await query(*args, **options)
        asked, rows = asked + 1, rows + len(page.items)
        return page

    monkeypatch.setattr(home.store, "query", counted)
    page = await list_rows(home.store, clock, limit=20)
    assert len(page.items) == 20 and asked <= MOST_PARTS and rows <= 20 * 20


async def test_months_without_rows_are_passed_in_short_pages(home, clock, monkeypatch):
    monkeypatch.setenv(WINDOW_VARIABLE, "3650d")
    await change(home, clock, "old")
    clock.now += timedelta(days=3_600)
    found = await pages(home, clock, 10)
    assert [what for page in found for what in page] == ["old"]
    assert len(found) > 1, "no page reads ten years of months"


@pytest.mark.parametrize("wrong", ["", "1", "x" * 15, "1" * 200, "²" * 15])
async def test_a_cursor_of_another_list_is_refused(home, clock, wrong):
    with pytest.raises(hf.InvalidInput, match="is not a cursor of this list"):
        await list_rows(home.store, clock, after=wrong)
