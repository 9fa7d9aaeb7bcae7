"""A bad environment: what a worker takes for dead, and what becomes of work when its file or its disk fails."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import holdfast as hf
from holdfast.kernel.host import quiet


async def test_a_living_worker_is_not_taken_over_from_because_the_bells_were_removed(tmp_path: Path) -> None:
    begun = asyncio.Queue[str]()
    goes_on = asyncio.Event()

    def worker_of(name: str) -> tuple[hf.App, hf.Workflow[[], str]]:
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
        assert two._worker is not None
        for _ in range(2):  # with the bells missing, and when they are back
            await two._worker.sweeper.sweep(two.limits.lease_ms + 1)
            await two._worker.sweeper._sweep_again()
            await quiet(two._worker.host)
        goes_on.set()
        assert await handle == "one"
        assert begun.empty()
        assert two.telemetry.counts["claimed"] == 0
