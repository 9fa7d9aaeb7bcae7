"""Time in an actor: ``hf.now()`` is the app's clock, and reading methods know of timers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import holdfast as hf
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.virtual_time import START_MS

app = hf.App("clock", home="memory://")
BEGIN = datetime.fromtimestamp(START_MS / 1000, UTC)


class Alarm(hf.Actor, app=app):
    rang_at: list[datetime] = hf.field(default_factory=list[datetime])

    async def set(self, seconds: int) -> datetime:
        self.ring.after(seconds)
        return hf.now()

    @hf.timer
    async def ring(self) -> None:
        self.rang_at.append(hf.now())

    @hf.read
    async def due(self) -> tuple[datetime, datetime | None]:
        return hf.now(), self.ring.due_at

    @hf.read
    async def cancelling(self) -> bool:
        return self.ring.cancel()

    @hf.read
    async def setting(self) -> None:
        self.ring.after(1)


def virtually(main):
    async def while_it_works():
        app.clock = VirtualClock()
        async with app.worker():
            return await main()

    return run_virtual(while_it_works)


def test_now_is_the_clock_of_the_app_in_methods_timers_and_reads():
    async def main() -> None:
        await asyncio.sleep(60)
        assert await Alarm.at("a").set(30) == BEGIN + timedelta(seconds=60)
        await asyncio.sleep(40)
        status = await app.actor("Alarm", "a").status()
        assert status.state["rang_at"] == [(BEGIN + timedelta(seconds=90)).isoformat().replace("+00:00", "Z")]
        assert (await Alarm.at("a").due())[0] == BEGIN + timedelta(seconds=100)

    virtually(main)


def test_a_reading_method_sees_when_a_timer_is_due():
    async def main() -> None:
        assert (await Alarm.at("a").due())[1] is None
        await Alarm.at("a").set(30)
        due = BEGIN + timedelta(seconds=30)
        assert (await Alarm.at("a").due())[1] == due  # of an actor in memory
        await asyncio.sleep(10)
        assert (await Alarm.at("a").due())[1] == due  # and of one that was suspended
        await asyncio.sleep(30)
        assert (await Alarm.at("a").due())[1] is None

    virtually(main)


@pytest.mark.parametrize("method", ["cancelling", "setting"])
def test_a_reading_method_cannot_set_or_cancel_a_timer(method):
    async def main() -> None:
        await Alarm.at("a").set(30)
        with pytest.raises(hf.InvalidState, match="may only read|declared to read"):
            await getattr(Alarm.at("a"), method)()
        assert (await Alarm.at("a").due())[1] == BEGIN + timedelta(seconds=30)

    virtually(main)


def test_now_is_refused_where_nothing_runs():
    with pytest.raises(hf.InvalidInput, match="hf.now works inside"):
        hf.now()


def test_the_clock_of_an_open_app_cannot_be_changed():
    async def main() -> None:
        with pytest.raises(hf.InvalidState, match="before opening"):
            app.clock = VirtualClock()

    virtually(main)
