"""State: every type that is typed JSON, kept exactly; all of a call or nothing of it (G4); readers beside a writer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from dataclasses import field as part
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, TypedDict
from uuid import UUID

import pytest
from msgspec import Struct

import holdfast as hf


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    sku: str
    price: Decimal
    tags: set[str] = part(default_factory=set)


class Point(Struct, frozen=True):
    x: int
    y: int


class Note(TypedDict):
    text: str
    at: datetime


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

EVERYTHING: list[tuple[Any, Any]] = [
    (int, 3),
    (float, 0.1),
    (bool, True),
    (str, "ü 🐚"),
    (bytes, b"\x00\xff"),
    (Decimal, Decimal("1.10")),
    (datetime, NOON),
    (date, date(2026, 2, 28)),
    (timedelta, timedelta(minutes=5)),
    (UUID, UUID(int=7)),
    (Colour, Colour.BLUE),
    (Literal["a", "b"], "b"),
    (int | None, None),
    (str | int, 9),
    (list[Line], [Line("s", Decimal("0.5"), {"x", "y"})]),
    (dict[str, Point], {"p": Point(1, 2)}),
    (tuple[int, ...], (1, 2)),
    (set[int], {3, 1, 2}),
    (Note, {"text": "t", "at": NOON}),
    (dict[UUID, list[Decimal]], {UUID(int=1): [Decimal(1)]}),
]


def holder(app: hf.App, hint: Any, default: Any) -> Any:
    async def put(self: Any, value: Any) -> None:
        self.value = value

    async def get(self: Any) -> Any:
        return self.value

    put.__annotations__ = {"value": hint, "return": None}
    get.__annotations__ = {"return": hint}
    body = {"__annotations__": {"value": hint}, "value": default, "put": put, "get": get, "peek": hf.read(get)}
    return type("Holder", (hf.Actor,), body, app=app)


@pytest.mark.parametrize(("hint", "value"), EVERYTHING, ids=[str(hint) for hint, _ in EVERYTHING])
async def test_a_field_of_any_type_comes_back_exactly_also_in_another_process(world, hint, value):
    default = hf.field(default_factory=lambda: value)
    app = world.app()
    one = holder(app, hint, default)
    async with app.worker():
        assert await one.at("k").get() == value
        await one.at("k").put(value)
        assert await one.at("k").get() == value
    app = world.app()
    other = holder(app, hint, default)
    async with app.worker():
        found = await other.at("k").peek()
    assert found == value
    assert type(found) is type(value)


def declare(app):
    @app.step
    async def note(text: str) -> str:
        return text

    @app.workflow
    async def follow_up(text: str) -> str:
        return await note(text)

    class Log(hf.Actor, app=app):
        lines: list[str] = hf.field(default_factory=list)

        async def append(self, line: str) -> None:
            self.lines.append(line)

        @hf.read
        async def all(self) -> list[str]:
            return self.lines

    class Box(hf.Actor, app=app):
        items: dict[str, int] = hf.field(default_factory=dict)
        n: int = 0
        reached: Any = None

        async def add(self, sku: str, n: int = 1) -> int:
            self.items[sku] = self.items.get(sku, 0) + n
            self.n += 1
            return self.n

        async def spoil(self, error: str) -> None:
            self.items["bad"] = 1
            self.items.pop("good", None)
            self.n = -1
            self.ring.after("1ms")
            await hf.send(Log.at("log").append, "from a call that failed")
            await follow_up.start("x", id="never")
            if error == "result":
                return 7  # type: ignore[return-value]
            if error == "state":
                self.n = "seven"  # type: ignore[assignment]
                return None
            if error == "cancelled":
                raise asyncio.CancelledError
            raise ValueError(error)

        async def keep_the_timer(self) -> None:
            self.ring.after("1h")

        async def drop_the_timer(self) -> None:
            self.ring.cancel()
            raise ValueError("no")

        @hf.timer
        async def ring(self) -> None:
            await hf.send(Log.at("log").append, "rung")

        @hf.read
        async def contents(self) -> dict[str, int]:
            return self.items

        @hf.read
        async def due(self) -> bool:
            return self.ring.due_at is not None

    return Box, Log, follow_up


@pytest.mark.parametrize("error", ["plain", "result", "state", "cancelled"])
async def test_a_call_that_fails_has_changed_set_sent_and_started_nothing(world, error):
    app = world.app()
    box, log, follow_up = declare(app)
    async with app.worker():
        await box.at("b").add("good")
        with pytest.raises((ValueError, hf.CallFailed)):
            await box.at("b").spoil(error)
        assert await box.at("b").contents() == {"good": 1}
        assert await box.at("b").add("good") == 2
        assert not await box.at("b").due()
        await log.at("log").append("later")  # behind everything that might have been sent
        assert await log.at("log").all() == ["later"]
        with pytest.raises(hf.NotFound):
            await follow_up.handle("never").status()
        status = await app.actor("Box", "b").status()
    assert status.state["n"] == 2
    assert status.timers == ()


async def test_a_timer_cancelled_by_a_call_that_fails_stays_set(world):
    app = world.app()
    box, _, _ = declare(app)
    async with app.worker():
        await box.at("b").keep_the_timer()
        with pytest.raises(ValueError, match="no"):
            await box.at("b").drop_the_timer()
        assert await box.at("b").due()
        assert [each.name for each in (await app.actor("Box", "b").status()).timers] == ["ring"]


async def test_what_a_call_sends_and_starts_happens_with_its_state(world):
    app = world.app()
    _, log, follow_up = declare(app)

    class Order(hf.Actor, app=app):
        placed: bool = False

        async def place(self) -> bool:
            self.placed = True
            await hf.send(log.at("log").append, "placed")
            handle = await follow_up.start("thanks", id="thanks-1")
            return handle.id == "thanks-1"

    async with app.worker():
        assert await Order.at("o").place()
        assert await follow_up.handle("thanks-1") == "thanks"
        await log.at("log").append("end")
        assert await log.at("log").all() == ["placed", "end"]


async def test_arguments_and_results_are_copies(world):
    app = world.app()

    class Shelf(hf.Actor, app=app):
        books: list[str] = hf.field(default_factory=list)

        async def put(self, books: list[str]) -> list[str]:
            self.books = books
            return self.books

        @hf.read
        async def all(self) -> list[str]:
            return self.books

    async with app.worker():
        mine = ["one"]
        answered = await Shelf.at("s").put(mine)
        mine.append("two")
        answered.append("three")
        (await Shelf.at("s").all()).append("four")
        assert await Shelf.at("s").all() == ["one"]


def reading(app):
    class Doc(hf.Actor, app=app):
        text: str = ""
        words: list[str] = hf.field(default_factory=list)

        async def write(self, text: str) -> None:
            self.text = "half " + text
            self.words.append(text)
            await self.pause()
            self.text = text

        async def pause(self) -> None: ...

        async def set(self, text: str) -> None:
            self.text = text

        @hf.read
        async def look(self) -> tuple[str, list[str]]:
            return self.text, self.words

        @hf.read
        async def look_slowly(self) -> tuple[str, list[str]]:
            before = self.text
            await self.pause()
            assert before == self.text
            return self.text, self.words

        @hf.read
        async def change(self) -> None:
            self.words.append("changed by a reader")

        @hf.read
        async def change_slowly(self) -> None:
            self.words.append("changed by a reader")
            await self.pause()

        @hf.read
        async def set_a_timer(self) -> None:
            self.nag.after("1s")

        @hf.read
        async def cancel_a_timer(self) -> None:
            self.nag.cancel()

        @hf.read
        async def send(self) -> None:
            await hf.send(Doc.at("other").set, "sent by a reader")

        @hf.read
        async def call(self) -> None:
            await Doc.at("other").set("called by a reader")

        @hf.read
        async def read_another(self) -> str:
            return (await Doc.at("other").look())[0]

        @hf.timer
        async def nag(self) -> None: ...

    return Doc


async def test_readers_beside_a_suspended_writer_see_only_what_is_committed(world, monkeypatch):
    app = world.app()
    doc = reading(app)
    paused, go = asyncio.Event(), asyncio.Event()

    async def pause(_self):
        paused.set()
        await go.wait()

    async with app.worker():
        await doc.at("d").set("old")
        monkeypatch.setattr(doc, "pause", pause)
        writer = asyncio.create_task(doc.at("d").write("new"))
        await paused.wait()
        assert await doc.at("d").look() == ("old", [])
        slow = asyncio.create_task(doc.at("d").look_slowly())
        await asyncio.sleep(0.01)
        go.set()
        await writer
        assert await slow == ("old", [])
        assert await doc.at("d").look() == ("new", ["new"])


@pytest.mark.parametrize("method", ["change", "set_a_timer", "cancel_a_timer", "send", "call"])
async def test_a_reader_can_change_nothing_here_or_elsewhere(world, method):
    app = world.app()
    doc = reading(app)
    async with app.worker():
        await doc.at("d").set("old")
        await doc.at("other").set("other")
        before = await app.actor("Doc", "d").status()
        with pytest.raises(hf.InvalidState, match="read"):
            await getattr(doc.at("d"), method)()
        assert await doc.at("d").look() == ("old", [])
        assert await doc.at("d").read_another() == "other"
        after = await app.actor("Doc", "d").status()
    assert (after.state, after.timers) == (before.state, before.timers)


async def test_a_reader_that_changes_something_spoils_it_for_nobody_else(world, monkeypatch):
    app = world.app()
    doc = reading(app)
    paused, go = asyncio.Event(), asyncio.Event()

    async def pause(_self):
        paused.set()
        await go.wait()

    async with app.worker():
        await doc.at("d").set("old")
        monkeypatch.setattr(doc, "pause", pause)
        spoiler = asyncio.create_task(doc.at("d").change_slowly())
        await paused.wait()
        assert await doc.at("d").look() == ("old", [])
        go.set()
        with pytest.raises(hf.InvalidState):
            await spoiler
        assert await doc.at("d").look() == ("old", [])


async def test_an_actor_that_was_never_called_reads_as_it_would_begin_and_is_not_made(world):
    app = world.app()
    doc = reading(app)
    async with app.worker():
        assert await doc.at("new").look() == ("", [])
        with pytest.raises(hf.NotFound):
            await app.actor("Doc", "new").status()


async def test_a_client_without_a_worker_reads_what_is_committed(world):
    app, client = world.app(), world.app()
    reading(app)
    doc = reading(client)
    async with app.worker(), client:
        await doc.at("d").set("from a client")
        assert await doc.at("d").look() == ("from a client", [])
