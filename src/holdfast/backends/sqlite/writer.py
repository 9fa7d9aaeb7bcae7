"""Group commit with an output gate (DESIGN idea 7).

Calls are queued in the order in which they are made. The first one of an event-loop tick schedules the flush that
ends the tick: one transaction for all that was queued, answered only when it is durable (G7). While commits are fast
the flush runs on the event loop itself, which saves two thread switches. Once they are slow, or while another process
holds the write lock, a thread of our own runs it and wakes the loop once per batch; meanwhile the next batch gathers.
Either way nothing is awaited inside a transaction.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, Final

import apsw

from holdfast.backends.sqlite.batch import BatchRunner, Call, Outcome
from holdfast.backends.sqlite.failures import explained
from holdfast.backoff import Pauses
from holdfast.clock import elapsed_seconds
from holdfast.errors import StoreUnavailable, StoreUnusable

BATCH_CALLS: Final = 1000
"""The most calls in one transaction: bounds how long other processes wait for the write lock."""

SLOW_COMMIT_SECONDS: Final = 0.001
"""If commits take longer than this, on a smoothed average, they move from the event loop to the writer thread."""

OUTLIER_SECONDS: Final = 0.003
"""The most that a single slow commit counts: a checkpoint now and then does not make a slow disk."""

BATCHES_IN_THREAD: Final = 50
"""After this many batches in the thread, commits are tried, and measured, on the loop again. Measured in the thread
they would include the wait for the interpreter lock and never look fast."""

LOCK_WAIT_SECONDS: Final = 5.0
"""How long a batch waits for a lock held by another process before its calls fail: half of a caller's patience
(``holdfast.persist``), which tries twice. Workers try without end."""

LOCK_PAUSE_SECONDS: Final = (0.0002, 0.005)
"""The first and the longest pause between two attempts at the lock."""

Queued = tuple["asyncio.Future[Any]", Call]


class Writer:
    """The queue in front of a ``BatchRunner``. Belongs to the event loop on which it was created."""

    def __init__(self, runner: BatchRunner) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._create_future = loop.create_future
        self._runner = runner
        self._queue: list[Queued] = []
        self._in_thread = False
        """A batch is in the thread: it handles the queue when it returns."""
        self._closed = False
        self._smoothed_seconds = 0.0
        self._thread_batches_left = 0
        self._batches: SimpleQueue[list[Queued] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, call: Call) -> asyncio.Future[Any]:
        """Queue ``call`` for the next batch; the future has its answer once it is durable."""
        future: asyncio.Future[Any] = self._create_future()
        if self._closed:
            future.set_exception(StoreUnusable("the store is closed; open the home again"))
            return future
        if not self._queue and not self._in_thread:
            self._loop.call_soon(self._flush)
        self._queue.append((future, call))
        return future

    async def close(self) -> None:
        """Finish all submitted calls and end the thread."""
        last = self.submit(()) if self._queue or self._in_thread else None
        self._closed = True
        if last is not None:
            # Calls keep their order, so this one is answered last; whether it succeeds does not matter.
            await asyncio.wait([last])
            last.exception()
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join()
            self._thread = None

    # ── On the event loop ───────────────────────────────────────────────────────────────────────────────────────────

    def _flush(self) -> None:
        batch = self._queue
        if self._in_thread or not batch:
            return
        self._queue = batch[BATCH_CALLS:]
        del batch[BATCH_CALLS:]
        if self._thread_batches_left > 0:
            self._thread_batches_left -= 1
            self._hand_over(batch)
            return
        try:
            outcomes = self._runner.run([call for _, call in batch])
        except apsw.BusyError:
            self._hand_over(batch)
            return
        except BaseException as error:
            # Ctrl-C, or memory ran out: it was rolled back. No caller may wait for an answer that never comes.
            _answer(batch, _failed(batch, error))
            if self._queue:
                self._loop.call_soon(self._flush)
            raise
        self._measure()
        _answer(batch, outcomes)
        if self._queue:
            self._loop.call_soon(self._flush)

    def _measure(self) -> None:
        seconds = min(self._runner.commit_seconds, OUTLIER_SECONDS)
        self._smoothed_seconds += (seconds - self._smoothed_seconds) / 4
        if self._smoothed_seconds > SLOW_COMMIT_SECONDS:
            self._smoothed_seconds = 0.0
            self._thread_batches_left = BATCHES_IN_THREAD

    def _hand_over(self, batch: list[Queued]) -> None:
        self._in_thread = True
        if self._thread is None:
            # A daemon: a program that ends without closing the store loses no more than in a crash.
            self._thread = threading.Thread(target=self._work, name="holdfast-writer", daemon=True)
            self._thread.start()
        self._batches.put(batch)

    def _take_back(self, batch: list[Queued], outcomes: list[Outcome]) -> None:
        self._in_thread = False
        _answer(batch, outcomes)
        if self._queue:
            self._flush()

    # ── In the thread ───────────────────────────────────────────────────────────────────────────────────────────────

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            try:
                outcomes = self._run_patiently([call for _, call in batch])
            except BaseException as error:  # noqa: BLE001 - a thread has no caller: those who wait must hear of it
                outcomes = _failed(batch, error)
            try:
                self._loop.call_soon_threadsafe(self._take_back, batch, outcomes)
            except RuntimeError:  # the loop was closed under us: no caller is left
                return

    def _run_patiently(self, calls: Sequence[Call]) -> list[Outcome]:
        give_up_at = elapsed_seconds() + LOCK_WAIT_SECONDS
        pauses = Pauses(*LOCK_PAUSE_SECONDS, growth=1.5)
        while True:
            try:
                return self._runner.run(calls)
            except apsw.BusyError as error:
                if elapsed_seconds() > give_up_at:
                    return [(None, explained(error, self._runner.path)) for _ in calls]
            # SQLite does not signal when a lock becomes free; its own busy handler waits like this, with other steps.
            threading.Event().wait(pauses.take())


def _answer(batch: list[Queued], outcomes: list[Outcome]) -> None:
    for (future, _), (answer, error) in zip(batch, outcomes, strict=True):
        if future.done():  # its caller went away; the write is applied all the same
            continue
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)


def _failed(batch: list[Queued], error: BaseException) -> list[Outcome]:
    text = f"the write was interrupted by {type(error).__name__}: {error}. Nothing of it was applied"
    return [(None, StoreUnavailable(text)) for _ in batch]
