"""Starts by key: gathered, postponed, and one at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

import holdfast as hf
from holdfast.app import App
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User

ELEMENTS: Final = 7
EDITS: Final = 3
RUNS: Final = 3


def collected(app: App, ledger: Ledger) -> User:
    """Elements of one key, three to an execution at most; the last batch begins by its time."""

    @app.step
    async def store(rows: list[int]) -> int:
        return len(ledger.effect(rows))

    @app.workflow
    async def ingest(rows: list[int]) -> int:
        return await store(rows)

    rows = app.collect(ingest, most=3, within="20s")

    async def user() -> int:
        taken = [await rows.at("t", request_id=f"row {number}").start(number) for number in range(ELEMENTS)]
        return sum([await handle for handle in {each.id: each for each in taken}.values()])

    return user


def each_element_once(ledger: Ledger) -> list[str]:
    """Nothing was lost, and nothing was taken twice."""
    batches: list[list[int]] = [rows for rows in ledger.accepted.values() if isinstance(rows, list)]
    taken = Counter(row for rows in batches for row in rows)
    wrong = [row for row in range(ELEMENTS) if taken[row] != 1]
    return [f"row {row} was taken {taken[row]} times" for row in wrong]


def debounced(app: App, ledger: Ledger) -> User:
    """Edits of one document, indexed when they have stopped."""

    @app.step
    async def index(text: str) -> str:
        return ledger.effect(text)

    @app.workflow
    async def reindex(text: str) -> str:
        return await index(text)

    soon = app.debounce(reindex, quiet="10s", longest="60s")

    async def user() -> str:
        for number in range(EDITS - 1):
            await soon.at("doc", request_id=f"edit {number}").start(f"edit {number}")
            await asyncio.sleep(1)
        last = f"edit {EDITS - 1}"
        return await (await soon.at("doc", request_id=last).start(last))

    return user


def _told(ledger: Ledger, *beginnings: str) -> list[str]:
    """The effects that begin so, in their order: in a swarm there are others."""
    return [each for each in ledger.accepted.values() if isinstance(each, str) and each.startswith(beginnings)]


def the_last_edit_is_indexed(ledger: Ledger) -> list[str]:
    """A slow world may see more than one quiet time, but each edit at most once, and the last one at the end."""
    indexed = _told(ledger, "edit")
    if indexed != sorted(set(indexed)) or indexed[-1] != f"edit {EDITS - 1}":
        return [f"indexed were {indexed}"]
    return []


def one_at_a_time(app: App, ledger: Ledger) -> User:
    """Runs of one key, of which those that come while another is open join it."""

    @app.step
    async def note(what: str) -> str:
        return ledger.effect(what)

    @app.workflow
    async def sync(number: int) -> int:
        await note(f"begin {number}")
        await hf.sleep("15s")
        await note(f"end {number}")
        return number

    syncs = app.single(sync, mode="join")

    async def user() -> None:
        handles = list[hf.Handle[int]]()
        for number in range(RUNS):
            handles.append(await syncs.at("k", request_id=f"run {number}").start(number))
            await asyncio.sleep(10)
        for handle in handles:
            await handle

    return user


def no_two_overlap(ledger: Ledger) -> list[str]:
    """Each begin is followed by its end."""
    told = _told(ledger, "begin", "end")
    whole = all(begin.replace("begin", "end") == end for begin, end in zip(told[::2], told[1::2], strict=True))
    return [] if told and whole else [f"they overlap: {told}"]


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("collected", collected, check=each_element_once, histories=Histories.FREE, ends_vary=True),
    Scenario("debounced", debounced, check=the_last_edit_is_indexed, histories=Histories.FREE, ends_vary=True),
    Scenario("one at a time", one_at_a_time, check=no_two_overlap, histories=Histories.FREE, ends_vary=True),
)
