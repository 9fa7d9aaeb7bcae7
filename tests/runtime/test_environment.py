"""A bad environment: what a worker takes for dead, and what becomes of work when its file or its disk fails."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast import persist
from holdfast.errors import StoreUnavailable, StoreUnusable
from holdfast.kernel.host import quiet


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


class Disk:
    """The disk of an open app: SQLite refuses to grow the file beyond what it has."""

    def __init__(self, app: hf.App) -> None:
        self._store: Any = app.runtime().home.transactions
        self._connection = self._store.runner.connection

    def fill(self) -> None:
        self._connection.pragma("max_page_count", self._connection.pragma("page_count"))

    def free(self) -> None:
        self._connection.pragma("max_page_count", 2**30)

    async def refused(self) -> None:
        """Wait until a write has found no room."""
        await until(lambda: self._store.runner._is_full)


BIG = 200_000
DATA = os.urandom(BIG // 2).hex()  # nothing makes it smaller


async def test_a_living_worker_is_not_taken_over_from_because_the_bells_were_removed(tmp_path: Path) -> None:
    begun = asyncio.Queue[str]()
    goes_on = asyncio.Event()

    def worker_of(name: str) -> tuple[hf.App, Any]:
        app = hf.App("shop", home=f"sqlite:///{tmp_path}/shop.db")

        @app.step
        async def work() -> str:
            begun.put_nowait(name)
            await goes_on.wait()
            return name

        @app.workflow
        async def job() -> str:
            return await work()

        return app, job

    (one, job), (two, _) = worker_of("one"), worker_of("two")
    async with one.worker(), two.worker():
        handle = await job.start(id="1")
        assert await begun.get() == "one"
        shutil.rmtree(tmp_path / "shop.db-bells")
        assert two.employed is not None
        async with asyncio.timeout(60):
            for _ in range(2):  # with the bells missing, and when they are back
                await two.employed.sweeper.sweep(two.limits.lease_ms + 1)
                await two.employed.sweeper._sweep_again()
                await quiet(two.employed.host)
        goes_on.set()
        assert await handle == "one"
        assert begun.empty()
        assert two.telemetry.counts["claimed"] == 0


class TestFullDisk:
    @pytest.fixture
    def app(self, tmp_path: Path) -> hf.App:
        return hf.App("shop", home=f"sqlite:///{tmp_path}/shop.db")

    async def test_the_result_of_a_step_is_kept_and_the_step_does_not_run_again(self, app) -> None:
        attempts: list[int] = []

        @app.step
        async def charge() -> str:
            attempts.append(hf.current().attempt)
            disk.fill()
            return DATA

        @app.step
        async def other() -> int:
            await disk.refused()
            return 1

        @app.workflow
        async def job() -> int:
            receipt, one = await asyncio.gather(charge(), other())
            return len(receipt) + one

        async with app.worker():
            disk = Disk(app)
            handle = await job.start(id="j")
            await disk.refused()
            assert (await handle.status()).status == "RUNNING"
            disk.free()
            assert await handle.result(timeout="60s") == BIG + 1
            assert attempts == [1]
            assert app.telemetry.counts["turn_failed"] == 0

    @pytest.mark.parametrize("swallows", [False, True])
    async def test_a_transactional_step_waits_for_room_whatever_it_makes_of_the_error(self, app, swallows) -> None:
        @app.transaction(retry=hf.Retry(max_attempts=1))
        def fill(sql: hf.SqlCursor) -> int:
            sql.execute("CREATE TABLE IF NOT EXISTS stock (data BLOB)")
            try:
                sql.execute("INSERT INTO stock VALUES (zeroblob(?))", (BIG,))
            except Exception:
                if not swallows:
                    raise
            return len(sql.execute("SELECT * FROM stock"))

        @app.workflow
        async def job() -> int:
            return await fill()

        async with app.worker():
            disk = Disk(app)
            disk.fill()
            handle = await job.start(id="j")
            await disk.refused()
            disk.free()
            assert await handle.result(timeout="60s") == 1

    async def test_a_call_of_an_actor_is_applied_once(self, app) -> None:
        class Shelf(hf.Actor, app=app):
            goods: list[str] = hf.field(default_factory=list)

            async def put(self, goods: str) -> int:
                self.goods.append(goods)
                return len(self.goods)

        async with app.worker():
            disk = Disk(app)
            assert await Shelf.at("s").put("x") == 1
            disk.fill()
            call = asyncio.ensure_future(Shelf.at("s").put(DATA))
            await disk.refused()
            assert not call.done()
            disk.free()
            assert await call == 2
            assert await Shelf.at("s").put("x") == 3

    async def test_a_start_from_a_client_says_so_and_leaves_nothing_half_done(self, app, monkeypatch) -> None:
        monkeypatch.setattr(persist, "CALLER_PATIENCE_SECONDS", 0.1)

        @app.workflow
        async def job(data: str) -> int:
            return len(data)

        async with app:
            disk = Disk(app)
            disk.fill()
            with pytest.raises(StoreUnavailable, match=r"is full.*free some space"):
                await job.start(DATA, id="j")
            assert (await app.executions()).executions == ()
            disk.free()
            handle = await job.start(DATA, id="j")
            assert (await handle.status()).status == "READY"


class TestReplacedFile:
    async def test_a_worker_says_so_and_the_process_that_runs_it_ends(self, tmp_path: Path, caplog) -> None:
        app = hf.App("shop", home=f"sqlite:///{tmp_path}/shop.db", limits=hf.Limits(sweep_seconds=0.01))

        @app.workflow
        async def job() -> None: ...

        async with app.worker(grace="100ms"):
            await job()
            (tmp_path / "shop.db").unlink()
            async with asyncio.timeout(60):
                with pytest.raises(StoreUnusable, match=r"shop\.db was deleted"):
                    await app.employed.until(asyncio.Event().wait())
            with pytest.raises(StoreUnusable, match=r"shop\.db was deleted"):
                await job.start()
        assert any("store_unusable" in record.getMessage() for record in caplog.records)
