"""A worker of a story, as the story sees it: a process that strikes itself at a point, and may be resumed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Final

import msgspec

from holdfast.chaos.points import PART, Part
from holdfast.crew.process import Child, Said

CODE: Final = "holdfast.chaos.worker:app"
RESUME_SECONDS: Final = 0.3


class Worker(Child):
    """``holdfast run`` in a process of its own."""

    async def struck(self) -> Said:
        """What it says when its fault happens."""
        return await self.heard(lambda said: "struck" in said)

    async def resume(self) -> None:
        """SIGCONT, until it says that it continues: a stop signal may arrive after it."""
        while not self._has_said("resumed"):
            self.send(signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RESUME_SECONDS):
                    await self.fact("resumed")

    async def stop(self) -> None:
        """Ask it to end, and wait; one that does not listen, or is stopped by its signal, is killed."""
        if self._has_said("struck") and not self._has_said("resumed"):
            self.kill()
        await super().stop()

    def _has_said(self, name: str) -> bool:
        return any(name in said for said in self.said)


async def at_work(name: str, part: Part, code: str) -> Worker:
    """A worker with a part to play, when it is at work. Raises ``ConfigurationError`` if it ends before that."""
    options = ("--supervised", "--json", "--grace", "5s")
    environment = {PART: msgspec.json.encode(part).decode()}
    log = Path(part.folder) / f"worker-{name}.log"
    worker = await Worker.start(f"worker {name}", log, "holdfast.cli", "run", code, *options, **environment)
    try:
        await worker.heard(lambda said: said.get("event") == "ready")
    except BaseException:
        worker.kill()
        await worker.stop()
        raise
    return worker
