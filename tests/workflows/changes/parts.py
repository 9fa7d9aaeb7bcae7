"""Bodies, put together of parts, so that an old and a new one stand beside each other in one row.

A part is a function of a ``Kit`` that answers what a body awaits. Every call carries a label of its own. What it does
is noted under that label, and so is what the body asked for and got back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from datetime import datetime
from typing import Any

from msgspec import Struct

import holdfast as hf
from holdfast.errors import Terminal
from holdfast.testing.virtual_time import current_scope

RETRY = hf.Retry(max_attempts=3, initial="60s", jitter=hf.Jitter.NONE)
STEP_SECONDS = 1


class Effect(Struct, frozen=True):
    """Something that happened to the world: what, under which key, and for which operation of which execution."""

    label: str
    key: str
    execution: str
    op: str


class Book:
    """What happens in one play, in all its processes."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.wrong: list[str] = []
        self.tokens: list[str] = []
        self.waited: set[tuple[str, float]] = set()
        self.asked: dict[str, set[str]] = {}

    def effect(self, label: str) -> None:
        process: Any = current_scope.get()
        if process is None or process.dead:
            return
        info: Any = hf.current()
        self.effects.append(Effect(label, info.idempotency_key, f"{info.workflow}#{info.id}", info.operation))

    def keys(self) -> dict[str, set[str]]:
        """The keys under which each thing was done."""
        found: dict[str, set[str]] = {}
        for effect in self.effects:
            found.setdefault(effect.label, set()).add(effect.key)
        return found


class Kit:
    """What a body uses in one release: its steps and children, registered with the app of one process.

    ``lacks`` are steps that the release has no function of.
    """

    def __init__(self, app: hf.App, book: Book, release: str, lacks: Container[str] = ()) -> None:
        self.book = book
        self._asked = book.asked.setdefault(release, set())
        self._calls: dict[str, Any] = {}
        for name in ("do", "other", "third"):
            if name in lacks:
                continue
            self._calls[name] = app.step(name=name, retry=RETRY)(self._doing())
        self._calls["once"] = app.step(name="once", at_most_once=True)(self._doing())
        self._calls["flaky"] = app.step(name="flaky", retry=RETRY)(self._flaky())
        self._calls["reserve"] = reserve = app.step(name="reserve", retry=RETRY)(self._doing())
        reserve.undo(self._undoing())
        self._calls["ask"] = app.step(name="ask", retry=RETRY)(self._asking())
        self._calls["pay"] = app.transaction(name="pay", retry=RETRY)(self._paying())
        self._calls["kid"] = app.workflow(name="kid", version="1")(self._child())

    def _doing(self) -> Callable[[str], Awaitable[str]]:
        async def perform(label: str) -> str:
            await asyncio.sleep(STEP_SECONDS)
            self.book.effect(label)
            if label.startswith("bad"):
                raise Terminal(label)
            return f"{label}!"

        return perform

    def _undoing(self) -> Callable[[str], Awaitable[None]]:
        async def undo(label: str) -> None:
            await asyncio.sleep(STEP_SECONDS)
            self.book.effect(f"not {label}")

        return undo

    def _flaky(self) -> Callable[[str], Awaitable[str]]:
        async def attempt(label: str) -> str:
            info: Any = hf.current()
            await asyncio.sleep(STEP_SECONDS)
            self.book.effect(label)
            if info.attempt < 2:
                raise ConnectionError("not yet")
            return f"{label}!"

        return attempt

    def _paying(self) -> Callable[[hf.SqlCursor, str], str]:
        def pay(cursor: hf.SqlCursor, label: str) -> str:
            cursor.execute("CREATE TABLE IF NOT EXISTS paid (label TEXT UNIQUE)")
            cursor.execute("INSERT INTO paid VALUES (?)", (label,))
            return f"{label}!"

        return pay

    def _asking(self) -> Callable[[str, str], Awaitable[str]]:
        async def ask(label: str, token: str) -> str:
            self.book.effect(label)
            self.book.tokens.append(token)
            return f"{label}!"

        return ask

    def _child(self) -> Callable[[str], Awaitable[str]]:
        async def kid(label: str) -> str:
            return str(await self._calls["do"](label))

        return kid

    async def call(self, name: str, label: str, *more: str) -> str:
        """One call of a step or child. It has to answer what was done for this very call."""
        self._asked.add(label)
        value = str(await self._calls[name](label, *more))
        if value != f"{label}!":
            self.book.wrong.append(f"{label} got the value of another call: {value}")
        return value

    def lasted(self, what: str, seconds: float, began: datetime) -> None:
        """Nothing that waits may be over before its time (G8), unless it was over before it was moved."""
        passed = (hf.now() - began).total_seconds()
        if passed >= seconds:
            self.book.waited.add((what, seconds))
        elif (what, seconds) not in self.book.waited:
            self.book.wrong.append(f"{what} of {seconds} s was over after {passed} s")

    async def item(self, label: str) -> str:
        """A call of the body's, for an item of a map."""
        return await self.call("do", label)


Part = Callable[[Kit], Awaitable[Any]]


def do(label: str, name: str = "do") -> Part:
    """A step (by its name), or a child, or another thing that is called with a label."""
    return lambda kit: kit.call(name, label)


def seq(*parts: Part) -> Part:
    async def run(kit: Kit) -> list[Any]:
        return [await part(kit) for part in parts]

    return run


def gather(*parts: Part) -> Part:
    async def run(kit: Kit) -> list[Any]:
        return list(await asyncio.gather(*(part(kit) for part in parts)))

    return run


def group(*parts: Part) -> Part:
    async def run(kit: Kit) -> list[Any]:
        async def one(part: Part) -> Any:
            return await part(kit)

        async with asyncio.TaskGroup() as tasks:
            begun = [tasks.create_task(one(part)) for part in parts]
        return [task.result() for task in begun]

    return run


def mapped(*labels: str, concurrency: int) -> Part:
    async def run(kit: Kit) -> list[Any]:
        return [*(await hf.map(kit.item, labels, concurrency=concurrency))]

    return run


def sleep(seconds: float) -> Part:
    async def run(kit: Kit) -> str:
        began = hf.now()
        await hf.sleep(f"{seconds}s")
        kit.lasted("a sleep", seconds, began)
        return "slept"

    return run


def timeout(seconds: float, part: Part) -> Part:
    async def run(kit: Kit) -> Any:
        began = hf.now()
        try:
            async with asyncio.timeout(seconds):
                return await part(kit)
        except TimeoutError:
            kit.lasted("a timeout", seconds, began)
            return "timed out"

    return run


def go(name: str = "go", timeout: float | None = None) -> Part:
    async def run(kit: Kit) -> str:
        began = hf.now()
        try:
            return await hf.signal(name, str, timeout=None if timeout is None else f"{timeout}s")
        except TimeoutError:
            kit.lasted("a signal's timeout", timeout or 0, began)
            return "no signal"

    return run


def poll(label: str, every: str) -> Part:
    """Ask until a condition holds, which it does the third time."""

    async def run(kit: Kit) -> Any:
        rounds = 0

        async def look() -> bool:
            nonlocal rounds
            rounds += 1
            await kit.call("do", f"{label}{rounds}")
            return rounds == 3

        return await hf.poll(every=every)(look)

    return run


def answered(label: str, name: str = "answer") -> Part:
    async def run(kit: Kit) -> str:
        answer = hf.callback(str, name=name)
        await kit.call("ask", label, answer.token)
        return str(await answer)

    return run


def patched(name: str, new: Part, old: Part) -> Part:
    async def run(kit: Kit) -> Any:
        return await (new(kit) if hf.patched(name) else old(kit))

    return run


def removed(*names: str) -> Part:
    async def run(kit: Kit) -> str:
        hf.removed(*names)
        return "removed"

    return run


def saga(*parts: Part) -> Part:
    async def run(kit: Kit) -> Any:
        async with hf.saga():
            return [await part(kit) for part in parts]

    return run


def caught(part: Part, then: Part) -> Part:
    """What happens if a part fails, or is cancelled."""

    async def run(kit: Kit) -> Any:
        try:
            return await part(kit)
        except (Exception, asyncio.CancelledError):
            return ["caught", await then(kit)]

    return run


def cleaned(part: Part, clean: Part) -> Part:
    async def run(kit: Kit) -> Any:
        try:
            return await part(kit)
        finally:
            await clean(kit)

    return run


def raced(*parts: Part) -> Part:
    """The first of them; the others are given up."""

    async def run(kit: Kit) -> Any:
        tasks = [asyncio.ensure_future(part(kit)) for part in parts]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return [task.result() for task in tasks if task in done]

    return run
