"""Several worker processes on one home: started, restarted when they die, and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Generator, Sequence
from typing import Final

from holdfast.clock import elapsed_seconds

FIRST_DELAY_SECONDS: Final = 0.1
LONGEST_DELAY_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 10.0
"""A worker that lived this long was no failed start: its successor starts after the first, short delay again."""

EXTRA_SECONDS: Final = 5.0
"""How much longer than two grace periods a worker may take to stop: it drains in two halves."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Report = Callable[..., None]


@contextlib.contextmanager
def handling(signals: Sequence[signal.Signals], handle: Callable[[], None]) -> Generator[None]:
    """Call ``handle`` for each of these signals, on the running loop."""
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def delay_seconds(failures: int) -> float:
    """How long to wait before the next start, after a number of failed starts in a row.

    >>> [delay_seconds(n) for n in (0, 1, 2, 20)]
    [0.1, 0.2, 0.4, 30.0]
    """
    return min(FIRST_DELAY_SECONDS * 2.0 ** min(failures, 20), LONGEST_DELAY_SECONDS)


class Supervisor:
    """Keeps ``count`` processes running, each by the ``command`` of its place (from 1), until SIGTERM, Ctrl-C or a
    lost terminal.

    Then each is asked once to stop gracefully; a second signal, or too long a wait, kills them at once. The end of its
    standard input tells a worker that its supervisor is gone. ``report(event, **fields)`` receives the events.
    """

    def __init__(
        self, command: Callable[[int], Sequence[str]], count: int, grace_seconds: float, report: Report
    ) -> None:
        self._command = command
        self._count = count
        self._patience_seconds = 2 * grace_seconds + EXTRA_SECONDS
        self._report = report
        self._stopping = asyncio.Event()
        self._processes: set[Process] = set()

    async def run(self) -> None:
        """Start, watch, and return when every process has ended."""
        with handling(SIGNALS, self.signalled):
            await self.keep()

    async def keep(self) -> None:
        """As ``run``, for a caller that passes signals on to ``signalled``."""
        patience: asyncio.TimerHandle | None = None
        try:
            async with asyncio.TaskGroup() as places:
                for place in range(1, self._count + 1):
                    places.create_task(self._keep(place))
                await self._stopping.wait()
                patience = asyncio.get_running_loop().call_later(self._patience_seconds, self._kill)
        finally:
            if patience is not None:
                patience.cancel()
            self._kill()

    def signalled(self) -> None:
        """Ask every process to stop; the second time, kill them."""
        if self._stopping.is_set():
            self._kill()
        else:
            self.stop()

    def stop(self) -> None:
        """Ask every process to stop; ``run`` returns when they have."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._report("stopping", pid=os.getpid())
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()

    def _kill(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    async def _keep(self, place: int) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = elapsed_seconds()
            code = await self._run_once(place)
            if self._stopping.is_set():
                return
            failures = 0 if elapsed_seconds() - began >= STEADY_SECONDS else failures + 1
            delay = delay_seconds(failures - 1 if failures else 0)
            self._report("worker_died", place=place, reason=describe_exit(code), restart_in_seconds=delay)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()

    async def _run_once(self, place: int) -> int:
        # A process group of its own: Ctrl-C in the terminal reaches only the supervisor, which then stops the workers
        # gracefully.
        process = await asyncio.create_subprocess_exec(*self._command(place), stdin=PIPE, process_group=0)
        self._processes.add(process)
        self._report("worker_started", place=place, pid=process.pid)
        if self._stopping.is_set():
            process.terminate()
        try:
            return await process.wait()
        finally:
            self._processes.discard(process)
            if self._stopping.is_set():
                self._report("worker_stopped", place=place, pid=process.pid)


def describe_exit(code: int) -> str:
    """How a process ended, from its return code.

    >>> describe_exit(-9), describe_exit(1)
    ('killed by SIGKILL', 'exit status 1')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
