"""Transactional steps: the user's own SQL, exactly once (G10). They need a home that speaks SQL."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.sqlite_database import SqliteDatabase

import holdfast as hf
from holdfast.app import App
from holdfast.errors import Terminal
from holdfast.ports import SqlCursor
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User

TABLE = "CREATE TABLE IF NOT EXISTS bookings (what TEXT NOT NULL)"
BOOK = "INSERT INTO bookings VALUES (?)"
COUNT = "SELECT count(*) FROM bookings"


def booked(app: App, ledger: Ledger) -> User:
    """Rows that are written exactly once each, among ordinary steps; one attempt fails and leaves no row."""

    @app.transaction
    def book(cursor: SqlCursor, what: str) -> int:
        cursor.execute(TABLE)
        cursor.execute(BOOK, (what,))
        if what == "nothing":
            raise Terminal("sold out")
        ((count,),) = list(cursor.execute(COUNT))
        return int(count)

    @app.step
    async def confirm(count: int) -> int:
        return ledger.effect(count)

    @app.workflow
    async def trip() -> list[int]:
        counts = [await confirm(await book("hotel")), await book("flight")]
        try:
            await book("nothing")
        except Terminal:
            counts.append(await book("car"))
        return counts

    async def user() -> list[int]:
        return await (await trip.start(id="one"))

    return user


def contested(app: App, ledger: Ledger) -> User:
    """Two transactional steps asked for together; as soon as one has its row, the body gives up on the other."""

    @app.transaction
    def book(cursor: SqlCursor, what: str) -> str:
        cursor.execute(TABLE)
        cursor.execute(BOOK, (what,))
        return what

    @app.transaction
    def count(cursor: SqlCursor) -> int:
        ((rows,),) = list(cursor.execute(COUNT))
        return int(rows)

    @app.workflow
    async def auction() -> tuple[str, int]:
        tasks = [asyncio.create_task(book(what)) for what in ("left", "right")]
        finished, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await hf.sleep(30)
        return ",".join(sorted(task.result() for task in finished)), await count()

    async def user() -> tuple[str, int]:
        return await (await auction.start(id="one"))

    return user


def sql_scenarios(folder: Path) -> tuple[Scenario, ...]:
    """The scenarios on SQLite files in ``folder``: those with SQL of their own, and a few others."""
    return tuple(
        Scenario(name, build, histories=histories, database=lambda: SqliteDatabase(folder))
        for name, build, histories in (
            ("booked", booked, Histories.SAME),
            ("contested", contested, Histories.SAME),
        )
    )
