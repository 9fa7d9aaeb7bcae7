"""The spool: whatever is put is done, and its thread ends when nothing comes."""

from __future__ import annotations

import queue
import threading

import pytest

from holdfast.otel import spool as spools
from holdfast.otel.spool import Spool

LONGEST_SECONDS = 60


class Late(queue.SimpleQueue):
    """Once, ``meanwhile`` happens after the thread has looked for the last time, and found nothing."""

    meanwhile = None

    def empty(self) -> bool:
        found, meanwhile = super().empty(), self.meanwhile
        if meanwhile is not None:
            self.meanwhile = None
            meanwhile()
        return found


class Watched(Spool):
    """``begins`` is called before a thread may be begun."""

    begins = staticmethod(lambda: None)

    def _begin(self) -> None:
        self.begins()
        super()._begin()


def test_what_comes_as_the_thread_ends_is_done_too(monkeypatch):
    monkeypatch.setattr(spools, "IDLE_SECONDS", 0.001)
    spool, first, second, put = Watched(dropped=list), threading.Event(), threading.Event(), threading.Event()
    spool._queue = late = Late()

    def put_second() -> None:
        spool.put(second.set)
        put.set()

    def meanwhile() -> None:
        spool.begins = put.set  # it has seen that no thread runs, and waits for us
        threading.Thread(target=put_second).start()
        assert put.wait(LONGEST_SECONDS)

    spool.put(first.set)
    assert first.wait(LONGEST_SECONDS)
    late.meanwhile = meanwhile
    assert second.wait(LONGEST_SECONDS), "nothing else is ever put"


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_what_an_exporter_raises_costs_its_span_and_not_the_thread(error):
    dropped = []
    spool = Spool(dropped=lambda: dropped.append(1))

    def fail() -> None:
        raise error

    spool.put(fail)
    assert spool.flush(LONGEST_SECONDS)
    assert dropped == [1]
