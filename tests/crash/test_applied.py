"""Messages that nobody awaits, more than a head has room for: faults at each write, and bugs that these find (G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.actors.turn import applied, commit, look_ahead, replies, stages
from holdfast.testing import Ledger, Scenario, crash_at_every_write
from holdfast.testing.faults import Delay, FailBefore, LoseAnswer

MESSAGES = 8
MOST_RECENT = 2

pytestmark = pytest.mark.usefixtures("billed", "small_heads")


@pytest.fixture
def small_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages have room in a head."""
    monkeypatch.setattr(applied, "MOST_RECENT", MOST_RECENT)


def flood(app: hf.App, ledger: Ledger) -> Any:
    """Messages that come together, and some that come later. A sender that gets no answer sends its message again; one
    that dies has not kept which messages it has sent, so none does.
    """

    class Log(hf.Actor, app=app):
        lines: int = 0

        async def write(self, line: int) -> None:
            ledger.effect(line, key=f"line {line}")
            self.lines += 1

        async def count(self) -> int:
            return self.lines

    async def user() -> int:
        for first in (0, MESSAGES):
            await asyncio.gather(*(hf.send(Log.at("l").write, first + number) for number in range(MESSAGES)))
        while (lines := await Log.at("l").count()) < 2 * MESSAGES:
            await asyncio.sleep(1)
        await asyncio.sleep(60)  # what is sent again has come by then
        return max(lines, await Log.at("l").count())

    return user


FLOOD = Scenario("a flood of messages", flood)
OUTAGES = (LoseAnswer(), FailBefore(), Delay(before_seconds=20.0))


def test_an_answer_that_is_lost_or_late_applies_no_message_twice() -> None:
    assert crash_at_every_write(FLOOD, OUTAGES).points > 0


# ── Bugs that these must find ───────────────────────────────────────────────────────────────────────────────────────


def unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit writes no page."""
    monkeypatch.setattr(commit, "page_of", lambda *_what: ())


def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are not looked into, neither for one message nor for many."""

    async def on_pages(*_what: Any) -> frozenset[str]:
        return frozenset()

    for each in (replies, look_ahead):
        monkeypatch.setattr(each, "on_pages", on_pages)


def all_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of messages that wait together none is looked for."""

    async def unanswered(actor: Any, _store: Any) -> set[str]:
        return {each.call.id for each in actor.queue.mail}

    monkeypatch.setattr(stages, "unanswered", unanswered)


@pytest.mark.parametrize("plant", [unwritten, unread, all_unanswered], ids=lambda each: each.__doc__)
def test_it_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="the user got"):
        crash_at_every_write(FLOOD, (LoseAnswer(),))
