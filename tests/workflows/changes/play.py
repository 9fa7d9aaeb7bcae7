"""An execution that begins on old code, is interrupted at one point, and goes on with new code: what must hold then.

Changed code continues right, or it is blocked and the old code goes on as if nothing had been (G13).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from tests.sqlite_database import SqliteDatabase
from tests.workflows.changes.helped import Helped
from tests.workflows.changes.parts import Book, Kit, Part

import holdfast as hf
from holdfast.errors import HoldfastError
from holdfast.items import HEAD, Item
from holdfast.replay.entries import Done, Entry, Failed, Intended, Pending, Tried
from holdfast.testing.faults import NO_FAULTS, CrashAfter, CrashBefore, FaultPlan, FaultsAt, WriteFault
from holdfast.testing.oracles import operations_of
from holdfast.testing.process import Process, ProcessDied
from holdfast.testing.virtual_time import run_virtual
from holdfast.testing.world import Database, MemoryDatabase, User, World, is_execution, swift
from holdfast.workflows.record import BLOCKED, ENDED, decode_record

EXECUTION = "wf#job#j"
LIMITS = replace(swift(), linger_seconds=0.0, near_seconds=0.0, resident=0)
"""Nothing stays in memory: every wait is a suspension, and ends in a replay."""

LOOK_SECONDS = 5.0
PATIENCE_SECONDS = 7_200.0
LAST_MESSAGE_SECONDS = 400.0
"""By then all messages have come, and whoever is blocked stays so."""


class End(StrEnum):
    """How it goes on with an execution under new code."""

    CONTINUED = "continued"
    BLOCKED = "blocked"
    OVER = "over"  # it had ended before


def on_sqlite(folder: Path) -> Database:
    """A database that has transactions of its own."""
    return SqliteDatabase(folder)


class Row(Struct, frozen=True, kw_only=True):
    """A change of code. ``messages``: when (seconds), the name of a signal ("" asks to stop), its value.

    ``results`` are right as well as what the new code makes of a new execution. ``removed`` are the labels that the new
    code declares that it does without, ``anew`` those that it does again on purpose: a step by another name is another
    step, and so is one more call that no earlier code has passed. ``lacks`` are steps whose functions the new code does
    not have any more. ``ends``: how it may go on, and does at one point at least.
    """

    name: str
    old: Part
    new: Part
    ends: frozenset[End]
    messages: tuple[tuple[float, str, str], ...] = ()
    results: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    database: Callable[[Path], Database] = lambda _folder: MemoryDatabase()


class StopAt(FaultsAt):
    """A process to which nothing happens, but that is told to stop in good order while a write is under way."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._number = number

    def on_write(self, number: int) -> None:
        if number >= self._number:
            self.reached.set()


class Outcome(Struct, frozen=True):
    """What one play amounts to."""

    end: End
    result: str
    writes: int
    wrong: list[str]


class Play:
    """One execution, from its start on old code to its end. Made and used inside ``run_virtual``."""

    def __init__(self, row: Row, folder: Path) -> None:
        self.row = row
        self.book = Book()
        self._release, self._part = "old", row.old
        self.world = World(self._build, limits=LIMITS, database=row.database(folder))

    def deploy(self, release: str, part: Part) -> None:
        """Processes that start from now on have this code."""
        self._release, self._part = release, part

    def _build(self, app: hf.App, _ledger: Any) -> User:
        lacks = self.row.lacks if self._release == "new" else ()
        kit, part = Kit(app, self.book, self._release, lacks), self._part

        async def job() -> Any:
            return await part(kit)

        workflow = (
            app.workflow(name="job")(part.body(kit))
            if isinstance(part, Helped)
            else app.workflow(name="job", version=self._release)(job)
        )

        async def user() -> None:
            handle = await workflow.start(id="j")
            began = asyncio.get_running_loop().time()
            for at, name, value in self.row.messages:
                await asyncio.sleep(began + at - asyncio.get_running_loop().time())
                with suppress(HoldfastError):
                    await (handle.signal(name, value, id=value) if name else handle.cancel())
            await asyncio.sleep(began + LAST_MESSAGE_SECONDS - asyncio.get_running_loop().time())
            for place, token in enumerate(dict.fromkeys(self.book.tokens)):
                with suppress(HoldfastError):
                    await app.callback(token).complete(f"answer {place}")

        return user

    async def head(self) -> Item | None:
        return next((each for each in await self._items() if each.sort == HEAD), None)

    async def _items(self) -> list[Item]:
        return [each for each in await self.world.database.items() if each.partition == EXECUTION]

    async def worked_on(self, plan: FaultPlan = NO_FAULTS) -> Process:
        """One process on the code of now works until the execution has ended or is blocked, or something happens."""
        process = self.world.admit(plan)
        with suppress(ProcessDied):
            await process.start()
        over = asyncio.create_task(self._over())
        reached = [asyncio.create_task(plan.reached.wait())] if isinstance(plan, StopAt) else []
        await asyncio.wait({over, process.died, *reached}, return_when=asyncio.FIRST_COMPLETED)
        for task in (over, *reached):
            task.cancel()
        if not process.dead:
            with suppress(ProcessDied):
                await process.stop()
        return process

    async def _over(self) -> None:
        """Wait until the execution has ended, or is blocked after all messages have come."""
        now = asyncio.get_running_loop().time
        until = now() + PATIENCE_SECONDS
        while now() < until:
            head = await self.head()
            is_blocked = head is not None and head.status == BLOCKED and now() > LAST_MESSAGE_SECONDS
            if is_blocked or (head is not None and head.status in ENDED):
                return
            await asyncio.sleep(LOOK_SECONDS)
        self.book.wrong.append(f"the {self._release} code does not come to its end")

    async def entries(self) -> list[Entry]:
        items, head = await self._items(), await self.head()
        return [] if head is None else [*operations_of(items, head), *decode_record(head.body).notes]

    async def result(self) -> str:
        head = await self.head()
        assert head is not None
        record = decode_record(head.body)
        told = f"{head.status} {bytes(record.result).decode()}"
        return told if record.error is None else f"{told} {record.error.type}: {record.error.message}"


def known_ops(entries: list[Entry]) -> set[str]:
    """The operations that are recorded in any way."""
    found: set[str] = set()
    for entry in entries:
        match entry:
            case Done(op=op) | Failed(op=op) | Tried(op=op) | Intended(op=op):
                found.add(op)
            case Pending(operations=operations):
                found.update(operations)
            case _:
                pass
    return found


class Right(Struct, frozen=True):
    """The right results, if the old code ends it, or the new code."""

    olds: tuple[str, ...]
    news: tuple[str, ...]


# ── One play ────────────────────────────────────────────────────────────────────────────────────────────────────────


def undisturbed(row: Row, part: Part, folder: Path) -> Outcome:
    """What a body makes of an execution that nothing happens to."""
    return run_virtual(lambda: _undisturbed(row, part, folder))


async def _undisturbed(row: Row, part: Part, folder: Path) -> Outcome:
    play = Play(row, folder)
    play.deploy("old", part)
    client = await play.world.client()
    user = asyncio.create_task(client.call(client.user))
    process = await play.worked_on()
    user.cancel()
    outcome = Outcome(End.OVER, await play.result(), process.wire.writes, list(play.book.wrong))
    await play.world.close()
    return outcome


def interrupted(row: Row, plan: Callable[[], FaultPlan], right: Right, folder: Path) -> Outcome:
    """What becomes of an execution whose first process ends by a plan, when the new code comes after it."""
    return run_virtual(lambda: _interrupted(row, plan(), right, folder))


async def _interrupted(row: Row, plan: FaultPlan, right: Right, folder: Path) -> Outcome:
    play = Play(row, folder)
    client = await play.world.client()
    user = asyncio.create_task(client.call(client.user))
    first = await play.worked_on(plan)
    head, recorded = await play.head(), await play.entries()
    if head is not None and head.status in ENDED:
        end = End.OVER
    else:
        end = await _go_on(play, first, recorded, right)
    user.cancel()
    outcome = Outcome(end, await play.result(), first.wire.writes, list(play.book.wrong))
    await play.world.close()
    return outcome


async def _go_on(play: Play, first: Process, recorded: list[Entry], right: Right) -> End:
    before = list(play.book.effects)
    play.deploy("new", play.row.new)
    await play.worked_on()
    head = await play.head()
    assert head is not None
    if head.status in ENDED:
        result = await play.result()
        if result not in right.news:
            play.book.wrong.append(f"the new code ends with {result}, not one of {right.news}")
        finished = {each.op for each in recorded if isinstance(each, (Done, Failed))}
        own = {each.label for each in before if each.execution == "job#j" and each.op in finished}
        lost = own - play.book.asked["new"] - set(play.row.removed)
        play.book.wrong += [f"{label} was finished, and is lost" for label in lost if not label.startswith("not ")]
        end = End.CONTINUED
    elif head.status == BLOCKED:
        await _roll_back(play, recorded, right)
        end = End.BLOCKED
    else:
        end = End.BLOCKED
    await _require_one_key(play, known_ops(recorded) if first.dead else None)
    return end


async def _roll_back(play: Play, recorded: list[Entry], right: Right) -> None:
    """The old code goes on. If the new code has done more meanwhile, it is told that it does without that."""
    since = known_ops(await play.entries()) - known_ops(recorded)
    old = play.row.old

    async def back(kit: Kit) -> Any:
        hf.removed(*since)
        return await old(kit)

    play.deploy("old", old)
    await play.worked_on()
    head = await play.head()
    if since and head is not None and head.status == BLOCKED:
        play.deploy("back", back)
        await play.worked_on()
    if (result := await play.result()) not in right.olds:
        play.book.wrong.append(f"rolled back, the old code ends with {result}, not one of {right.olds}")


async def _require_one_key(play: Play, known: set[str] | None) -> None:
    """Nothing was done under two keys. What a process that died had just begun, and nobody knows of, is excused."""
    parents = {
        each.partition.removeprefix("wf#"): parent.op
        for each in await play.world.database.items()
        if is_execution(each) and (parent := decode_record(each.body).parent) is not None
    }
    for label, keys in play.book.keys().items():
        places = [(each.key, parents.get(each.execution, each.op)) for each in play.book.effects if each.label == label]
        _, old_op = places[0]
        if len(keys) > 1 and (known is None or old_op in known) and label not in play.row.anew:
            play.book.wrong.append(f"{label} was done under {len(keys)} keys, for {sorted({op for _, op in places})}")


# ── All points of a row ─────────────────────────────────────────────────────────────────────────────────────────────


def plans_of(writes: int) -> list[tuple[str, Callable[[], FaultPlan]]]:
    """Every place at which the first process can end."""

    def crash(number: int, fault: WriteFault) -> Callable[[], FaultPlan]:
        return lambda: FaultsAt({number: fault})

    found: list[tuple[str, Callable[[], FaultPlan]]] = []
    for number in range(1, writes + 1):
        found.append((f"stopped at write {number}", lambda number=number: StopAt(number)))  # type: ignore[misc]
        found.append((f"died before write {number}", crash(number, CrashBefore())))
        found.append((f"died after write {number}", crash(number, CrashAfter())))
    return found


class Tally(Struct):
    """What became of a row at all its points."""

    row: Row
    ends: dict[End, int]
    wrong: list[str]

    def __str__(self) -> str:
        told = ", ".join(f"{count} {end}" for end, count in self.ends.items() if count)
        return f"{self.row.name}: {told}"


def played(row: Row, folder: Path) -> Tally:
    """Try a row at every point of its old run."""
    old, new = undisturbed(row, row.old, folder), undisturbed(row, row.new, folder)
    tally = Tally(row, dict.fromkeys(End, 0), [*old.wrong, *new.wrong])
    right = Right((old.result, *row.results), (new.result, *row.results))
    for point, plan in plans_of(old.writes):
        outcome = interrupted(row, plan, right, folder)
        tally.ends[outcome.end] += 1
        tally.wrong += [f"{point}: {each}" for each in outcome.wrong]
    return tally
