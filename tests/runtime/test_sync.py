"""The synchronous bridge: for callers that are not async, from any thread."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast as hf


@pytest.fixture
def app(tmp_path):
    app = hf.App("shop", home=f"sqlite:///{tmp_path}/shop.db")

    @app.step
    async def double(n: int) -> int:
        return 2 * n

    @app.workflow(name="job")
    async def job(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return await double(n)

    @app.workflow(name="waits")
    async def waits() -> str:
        return await hf.signal("go", str)

    return app


def workflow(app, name):
    return app.registry.workflow(name)


def test_it_starts_waits_and_looks(app):
    with app.sync(worker=True) as run:
        handle = run(workflow(app, "job").start(4, id="j"))
        assert run(handle) == 8
        assert run(handle.status()).status == "COMPLETED"
        assert run(workflow(app, "job")(5)) == 10
        assert len(run(app.executions()).executions) == 2


def test_as_a_client_it_leaves_the_work_to_others(app):
    with app.sync() as run:
        handle = run(workflow(app, "job").start(4, id="j"))
        assert run(handle.status()).status == "READY"
    with app.sync(worker=True) as run:
        assert run(handle) == 8


def test_errors_come_through(app):
    with app.sync(worker=True) as run:
        with pytest.raises(hf.ExecutionFailed, match="ValueError: negative") as caught:
            run(workflow(app, "job")(-1))
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(hf.WaitTimeout):
            run(run(workflow(app, "waits").start()).result(timeout="5ms"))
        with pytest.raises(hf.NotFound):
            run(workflow(app, "job").handle("nobody").status())


def test_it_serves_many_threads(app):
    with app.sync(worker=True) as run, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: run(workflow(app, "job")(n)), range(40)))
    assert found == [2 * n for n in range(40)]


def test_it_can_be_opened_again(app):
    for n in range(3):
        with app.sync(worker=True) as run:
            assert run(workflow(app, "job")(n)) == 2 * n


def test_the_same_bridge_can_be_entered_again(app):
    bridge = app.sync(worker=True)
    for n in range(2):
        with bridge as run:
            assert run(workflow(app, "job")(n)) == 2 * n


def test_outside_its_block_it_refuses_instead_of_waiting_for_ever(app):
    bridge = app.sync()
    for _ in range(2):
        with pytest.raises(hf.HoldfastError, match="with app.sync"):
            bridge(workflow(app, "job").handle("x"))
        with bridge:
            pass


def test_a_bridge_that_is_never_entered_leaves_nothing_open(app):
    app.sync()
    gc.collect()


def test_a_home_that_cannot_be_opened_leaves_nothing_open():
    app = hf.App("shop", home="nonsense")
    before = threading.active_count()
    with pytest.raises(hf.ConfigurationError, match="names no home"), app.sync():
        pass
    gc.collect()
    assert threading.active_count() == before


def test_its_thread_ends_with_the_block(app):
    before = threading.active_count()
    with app.sync(worker=True) as run:
        run(workflow(app, "job")(1))
    assert threading.active_count() <= before + 1  # step threads end by themselves


async def test_within_a_loop_of_ones_own_it_works_from_a_thread(app):
    def work() -> int:
        with app.sync(worker=True) as run:
            return run(workflow(app, "job")(3))

    assert await asyncio.to_thread(work) == 6


def test_what_is_not_awaitable_is_refused(app):
    with app.sync() as run, pytest.raises(TypeError):
        run(7)  # type: ignore[arg-type]


def test_what_would_end_a_process_is_an_error_of_its_caller_and_the_bridge_goes_on(app):
    async def leaves() -> None:
        raise SystemExit(3)

    with app.sync(worker=True) as run:
        with pytest.raises(hf.CallFailed, match="SystemExit"):
            run(leaves())
        assert run(workflow(app, "job")(4)) == 8


def test_it_refuses_to_wait_for_what_runs_on_its_own_loop(app):
    with app.sync(worker=True) as run:

        async def nested() -> int:
            return run(workflow(app, "job")(4))

        with pytest.raises(hf.InvalidState, match="await it there"):
            run(nested())
        assert run(workflow(app, "job")(4)) == 8
