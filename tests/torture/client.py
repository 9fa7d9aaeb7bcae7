"""One client process. Two of them do the same at the same time: start, signal, answer, cancel, wait (G11).

A client may be killed anywhere too. When it comes back it does everything again that it has not seen end, so every
start, signal and answer is made several times, and must count once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from tests.torture import shop
from tests.torture.die_with_parent import die_with_parent
from tests.torture.expect import arguments_of, ending_of, id_of, kind_of
from tests.torture.points import tell
from tests.torture.shop import app, ledger

import holdfast as hf

IN_FLIGHT: Final = 40
PEEK_SECONDS: Final = 0.05

Handle = hf.Handle[Any]


class Client:
    """``place`` tells the two apart; ``rate`` executions begin per second, counted from ``epoch`` on the wall clock."""

    def __init__(self, place: int, epoch: float, rate: float) -> None:
        self._place = place
        self._epoch = epoch
        self._rate = rate
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._enough = asyncio.Event()

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._enough.set)
        verified = ledger().verified(self._place)
        async with app, asyncio.TaskGroup() as tasks:
            tell(working=True)
            number = 0
            while not self._enough.is_set():
                if id_of(number) not in verified:
                    await self._until(self._epoch + number / self._rate)
                    await self._room.acquire()
                    if self._enough.is_set():
                        break
                    tasks.create_task(self._drive(number))
                number += 1

    async def _until(self, moment: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._enough.wait(), max(0.0, moment - time.time()))

    async def _drive(self, number: int) -> None:
        id = id_of(number)
        try:
            handle = await self._start(number)
            await ACTIONS.get(kind_of(number), _nothing)(self._place, id, handle)
            await self._see_the_end(number, handle)
            ledger().verify(self._place, id)
        except Exception:
            ledger().violation("client", f"client {self._place}, {id}: {traceback.format_exc()}")
        finally:
            self._room.release()

    async def _start(self, number: int) -> Handle:
        id, kind = id_of(number), kind_of(number)
        workflow = app.registry.workflow(kind)
        handle = await workflow.start(*arguments_of(number), id=id)
        ledger().accept(id, kind, number)
        if number % 5 == self._place:
            try:
                await workflow.start(*arguments_of(number, other=True), id=id)
                ledger().violation("client", f"{id} was started with another input (G11)")
            except hf.IdempotencyMismatch:
                ledger().mismatched(id)
        return handle

    async def _see_the_end(self, number: int, handle: Handle) -> None:
        try:
            await handle.result()
            status = "COMPLETED"
        except hf.ExecutionError as error:
            status = STATUS_OF[type(error)]
        if status != ending_of(number).status:
            ledger().violation("client", f"{id_of(number)} was seen to end as {status}")


STATUS_OF: Final[dict[type[hf.ExecutionError], str]] = {
    hf.ExecutionFailed: "FAILED",
    hf.ExecutionCancelled: "CANCELLED",
    hf.ExecutionTerminated: "TERMINATED",
    hf.ExecutionTimedOut: "TIMED_OUT",
    hf.CompensationFailed: "COMPENSATION_FAILED",
}


# ── What clients do beside starting and waiting ─────────────────────────────────────────────────────────────────────


async def _nothing(_place: int, _id: str, _handle: Handle) -> None:
    pass


async def _signal_in_order(name: str, place: int, id: str, handle: Handle) -> None:
    """0, 1, 2: from both clients, and from one of them twice. The receiver must see each once, in order (G5, G6)."""
    for value in range(3):
        for _ in range(1 + place):
            await handle.signal(name, value, id=f"{id}/{name}/{value}")


async def _approve(place: int, id: str, handle: Handle) -> None:
    await _if_open(_signal_in_order("note", place, id, handle))
    token = await _token_of(id)
    for _ in range(2):
        said = f"said by {place}"
        try:
            await app.callback(token).complete(said)
            ledger().answered(id, said, "taken")
        except hf.InvalidToken:
            ledger().answered(id, said, "late")


async def _token_of(id: str) -> str:
    while True:
        if token := ledger().token(id):
            return token
        await asyncio.sleep(PEEK_SECONDS)


async def _tick(place: int, id: str, handle: Handle) -> None:
    await _if_open(_signal_in_order("tick", place, id, handle))


async def _pause(place: int, _id: str, handle: Handle) -> None:
    """Both pause and resume as they like; whoever comes last resumes."""
    if int(handle.id.partition("-")[2]) % 3 == 0:
        await asyncio.sleep(0.05)
        await _if_open(handle.pause())
        await asyncio.sleep(0.1 * (1 + place))
        await _if_open(handle.resume())


async def _terminate(_place: int, _id: str, handle: Handle) -> None:
    await asyncio.sleep(0.4)
    await _if_open(handle.terminate("by the client"))


async def _cancel(_place: int, _id: str, handle: Handle) -> None:
    await asyncio.sleep(0.2)
    await _if_open(handle.cancel("by the client"))


async def _if_open(doing: Awaitable[None]) -> None:
    """The other client may have been faster; that it was not there at all would be a lost execution (G1)."""
    with suppress(hf.InvalidState):
        await doing


ACTIONS: Final[dict[str, Callable[[int, str, Handle], Awaitable[None]]]] = {
    "approval": _approve,
    "rolling": _tick,
    "order": _pause,
    "doomed": _terminate,
    "recalled": _cancel,
}


if __name__ == "__main__":
    die_with_parent()
    logging.basicConfig(level=logging.WARNING)
    os.environ.setdefault(shop.FOLDER, ".")
    asyncio.run(Client(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])).run())
