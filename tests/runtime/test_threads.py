"""The threads of blocking steps: as few as needed, at most so many, and none that keeps the process alive."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from holdfast.runtime.threads import StepThreads

PATIENCE_SECONDS = 100


@pytest.fixture
def threads():
    pool = StepThreads(3)
    yield pool
    pool.shutdown()


def test_results_and_errors_of_any_class_come_back(threads):
    assert threads.submit(lambda n, *, by: n * by, 6, by=7).result(PATIENCE_SECONDS) == 42
    for error in (ValueError("no"), SystemExit(3), KeyboardInterrupt()):

        def fails(error=error):
            raise error

        assert threads.submit(fails).exception(PATIENCE_SECONDS) is error
    assert threads.submit(threading.current_thread).result(PATIENCE_SECONDS).name == "holdfast-step-1"


def test_so_many_at_once_and_no_more(threads):
    everybody, go = threading.Barrier(4), threading.Event()

    def meet():
        everybody.wait(PATIENCE_SECONDS)
        return go.wait(PATIENCE_SECONDS)

    met = [threads.submit(meet) for _ in range(3)]
    late = [threads.submit(threading.current_thread) for _ in range(5)]
    everybody.wait(PATIENCE_SECONDS)
    assert not any(future.running() for future in late)
    go.set()
    assert all(future.result(PATIENCE_SECONDS) for future in met)
    names = {future.result(PATIENCE_SECONDS).name for future in late}
    assert names <= {"holdfast-step-1", "holdfast-step-2", "holdfast-step-3"}


def test_an_idle_thread_is_used_again_and_keeps_nothing_alive(threads):
    class Argument:
        pass

    for _ in range(5):
        argument = Argument()
        gone = weakref.ref(argument)
        done = threads.submit(type, argument)
        assert done.result(PATIENCE_SECONDS) is Argument
        threads._idle.acquire(timeout=PATIENCE_SECONDS)  # it waits for work again
        threads._idle.release()
        del argument, done
        gc.collect()
        assert gone() is None
    assert len(threads._threads) == 1


def test_what_waits_is_cancelled_what_runs_ends_and_nothing_more_is_taken(threads):
    everybody, go = threading.Barrier(4), threading.Event()

    def hang():
        everybody.wait(PATIENCE_SECONDS)
        return go.wait(PATIENCE_SECONDS)

    busy = [threads.submit(hang) for _ in range(3)]
    everybody.wait(PATIENCE_SECONDS)
    waiting = [threads.submit(hang) for _ in range(3)]
    threads.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in waiting)
    with pytest.raises(RuntimeError, match="the worker has stopped"):
        threads.submit(hang)
    go.set()
    assert all(future.result(PATIENCE_SECONDS) for future in busy)
    threads.shutdown()
    assert not any(thread.is_alive() for thread in threads._threads)


def test_a_shutdown_lets_what_waits_run_unless_told_otherwise():
    threads = StepThreads(1)
    futures = [threads.submit(int, n) for n in range(20)]
    threads.shutdown()
    assert [future.result(0) for future in futures] == list(range(20))


def test_none_keeps_the_process_alive(threads):
    assert threads.submit(lambda: threading.current_thread().daemon).result(PATIENCE_SECONDS)
