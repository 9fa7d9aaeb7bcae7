"""Replies in the heads of actors, and on their way out of them: faults at each write, and bugs that these find (G5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.actors.turn import make_room, replies
from holdfast.testing import Report, Scenario, crash_at_every_write, lag_at_every_write, pause_at_every_write
from holdfast.testing.faults import Delay, FailBefore, LoseAnswer

REQUESTS = 9
"""More than a head has room for."""

pytestmark = pytest.mark.usefixtures("billed")


def till(app: hf.App, _ledger: Any) -> Any:
    """Every request is made three times: at once, when all have been made, and as a message from outside."""

    class Till(hf.Actor, app=app):
        total: int = 0

        async def pay(self, cents: int) -> str:
            if cents == 4:
                raise ValueError("no such coin")
            self.total += cents
            return f"{self.total} after {cents}, and a receipt of some length"

    class Clerk(hf.Actor, app=app):
        async def sell(self, cents: int) -> str:
            return await Till.at("t").pay(cents)

    async def pay(number: int) -> str:
        try:
            return await Till.at("t", request_id=f"request {number}").pay(number)
        except ValueError as error:
            return str(error)

    async def user() -> Any:
        first = [[await pay(number), await pay(number)] for number in range(REQUESTS)]
        again = [await pay(number) for number in range(REQUESTS)]
        again += [await Clerk.at("c", request_id=f"sale {number}").sell(100 + number) for number in (1, 2, 1, 2)]
        for number in range(REQUESTS):
            await hf.send(Till.at("t", request_id=f"request {number}").pay, number)
        return first, again

    return user


REQUESTED = Scenario("requests of a till", till)
OUTAGES = (LoseAnswer(), FailBefore(), Delay(before_seconds=20.0))


def test_a_crash_at_any_write_changes_no_reply() -> None:
    assert crash_at_every_write(REQUESTED).points > 0


def test_an_answer_that_is_lost_or_late_changes_no_reply() -> None:
    assert crash_at_every_write(REQUESTED, OUTAGES).points > 0


@pytest.mark.parametrize("disturb", [pause_at_every_write, lag_at_every_write])
def test_a_process_that_comes_back_changes_no_reply(disturb: Callable[[Scenario], Report]) -> None:
    assert disturb(REQUESTED).points > 0


# ── Bugs that these must find ───────────────────────────────────────────────────────────────────────────────────────


def dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies leave the head without having been written elsewhere."""

    async def move(*_what: Any) -> None: ...

    monkeypatch.setattr(make_room, "_move", move)


def overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies in the head are not looked for."""
    monkeypatch.setattr(replies, "kept_in", lambda *_where: None)


@pytest.mark.parametrize("plant", [dropped, overlooked], ids=lambda each: each.__doc__)
def test_it_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="total|receipt|G5|after|result"):
        crash_at_every_write(REQUESTED)
