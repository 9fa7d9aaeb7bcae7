"""Timers: durable with the call that sets them, never early, once (G8)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.virtual_time import START_MS


class Place:
    """A store in virtual time, and apps on it."""

    def __init__(self):
        self.clock = VirtualClock()
        self.data = MemoryData()

    def now(self):
        return (self.clock.now_ms() - START_MS) / 1000

    def app(self, **limits):
        async def open_home():
            return open_memory_home(data=self.data)

        app = hf.App("test", home=open_home, clock=self.clock, limits=hf.Limits(**limits))
        return app, declare(app, self.now)


def declare(app, now):
    class Alarm(hf.Actor, app=app):
        rung: list[tuple[str, float]] = hf.field(default_factory=list)

        async def set(self, seconds: float, text: str = "once") -> None:
            self.ring.after(seconds, text)

        async def set_at(self, when: datetime) -> None:
            self.ring.at(when, "at")

        async def set_every(self, seconds: float) -> None:
            self.tick.every(seconds)

        async def set_named(self, name: str, seconds: float) -> None:
            self.ring[name].after(seconds, name)

        async def set_and_cancel(self) -> tuple[bool, bool]:
            self.ring.after(1, "never")
            return self.ring.cancel(), self.ring.cancel()

        async def cancel(self, name: str | None = None) -> bool:
            return (self.ring if name is None else self.ring[name]).cancel()

        async def stop(self) -> bool:
            return self.tick.cancel()

        @hf.read
        async def all(self) -> list[tuple[str, float]]:
            return self.rung

        @hf.read
        async def due(self) -> datetime | None:
            return self.ring.due_at

        @hf.timer
        async def ring(self, text: str) -> None:
            self.rung.append((text, now()))

        @hf.timer
        async def tick(self) -> None:
            self.rung.append(("tick", now()))

        @hf.timer
        async def again(self) -> None:
            self.rung.append(("again", now()))
            if len(self.rung) < 3:
                self.again.after(10)

        async def begin(self) -> None:
            self.again.after(10)

    return Alarm


def virtually(test):
    def run():
        async def main():
            await test(Place())

        return run_virtual(main)

    run.__name__ = test.__name__
    return run


def about(rung, *expected):
    """Each rang when it was due, or a little later, never earlier."""
    assert [text for text, _ in rung] == [text for text, _ in expected]
    for (_, at), (_, due) in zip(rung, expected, strict=True):
        assert due <= at < due + 0.1


@virtually
async def test_a_timer_fires_once_and_not_early(place):
    app, alarm = place.app()
    async with app.worker():
        await alarm.at("a").set(100.0)
        begun = place.now()
        await asyncio.sleep(99.9)
        assert await alarm.at("a").all() == []
        await asyncio.sleep(1000)
        about(await alarm.at("a").all(), ("once", begun + 100))


@virtually
async def test_a_timer_at_a_time_and_one_that_is_past(place):
    app, alarm = place.app()
    async with app.worker():
        when = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(hours=3)
        await alarm.at("a").set_at(when)
        assert await alarm.at("a").due() == when
        await alarm.at("b").set_at(when - timedelta(days=1))
        await asyncio.sleep(1)
        assert [text for text, _ in await alarm.at("b").all()] == ["at"]
        await asyncio.sleep(3 * 3600)
        about(await alarm.at("a").all(), ("at", 3 * 3600))
        assert await alarm.at("a").due() is None
        with pytest.raises(hf.InvalidInput, match="time zone"):
            await alarm.at("a").set_at(when.replace(tzinfo=None))


@virtually
async def test_a_periodic_timer_does_not_drift_and_can_be_stopped(place):
    app, alarm = place.app()
    async with app.worker():
        await alarm.at("a").set_every(60.0)
        begun = place.now()
        await asyncio.sleep(601)
        assert await alarm.at("a").stop()
        await asyncio.sleep(601)
        about(await alarm.at("a").all(), *[("tick", begun + 60 * n) for n in range(1, 11)])
        assert not await alarm.at("a").stop()


@virtually
async def test_named_timers_are_timers_of_their_own(place):
    app, alarm = place.app()
    async with app.worker():
        begun = place.now()
        await alarm.at("a").set_named("bob", 20)
        await alarm.at("a").set_named("ann", 10)
        await alarm.at("a").set_named("joe", 15)
        assert await alarm.at("a").cancel("joe")
        assert not await alarm.at("a").cancel()
        await asyncio.sleep(60)
        about(await alarm.at("a").all(), ("ann", begun + 10), ("bob", begun + 20))


@virtually
async def test_a_timer_that_is_set_again_fires_as_set_last(place):
    app, alarm = place.app()
    async with app.worker():
        await alarm.at("a").set(10, "first")
        await asyncio.sleep(5)
        begun = place.now()
        await alarm.at("a").set(10, "second")
        await asyncio.sleep(60)
        about(await alarm.at("a").all(), ("second", begun + 10))


@virtually
async def test_a_timer_set_and_cancelled_in_one_call_was_never_set(place):
    app, alarm = place.app()
    async with app.worker():
        assert await alarm.at("a").set_and_cancel() == (True, False)
        await asyncio.sleep(60)
        assert await alarm.at("a").all() == []


@virtually
async def test_a_timer_may_set_itself_again(place):
    app, alarm = place.app()
    async with app.worker():
        await alarm.at("a").begin()
        await asyncio.sleep(100)
        rung = await alarm.at("a").all()
        assert len(rung) == 3
        assert all(later - sooner >= 10 for (_, sooner), (_, later) in zip(rung, rung[1:], strict=False))


@virtually
async def test_a_timer_fires_in_another_process_after_a_restart(place):
    app, alarm = place.app()
    async with app.worker():
        await alarm.at("a").set(3600)
        due = place.now() + 3600
    app, alarm = place.app()
    async with app.worker():
        await asyncio.sleep(4000)
        about(await alarm.at("a").all(), ("once", due))


@virtually
async def test_what_was_missed_while_everything_was_down_fires_once_and_late(place):
    app, alarm = place.app()
    async with app.worker():
        await alarm.at("a").set_every(60)
        await alarm.at("a").set(30)
        due = place.now()
    await asyncio.sleep(86_400 + 30)
    app, alarm = place.app()
    up = place.now()
    async with app.worker():
        await asyncio.sleep(95)
        rung = await alarm.at("a").all()
        await alarm.at("a").stop()
    next_due = due + 60 * ((up - due) // 60 + 1)
    about(
        rung, ("once", up), ("tick", up), ("tick", next_due), ("tick", next_due + 60)[: 2 * (next_due + 60 < up + 95)]
    )


@virtually
async def test_a_timer_fires_on_time_though_nothing_stays_in_memory(place):
    app, alarm = place.app(resident=0, linger_seconds=0.0, near_seconds=0.0)
    async with app.worker():
        await alarm.at("a").set_every(7)
        begun = place.now()
        await asyncio.sleep(30)
        about(await alarm.at("a").all(), *[("tick", begun + 7 * n) for n in range(1, 5)])


@virtually
async def test_a_lost_hint_is_repaired_by_the_sweep(place):
    app, alarm = place.app(sweep_seconds=5.0)
    async with app.worker():
        await alarm.at("a").set(60)
        due = place.now() + 60
        await asyncio.sleep(30)
        app.employed.host.wakeups.cancel_all()
        await asyncio.sleep(60)
        ((_, at),) = await alarm.at("a").all()
        assert due <= at <= due + 5.1


@virtually
async def test_two_workers_fire_a_timer_once(place):
    one, alarm = place.app()
    two, _ = place.app()
    async with one.worker(), two.worker():
        await alarm.at("a").set_every(10)
        await asyncio.sleep(1001)
        assert len(await alarm.at("a").all()) == 100


def failing(app):
    class Shaky(hf.Actor, app=app, retry=hf.Retry(max_attempts=3, initial=10, backoff=1, jitter=hf.Jitter.NONE)):
        tried: int = 0
        works: bool = False

        async def set(self, seconds: float, *, works: bool) -> None:
            self.works = works
            self.go.after(seconds)

        async def drop(self) -> bool:
            return self.go.cancel()

        @hf.timer
        async def go(self) -> None:
            attempts.append(self.key)
            if not self.works:
                raise ValueError("not yet")
            self.tried += 1

        @hf.read
        async def done(self) -> int:
            return self.tried

    attempts = []
    return Shaky, attempts


@virtually
async def test_a_failing_timer_is_tried_again_and_parked_in_the_end(place):
    app, _ = place.app()
    shaky, attempts = failing(app)
    async with app.worker():
        await shaky.at("s").set(1, works=False)
        await asyncio.sleep(60)
        assert len(attempts) == 3
        (parked,) = await app.actor("Shaky", "s").parked()
        assert (parked.method, parked.attempts, parked.error.message) == ("go", 3, "not yet")
        await shaky.at("s").set(9999, works=True)
        await app.actor("Shaky", "s").unpark(parked.place)
        await asyncio.sleep(1)
        assert await shaky.at("s").done() == 1
        assert await app.actor("Shaky", "s").parked() == ()


@virtually
async def test_a_timer_that_is_set_anew_has_its_attempts_before_it(place):
    app, _ = place.app()
    shaky, attempts = failing(app)
    async with app.worker():
        await shaky.at("s").set(1, works=False)
        await asyncio.sleep(13)
        assert len(attempts) == 2
        await shaky.at("s").set(1, works=False)
        await asyncio.sleep(12)
        assert len(attempts) == 4
        assert await app.actor("Shaky", "s").parked() == ()
        assert await shaky.at("s").drop()
        await asyncio.sleep(100)
        assert len(attempts) == 4
        await shaky.at("s").set(1, works=True)
        await asyncio.sleep(1.1)
        assert await shaky.at("s").done() == 1


@virtually
async def test_timers_of_several_actors_at_one_time_call_others_for_each(place):
    app, _ = place.app()

    class Sum(hf.Actor, app=app):
        n: int = 0

        async def add(self) -> int:
            self.n += 1
            return self.n

    class Each(hf.Actor, app=app):
        async def begin(self, when: datetime) -> None:
            self.go.at(when)

        @hf.timer
        async def go(self) -> None:
            await Sum.at("s").add()

    async with app.worker():
        when = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(hours=1)
        for name in "abc":
            await Each.at(name).begin(when)
        await asyncio.sleep(3700)
        assert await Sum.at("s").add() == 4
