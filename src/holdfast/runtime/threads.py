"""Threads for blocking steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class StepThreads(Executor):
    """At most ``limit`` threads, started when needed. They do not keep the process alive.

    The standard library's pool joins its threads when the interpreter ends, so one step that hangs would keep a worker
    from ever stopping. The result of such a step is ignored: another worker retries it (G10).
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: Future[R] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the worker has stopped")
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._limit:
                name = f"holdfast-step-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def _serve(self) -> None:
        while (waiting := self._calls.get()) is not None:
            _perform(*waiting)
            del waiting  # an idle thread keeps no step's arguments and results alive
            self._idle.release()
        self._calls.put(None)  # for the next thread

    # As the standard library declares it.
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._cancel_waiting()
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _cancel_waiting(self) -> None:
        while True:
            try:
                waiting = self._calls.get_nowait()
            except Empty:
                return
            if waiting is not None:
                waiting[0].cancel()


def _perform(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - what the user's code raises is the step's outcome
        future.set_exception(error)
    else:
        future.set_result(result)
