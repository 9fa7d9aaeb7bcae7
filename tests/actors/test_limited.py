"""Time limits: a method that hangs is cancelled and rolled back, and one that does not heed it is left behind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from tests.messaging.places import virtually

import holdfast as hf

SHORT = "30ms"
ONCE = hf.Retry(max_attempts=1)


@dataclass
class Paid:
    order: str


async def for_ever():
    await asyncio.Event().wait()


@pytest.fixture
def till(app):
    class Till(hf.Actor, app=app, timeout=SHORT, retry=ONCE):
        cents: int = 0

        async def hang(self) -> None:
            self.cents = -1
            await hf.send(Till.at("other").add, 1)
            await for_ever()

        async def add(self, cents: int) -> int:
            self.cents += cents
            return self.cents

        @hf.method(timeout=None)
        async def take_time(self) -> str:
            await asyncio.sleep(0.1)  # longer than the class says
            return "done"

        @hf.method(timeout="1ms")
        async def hurry(self) -> None:
            await for_ever()

        @hf.read
        async def look(self) -> None:
            await for_ever()

        @hf.method(timeout="1h")
        async def with_a_timeout_of_its_own(self) -> str:
            try:
                async with asyncio.timeout(0.001):
                    await for_ever()
            except TimeoutError:
                return "its own"
            return ""

        async def hang_and_answer(self) -> str:
            try:
                await for_ever()
            except asyncio.CancelledError:
                return "swallowed"
            return ""

        async def remind(self) -> None:
            self.ring.after("1ms")

        @hf.timer
        async def ring(self) -> None:
            await for_ever()

    return Till


async def test_a_method_that_hangs_is_cancelled_and_nothing_of_it_is_kept(app, till):
    async with app.worker():
        await till.at("1").add(5)
        with pytest.raises(hf.CallTimeout, match=r"Till\.hang ran for longer than 0\.03 s .* timeout=\.\.\."):
            await till.at("1").hang()
        assert await till.at("1").add(1) == 6
        assert await till.at("other").add(1) == 1
    assert app.telemetry.counts["method_timed_out"] == 1


async def test_the_next_caller_does_not_wait_longer_than_the_limit(app, till):
    async with app.worker(), asyncio.timeout(60):
        hanging = asyncio.create_task(till.at("1").hang())
        await asyncio.sleep(0)
        assert await till.at("1").add(1) == 1
        with pytest.raises(hf.CallTimeout):
            await hanging


async def test_a_method_may_have_a_limit_of_its_own_or_none(app, till):
    async with app.worker():
        assert await till.at("1").take_time() == "done"
        with pytest.raises(hf.CallTimeout, match=r"0\.001 s"):
            await till.at("1").hurry()


@pytest.mark.parametrize("method", ["look", "hang_and_answer"])
async def test_reading_and_answering_too_late_are_no_way_around_it(app, till, method):
    async with app.worker():
        with pytest.raises(hf.CallTimeout):
            await getattr(till.at("1"), method)()


async def test_time_outs_within_a_method_are_its_own(app, till):
    async with app.worker():
        assert await till.at("1").with_a_timeout_of_its_own() == "its own"


async def test_without_a_limit_of_its_own_it_has_as_long_as_a_lease(memory_world):
    app = memory_world.app(limits=hf.Limits(lease_ms=50))

    class Till(hf.Actor, app=app):
        async def hang(self) -> None:
            await for_ever()

    class Tally(hf.Actor, app=app, optimistic=True):
        async def hang(self) -> None:
            await for_ever()

    async with app.worker():
        for hang in (Till.at("1").hang, Tally.at("1").hang):
            with pytest.raises(hf.CallTimeout, match=r"0\.05 s"):
                await hang()


async def test_a_message_and_a_timer_that_hang_have_failed_and_are_parked_in_the_end(app, till, eventually):
    async def parked():
        return len((await app.parked()).items) == 2

    async with app.worker():
        await hf.send(till.at("1").hang)
        await till.at("2").remind()
        await eventually(parked)
        letters = (await app.parked()).items
        assert {letter.message.error.type for letter in letters} == {"holdfast.errors.CallTimeout"}
        assert await till.at("1").add(1) == 1


async def test_a_consumer_that_hangs_has_failed_and_its_event_is_parked_in_the_end(app, eventually):
    handled = []

    @app.consumer(Paid, timeout=SHORT, retry=ONCE)
    async def bill(event: Paid) -> None:
        if event.order == "1":
            await for_ever()
        handled.append(event.order)

    async def parked():
        return (await app.parked()).items

    async with app.worker():
        await app.publish(Paid("1"))
        await app.publish(Paid("2"))
        (letter,) = await eventually(parked)
        assert letter.message.error.type == "holdfast.errors.CallTimeout"
        await eventually(lambda: handled == ["2"])


def test_consumers_have_a_minute_and_handlers_of_schedules_an_hour():
    @virtually
    async def story(place):
        app = place.app()
        began = {}

        @app.consumer(Paid, retry=ONCE)
        async def bill(_event: Paid) -> None:
            began["consumer"] = asyncio.get_running_loop().time()
            try:
                await for_ever()
            finally:
                began["consumer"] -= asyncio.get_running_loop().time()

        @app.cron("0 0 * * *")
        async def report() -> None:
            began["schedule"] = asyncio.get_running_loop().time()
            try:
                await for_ever()
            finally:
                began["schedule"] -= asyncio.get_running_loop().time()

        async with app.worker():
            await app.publish(Paid("1"))
            while began.get("consumer", 1) > 0 or began.get("schedule", 1) > 0:
                await asyncio.sleep(60)
        assert [round(-began[name]) for name in ("consumer", "schedule")] == [60, 3600]

    story()


def test_a_limit_leaves_some_time(app):
    with pytest.raises(hf.ConfigurationError, match="'Till' leaves it no time"):

        class Till(hf.Actor, app=app, timeout=0):
            pass

    with pytest.raises(hf.ConfigurationError, match="'for_hanging' leaves it no time"):
        hf.method(timeout=0)(for_hanging)


async def for_hanging() -> None:
    """A method, by itself."""


async def test_delete_park_and_resume_of_an_actor_that_hangs_are_answered(app, till):
    async with app.worker(), asyncio.timeout(60):
        await till.at("1").add(1)
        hanging = asyncio.create_task(till.at("1").hang())
        await asyncio.sleep(0)
        handle = app.actor("Till", "1")
        for mend in (handle.park, handle.resume):
            with pytest.raises(hf.InvalidState, match="not halted"):
                await mend()
        await handle.delete()
        assert (await handle.status()).status == "DELETED"
        with pytest.raises(hf.CallTimeout):
            await hanging


# ── Left behind ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def stubborn(app):
    class Stubborn(hf.Actor, app=app, timeout=SHORT, retry=ONCE):
        n: int = 0

        async def cling(self, how: str) -> str:
            self.n = 100
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    cancelled.set()
            self.n = 200
            try:
                await hf.send(Stubborn.at("other").add)
            except hf.InvalidState as error:
                told.append(str(error))
            if how == "raises":
                raise ValueError("much too late")
            ended.set()
            return "too late"

        async def add(self) -> int:
            self.n += 1
            return self.n

    cancelled, let_go, ended, told = asyncio.Event(), asyncio.Event(), asyncio.Event(), []
    return Stubborn, cancelled, let_go, ended, told


@pytest.mark.parametrize("how", ["answers", "raises"])
async def test_one_that_swallows_its_cancellation_holds_up_nobody(app, stubborn, how, errors_expected):
    actor, cancelled, let_go, ended, told = stubborn
    async with app.worker(), asyncio.timeout(60):
        with pytest.raises(hf.CallTimeout, match="cling"):
            await actor.at("1").cling(how)
        assert cancelled.is_set()
        assert await actor.at("1").add() == 1
        let_go.set()  # what it does from now on comes to nothing
        while not told:
            await asyncio.sleep(0)
        assert "outlived" in told[0]
        assert await actor.at("1").add() == 2
        assert await actor.at("other").add() == 1
        assert ended.is_set() == (how == "answers")
    assert app.telemetry.counts["method_left_behind"] == 1
    assert app.telemetry.counts["turn_failed"] == 0


async def test_a_message_left_behind_is_a_failed_attempt(app, stubborn, eventually, errors_expected):
    actor, _, let_go, _, _ = stubborn

    async def parked():
        return (await app.parked()).items

    async with app.worker(), asyncio.timeout(60):
        await hf.send(actor.at("1").cling, "answers")
        (letter,) = await eventually(parked)
        assert letter.message.error.type == "holdfast.errors.CallTimeout"
        assert await actor.at("1").add() == 1
        let_go.set()


async def test_a_worker_stops_although_a_method_was_left_behind(app, errors_expected):
    let_go = asyncio.Event()

    class Stubborn(hf.Actor, app=app, timeout=SHORT):
        async def cling(self) -> None:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue

    async with asyncio.timeout(60):
        async with app.worker(grace="10ms"):
            with pytest.raises(hf.CallTimeout):
                await Stubborn.at("1").cling()
        let_go.set()


# ── Waiting for another actor ───────────────────────────────────────────────────────────────────────────────────────


async def test_waiting_for_another_actor_costs_no_time(app, till):
    """That one has a limit of its own: whoever waits for it, or in its queue, is not to pay for it."""

    class Clerk(hf.Actor, app=app, timeout=SHORT):
        async def ask(self) -> str:
            answers = await asyncio.gather(*(till.at("1").take_time() for _ in range(2)))
            return " ".join(answers)

        async def ask_and_hang(self) -> None:
            await till.at("1").add(1)
            await for_ever()

        async def ask_who_hangs(self) -> str:
            try:
                await till.at("1").hang()
            except hf.CallTimeout as error:
                return str(error)
            return ""

    async with app.worker(), asyncio.timeout(60):
        assert await Clerk.at("1").ask() == "done done"
        with pytest.raises(hf.CallTimeout, match=r"Clerk\.ask_and_hang"):
            await Clerk.at("1").ask_and_hang()
        assert "Till.hang" in await Clerk.at("1").ask_who_hangs()
