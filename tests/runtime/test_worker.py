"""The worker: it starts, drains within its grace period, hands over, and obeys signals (G1, G9)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import holdfast as hf

PATIENCE_SECONDS = 100


@pytest.fixture
def home(tmp_path):
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def ran():
    return Counter()


async def until(check):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not check():
            await asyncio.sleep(0.002)


async def heads(app):
    """Every head, as the store holds it."""
    return (await app.runtime().home.store.scan("")).items


# ── Draining ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_running_step_finishes_within_the_grace_period_and_the_rest_is_handed_over(home, ran):
    gate, started = asyncio.Event(), asyncio.Event()

    def code(app):
        @app.step
        async def slow() -> str:
            ran["slow"] += 1
            started.set()
            await gate.wait()
            return "slow"

        @app.step
        async def after() -> str:
            ran["after"] += 1
            return "after"

        @app.workflow
        async def job() -> list[str]:
            return [await slow(), await after()]

        return job

    first, second = hf.App("one", home=home), hf.App("two", home=home)
    before, later = code(first), code(second)
    async with first.worker(grace="20s"):
        await before.start(id="j")
        await started.wait()
        asyncio.get_running_loop().call_later(0.02, gate.set)
    assert ran == {"slow": 1}
    async with second.worker():
        assert await later.handle("j").result("60s") == ["slow", "after"]
    assert ran == {"slow": 1, "after": 1}


async def test_a_step_over_the_grace_period_is_interrupted_and_taken_up_at_once_by_another(home, ran):
    started, stopped = asyncio.Event(), []

    def code(app):
        @app.step
        async def stuck() -> str:
            ran["stuck"] += 1
            started.set()
            if ran["stuck"] == 1:
                try:
                    await asyncio.Event().wait()
                finally:
                    stopped.append("stopped")
            return "done"

        @app.workflow
        async def job() -> str:
            return await stuck()

        return job

    first, second = hf.App("one", home=home), hf.App("two", home=home)
    before, later = code(first), code(second)
    async with first.worker(grace="20ms"):
        await before.start(id="j")
        await started.wait()
    assert stopped == ["stopped"]
    async with second.worker():
        (head,) = await heads(second)
        assert await later.handle("j").result("60s") == "done"
    assert ran == {"stuck": 2}
    assert head is not None


async def test_nothing_is_left_leased(home):
    app = hf.App("shop", home=home)

    @app.workflow
    async def waits() -> str:
        return await hf.signal("go", str)

    @app.workflow
    async def sleeps() -> None:
        await hf.sleep("1h")

    async with app.worker():
        for n in range(10):
            await waits.start(id=f"w-{n}")
            await sleeps.start(id=f"s-{n}")
    async with app:
        assert [head.owner for head in await heads(app)] == [None] * 20


async def test_a_blocking_step_does_not_hold_the_worker_up_for_ever(home):
    release, started = threading.Event(), threading.Event()
    app = hf.App("shop", home=home)

    @app.step
    def blocking() -> str:
        started.set()
        release.wait(PATIENCE_SECONDS)
        return "done"

    @app.workflow
    async def job() -> str:
        return await blocking()

    try:
        async with app.worker(grace="20ms"):
            handle = await job.start(id="j")
            await until(started.is_set)
        release.set()
        async with app.worker():
            assert await handle.result("60s") == "done"
    finally:
        release.set()


async def test_whoever_waits_in_this_process_goes_on_waiting_after_the_worker_has_stopped(home):
    app, other = hf.App("shop", home=home), hf.App("other", home=home)

    def code(app):
        @app.workflow
        async def job() -> str:
            return await hf.signal("go", str)

        return job

    job, there = code(app), code(other)
    async with app:
        async with app.worker():
            handle = await job.start(id="j")
            waiting = asyncio.create_task(handle.result("60s"))
            await asyncio.sleep(0.005)
        async with other.worker():
            await there.handle("j").signal("go", "gone")
            assert await waiting == "gone"


async def test_executions_started_while_it_drains_wait_for_another(home):
    gate, started = asyncio.Event(), asyncio.Event()
    app = hf.App("shop", home=home)

    @app.step
    async def slow() -> None:
        started.set()
        await gate.wait()

    @app.workflow
    async def job(wait: bool) -> str:
        if wait:
            await slow()
        return "done"

    async with app:

        async def work() -> None:
            async with app.worker(grace="10s"):
                await started.wait()

        worker = asyncio.create_task(work())
        await asyncio.sleep(0)
        await job.start(True, id="slow")
        await started.wait()
        await asyncio.sleep(0.005)
        late = await job.start(False, id="late")
        await asyncio.sleep(0.005)
        gate.set()
        await worker
        assert (await late.status()).status == "READY"
        async with app.worker():
            assert await late.result("60s") == "done"
            assert await job.handle("slow").result("60s") == "done"


async def test_an_error_in_the_block_is_raised_after_a_clean_end(home):
    app = hf.App("shop", home=home)

    @app.workflow
    async def job() -> None:
        await hf.signal("never")

    with pytest.raises(LookupError, match="mine"):
        async with app.worker():
            await job.start(id="j")
            raise LookupError("mine")
    async with app:
        (head,) = await heads(app)
        assert head.owner is None


async def test_more_work_than_is_done_at_once_is_all_done(home, ran):
    app = hf.App("shop", home=home, limits=hf.Limits(running=3))

    @app.step
    async def step(n: int) -> int:
        ran["now"] += 1
        ran["most"] = max(ran["most"], ran["now"])
        await asyncio.sleep(0)
        ran["now"] -= 1
        return n

    @app.workflow
    async def job(n: int) -> int:
        return await step(n)

    async with app.worker():
        handles = [await job.start(n) for n in range(50)]
        assert await asyncio.gather(*handles) == list(range(50))
    assert ran["most"] <= 3


async def test_a_signal_for_one_that_waits_for_room_is_not_lost(home):
    app = hf.App("shop", home=home, limits=hf.Limits(running=1, linger_seconds=0.0))

    @app.workflow
    async def job(n: int) -> str:
        return await hf.signal("go", str)

    async with app.worker():
        handles = [await job.start(n, id=f"j-{n}") for n in range(10)]
        for handle in handles:
            await handle.signal("go", handle.id)
        async with asyncio.timeout(60):
            assert await asyncio.gather(*handles) == [f"j-{n}" for n in range(10)]


# ── app.run ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_run_answers_the_result_of_its_main(home):
    app = hf.App("shop", home=home)

    @app.workflow
    async def job(n: int) -> int:
        return n + 1

    async def main() -> int:
        return await job(1) + await job(2)

    assert app.run(main()) == 5
    assert app.run(main()) == 5


def test_run_raises_what_its_main_raises(home):
    app = hf.App("shop", home=home)

    async def main() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        app.run(main())


# ── Signals ─────────────────────────────────────────────────────────────────────────────────────────────────────────

PROGRAM = """
import asyncio, pathlib, sys
import holdfast as hf

folder = pathlib.Path(sys.argv[1])
app = hf.App("shop", home=f"sqlite:///{folder}/shop.db")

@app.step
async def slow() -> str:
    with (folder / "ran").open("a") as log:
        log.write("slow\\n")
    (folder / "started").touch()
    while not (folder / "release").exists():
        await asyncio.sleep(0.005)
    return "slow"

@app.step
async def after() -> str:
    with (folder / "ran").open("a") as log:
        log.write("after\\n")
    return "after"

@app.workflow
async def job() -> list[str]:
    return [await slow(), await after()]

async def main() -> None:
    async with app:
        await job.start(id="j")

if __name__ == "__main__":
    asyncio.run(main())
    app.run(grace="30s")
    (folder / "ended").touch()
"""


class Program:
    """A worker in a process of its own."""

    def __init__(self, folder: Path, source_code: str = PROGRAM) -> None:
        self.folder = folder
        path = folder / "program.py"
        path.write_text(source_code)
        source = str(Path(hf.__file__).parents[1])
        environment = os.environ | {"PYTHONPATH": source, "PYTHONWARNINGS": "error"}
        self.process = subprocess.Popen(
            [sys.executable, str(path), str(folder)], env=environment, stderr=subprocess.PIPE, text=True
        )

    async def started(self) -> None:
        await until(lambda: (self.folder / "started").exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()[1]

    def ran(self) -> list[str]:
        return (self.folder / "ran").read_text().split()

    async def ended(self) -> int:
        await until(lambda: self.process.poll() is not None)
        return self.process.returncode


@pytest.fixture
def program(tmp_path):
    made = Program(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.kill()
    made.process.communicate()


async def finish(folder: Path) -> list[str]:
    """Let a worker in this process go on with what the program has left behind."""
    names: dict[str, object] = {"__name__": "program"}
    sys.argv[1:], before = [str(folder)], sys.argv[1:]
    try:
        exec(compile(PROGRAM, "program", "exec"), names)  # noqa: S102 - the text above
    finally:
        sys.argv[1:] = before
    app, job = names["app"], names["job"]
    async with app.worker():  # type: ignore[attr-defined]
        return await job.handle("j").result("60s")  # type: ignore[attr-defined]


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_running_steps_finish_and_hands_the_rest_over(program, tmp_path, number):
    await program.started()
    program.process.send_signal(number)
    await asyncio.sleep(0.03)
    assert program.process.poll() is None
    (tmp_path / "release").touch()
    assert await program.ended() == 0
    assert (tmp_path / "ended").exists()
    assert program.ran() == ["slow"]
    assert await finish(tmp_path) == ["slow", "after"]
    assert program.ran() == ["slow", "after"]


@pytest.mark.process
async def test_a_second_signal_ends_it_at_once_and_another_takes_over_without_waiting_for_the_lease(program, tmp_path):
    await program.started()
    program.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.03)
    program.process.send_signal(signal.SIGTERM)
    assert await program.ended() == -signal.SIGTERM
    assert not (tmp_path / "ended").exists()
    (tmp_path / "release").touch()
    assert await finish(tmp_path) == ["slow", "after"]
    assert program.ran() == ["slow", "slow", "after"]


STUCK = """
import asyncio, sys, threading, pathlib
import holdfast as hf

folder = pathlib.Path(sys.argv[1])
app = hf.App("shop", home=f"sqlite:///{folder}/shop.db")

@app.step
def stuck() -> None:
    (folder / "started").touch()
    threading.Event().wait(60)

@app.workflow
async def job() -> None:
    await stuck()

async def main() -> None:
    async with app:
        await job.start(id="j")

if __name__ == "__main__":
    asyncio.run(main())
    app.run(grace="50ms")
    (folder / "ended").touch()
"""


@pytest.mark.process
async def test_a_step_that_blocks_its_thread_does_not_keep_the_process_alive_after_the_grace_period(tmp_path):
    program = Program(tmp_path, STUCK)
    try:
        await program.started()
        program.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await program.ended() == 0
        assert (tmp_path / "ended").exists()
    finally:
        program.process.kill()
        program.process.communicate()


@pytest.mark.process
async def test_a_killed_worker_is_replaced_without_waiting_for_its_lease(program, tmp_path):
    await program.started()
    program.process.kill()
    assert await program.ended() == -signal.SIGKILL
    (tmp_path / "release").touch()
    assert await finish(tmp_path) == ["slow", "after"]
    assert program.ran() == ["slow", "slow", "after"]
