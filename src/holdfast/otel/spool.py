"""A bounded queue, and one thread that empties it: whatever an exporter does, no turn waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from holdfast.containment import contained_call

MOST_WAITING: Final = 10_000
IDLE_SECONDS: Final = 5.0


class Spool:
    """Does work on a thread of its own, in order. ``dropped`` is called for what finds no place.

    The thread begins with the first work and ends when there has been none for a while, so a process that traces
    nothing has none. It is a daemon: a process that ends does not wait for an exporter that hangs.
    """

    def __init__(self, dropped: Callable[[], None]) -> None:
        self._dropped = dropped
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._runs = False

    def put(self, work: Callable[[], None]) -> None:
        """Have it done. It is dropped if too much waits, or if no thread can start."""
        if self._queue.qsize() >= MOST_WAITING:
            self._dropped()
            return
        self._queue.put(work)
        if not self._runs:
            self._begin()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was put before is done. Returns false if the time is up first."""
        if self._queue.empty() and not self._runs:
            return True
        done = threading.Event()
        self.put(done.set)
        return done.wait(timeout_seconds)

    def _begin(self) -> None:
        with self._lock:
            if self._runs:
                return
            self._runs = True
            try:
                threading.Thread(target=self._run, name="holdfast-spans", daemon=True).start()
            except RuntimeError:  # the system has no thread to give: what waits is taken by the next one, or dropped
                self._runs = False

    def _ends(self) -> bool:
        """Whether the thread may end. It says so before it looks for the last time: what is put after that look finds
        that no thread runs, and begins one.
        """
        with self._lock:
            self._runs = False
            self._runs = not self._queue.empty()
            return not self._runs

    def _run(self) -> None:
        while True:
            try:
                work = self._queue.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._ends():
                    return
                continue
            try:
                contained_call(work)
            except Exception:  # noqa: BLE001 - a processor or an exporter of the user's; the next span may be taken
                self._dropped()
