"""Schedules: each tick once, by the clock of its zone, whatever was missed and however many workers there are."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial

import pytest
from tests.messaging.places import FAST, Placed, virtually

import holdfast as hf
from holdfast.testing import PATIENT, VirtualClock
from holdfast.testing.virtual_time import START_MS, run_virtual

HOUR = 3_600
START = datetime.fromtimestamp(START_MS / 1000, UTC)


class Jumping(VirtualClock):
    """A clock that begins at a moment of one's own."""

    def __init__(self, begin: datetime) -> None:
        super().__init__(offset_ms=int(begin.timestamp() * 1000) - START_MS)


def hourly(app, seen, expression="0 * * * *", **options):
    @app.cron(expression, **options)
    async def report(tick: datetime) -> None:
        seen.append(tick)

    return report


def hours(ticks):
    return [(tick - START).total_seconds() / HOUR for tick in ticks]


@virtually
async def test_a_handler_runs_at_every_tick_and_not_early(place):
    app = place.app()
    seen = []

    @app.cron("*/15 * * * *")
    async def report(tick: datetime) -> None:
        late_seconds = (datetime.fromtimestamp(place.clock.now_ms() / 1000, UTC) - tick).total_seconds()
        seen.append((tick, late_seconds))

    async with app.worker():
        await asyncio.sleep(2 * HOUR + 1)
    assert hours(tick for tick, _ in seen) == [n / 4 for n in range(1, 9)]
    assert all(0 <= late < 0.1 for _, late in seen)


@virtually
async def test_a_handler_may_take_nothing_and_need_not_be_async(place):
    app = place.app()
    ticks = []

    @app.cron("0 * * * *")
    def sync() -> None:
        ticks.append("sync")

    @app.cron("30 * * * *")
    async def no_tick() -> None:
        ticks.append("async")

    async with app.worker():
        await asyncio.sleep(2 * HOUR + 1)
    assert ticks == ["async", "sync"] * 2


@virtually
async def test_a_workflow_is_started_under_the_name_of_its_tick(place):
    app = place.app()

    @app.cron("0 * * * *")
    @app.workflow
    async def close(tick: datetime) -> str:
        await hf.sleep("90m")  # longer than a tick: the next one starts all the same
        return f"{tick:%H:%M}"

    async with app.worker():
        await asyncio.sleep(4 * HOUR + 1)
        assert await app.handle("close", "close@2026-01-01T01:00:00+00:00").result() == "01:00"
        ids = [each.id for each in (await app.executions("close")).executions]
    assert sorted(ids) == [f"close@2026-01-01T0{n}:00:00+00:00" for n in range(1, 5)]


@virtually
async def test_a_tick_whose_execution_somebody_has_started_already_is_no_other(place):
    app = place.app()
    seen = []

    @app.cron("0 * * * *")
    @app.workflow
    async def close(tick: datetime) -> None:
        seen.append(tick)

    async with app.worker():
        await close.start(datetime(2026, 1, 1, 1, tzinfo=UTC), id="close@2026-01-01T01:00:00+00:00")
        await asyncio.sleep(2 * HOUR + 1)
    assert hours(seen) == [1, 2]


@virtually
async def test_a_tick_whose_id_is_taken_by_another_input_is_parked_and_the_next_ones_come(place):
    app = place.app()
    seen = []

    @app.cron("0 * * * *")
    @app.workflow
    async def close(tick: datetime) -> None:
        seen.append(tick)

    async with app.worker():
        await close.start(START, id="close@2026-01-01T01:00:00+00:00")
        await asyncio.sleep(3 * HOUR + 1)
        (parked,) = await app.actor("!shop!", "close").parked()
        assert parked.error.type == "holdfast.errors.IdempotencyMismatch"
    assert hours(seen) == [0, 2, 3]


@virtually
async def test_a_handler_that_fails_is_tried_again_and_parked_and_the_next_tick_comes(place):
    app = place.app()
    seen = []

    @app.cron("0 * * * *")
    async def report(tick: datetime) -> None:
        seen.append(hours([tick])[0])
        if seen[-1] == 1:
            raise ValueError("not at one o'clock")

    async with app.worker():
        await asyncio.sleep(2 * HOUR + 1)
        (parked,) = await app.actor("!shop!", "report").parked()
        assert parked.error.message == "not at one o'clock"
    assert seen == [1] * 5 + [2]


@virtually
async def test_a_long_handler_delays_its_next_tick_and_does_not_meet_it(place):
    app = place.app()
    running, most, seen = 0, 0, []

    @app.cron("0 * * * *", timeout="2h")
    async def report(tick: datetime) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1.5 * HOUR)
        running -= 1
        seen.append(hours([tick])[0])

    async with app.worker():
        await asyncio.sleep(8.9 * HOUR)
    assert most == 1
    assert seen[0] == 1
    assert seen == sorted(set(seen))
    assert len(seen) >= 4


# ── Missed ticks ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("skip", [1, 6]), ("once", [1, 5, 6]), ("all", [1, 2, 3, 4, 5, 6])],
)
@pytest.mark.parametrize("workflow", [True, False])
def test_ticks_that_nobody_was_there_for(missed, expected, workflow):
    @virtually
    async def test(place):
        seen = []
        for seconds in (1.5 * HOUR, 1 * HOUR):
            app = place.app()
            if workflow:

                @app.cron("0 * * * *", missed=missed)
                @app.workflow
                async def report(tick: datetime) -> None:
                    seen.append(tick)

            else:
                hourly(app, seen, missed=missed)
            async with app.worker():
                await asyncio.sleep(seconds)
            await asyncio.sleep(4 * HOUR)  # 5:30 is the second time
        assert hours(seen) == expected

    test()


@virtually
async def test_a_tick_that_is_hardly_late_is_not_skipped(place):
    seen = []
    app = place.app()
    hourly(app, seen, missed="skip")
    async with app.worker():
        await asyncio.sleep(0.5 * HOUR)
    await asyncio.sleep(1.5 * HOUR + 30)  # half a minute past two
    app = place.app()
    hourly(app, seen, missed="skip")
    async with app.worker():
        await asyncio.sleep(60)
    assert hours(seen) == [2]


@virtually
async def test_a_schedule_begins_when_a_worker_first_has_it(place):
    seen = []
    first, second = place.app(), place.app()
    async with first.worker():
        await asyncio.sleep(2.5 * HOUR)
    hourly(second, seen, missed="all")
    async with second.worker():
        await asyncio.sleep(1 * HOUR)
    assert hours(seen) == [3]


# ── New code ────────────────────────────────────────────────────────────────────────────────────────────────────────


@virtually
async def test_a_schedule_that_has_changed_is_set_anew(place):
    seen = []
    for expression, options in (
        ("0 * * * *", {}),
        ("30 * * * *", {}),
        ("30 * * * *", {"tz": "Asia/Kolkata"}),  # half an hour off
        ("30 * * * *", {"tz": "Asia/Kolkata", "missed": "all"}),
    ):
        app = place.app()
        hourly(app, seen, expression, **options)
        async with app.worker():
            await asyncio.sleep(2 * HOUR + 1)
    assert hours(seen) == [1, 2, 2.5, 3.5, 5, 6, 7, 8]


@virtually
async def test_the_same_schedule_is_not_set_anew_and_costs_a_new_worker_no_write(place):
    seen = []
    app = place.app()
    hourly(app, seen)
    async with app.worker():
        await asyncio.sleep(0.5 * HOUR)
    before = place.data.find("actor#!shop!#report", "@")
    again = place.app()
    hourly(again, seen)
    async with again.worker():
        pass
    assert place.data.find("actor#!shop!#report", "@") == before


@virtually
async def test_a_schedule_that_is_gone_ticks_no_more(place):
    seen = []
    app = place.app()
    hourly(app, seen)
    async with app.worker():
        await asyncio.sleep(1.5 * HOUR)
    other = place.app()
    hourly(other, [], name="other")
    async with other.worker():
        await asyncio.sleep(5 * HOUR)
    assert hours(seen) == [1]


# ── Several workers ─────────────────────────────────────────────────────────────────────────────────────────────────


@virtually
async def test_several_workers_run_each_tick_once_and_start_while_one_is_busy(place):
    seen = []
    apps = [place.app() for _ in range(3)]
    for app in apps:

        @app.cron("*/10 * * * *")
        async def report(tick: datetime) -> None:
            await asyncio.sleep(300)
            seen.append(hours([tick])[0])

    async with apps[0].worker():
        await asyncio.sleep(700)  # in the middle of a tick
        begun = place.now()
        async with apps[1].worker(), apps[2].worker():
            assert place.now() - begun < 1
            await asyncio.sleep(2 * HOUR)
    assert seen == pytest.approx([n / 6 for n in range(1, len(seen) + 1)])
    assert len(seen) >= 12


@virtually
async def test_apps_on_one_file_have_schedules_of_their_own(place):
    seen = {"shop": [], "crm": []}
    apps = {name: place.app(name) for name in seen}
    hourly(apps["shop"], seen["shop"])
    hourly(apps["crm"], seen["crm"], "30 * * * *")
    async with apps["shop"].worker(), apps["crm"].worker():
        await asyncio.sleep(2 * HOUR + 1)
    assert {name: hours(ticks) for name, ticks in seen.items()} == {"shop": [1, 2], "crm": [0.5, 1.5]}


# ── The clocks change ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (datetime(2026, 3, 28, 12, tzinfo=UTC), ["2026-03-29 01:00", "2026-03-30 00:30"]),  # 02:30 is skipped
        (datetime(2026, 10, 24, 12, tzinfo=UTC), ["2026-10-25 00:30", "2026-10-26 01:30"]),  # 02:30 comes twice
    ],
)
def test_on_the_day_the_clocks_change_there_is_one_tick(begin, expected):
    seen = []

    async def main():
        app = hf.App("shop", home="memory://", clock=Jumping(begin), limits=PATIENT)
        hourly(app, seen, "30 2 * * *", tz="Europe/Amsterdam")
        async with app.worker():
            await asyncio.sleep(2 * 24 * HOUR)

    run_virtual(main)
    assert [f"{tick:%Y-%m-%d %H:%M}" for tick in seen] == expected


# ── What is no schedule ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_no_schedule_is_refused_when_it_is_declared():
    app = hf.App("shop")

    async def two(tick: datetime, more: int) -> None: ...
    async def report() -> None: ...

    with pytest.raises(hf.ConfigurationError, match=r"the async def .*two, which has 2 parameters: give it one"):
        app.cron("0 * * * *")(two)
    with pytest.raises(hf.InvalidInput):
        app.cron("0 * * *")
    with pytest.raises(hf.InvalidInput):
        app.cron("0 * * * *", tz="Europe/Nowhere")
    with pytest.raises(hf.InvalidInput, match="skip, once, all"):
        app.cron("0 * * * *", missed="never")
    with pytest.raises(hf.InvalidInput, match="a schedule's name"):
        app.cron("0 * * * *", name="a#b")(report)
    app.cron("0 * * * *")(report)
    with pytest.raises(hf.DuplicateName, match="two schedules"):
        app.cron("5 * * * *")(report)


@virtually
async def test_a_tick_s_handler_has_a_key_of_its_own_and_publishes(place):
    app = place.app()
    keys, seen = [], []

    @app.cron("0 * * * *")
    async def report(tick: datetime) -> None:
        keys.append(hf.current().idempotency_key)
        await app.publish(Placed(f"{tick:%H}"))
        if len(keys) == 1:
            raise ValueError

    @app.consumer(Placed, retry=FAST)
    async def pack(event: Placed) -> None:
        seen.append(event.order)

    async with app.worker():
        await asyncio.sleep(2 * HOUR + 60)
    assert keys[0] == keys[1] != keys[2]
    assert seen == ["01", "02"]


def yields(tick):
    yield tick


async def yields_later():
    yield 1


class Report:
    def __call__(self): ...

    async def write(self): ...


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (yields, "the generator yields, which yields"),
        (yields_later, "the generator yields_later, which yields"),
        (partial(yields), "a functools.partial of the generator yields"),
        (Report, "the class Report"),
        (Report(), "Report object"),
        (len, "the builtin len"),
        (7, "got 7"),
        (lambda: None, "a lambda"),
        (partial(Report().write), "a functools.partial of the method Report.write"),
        (Report.write, None),
        (Report().write, None),
    ],
)
def test_what_a_schedule_cannot_run_is_named(target, told):
    app = hf.App("shop")
    if told is None:
        assert app.cron("0 * * * *")(target) is target
        return
    with pytest.raises(hf.ConfigurationError, match=told):
        app.cron("0 * * * *")(target)
    assert app.registry.jobs == {}


@pytest.mark.parametrize("target", [lambda: None, partial(Report().write)])
def test_what_has_no_name_needs_one(target):
    assert hf.App("shop").cron("0 * * * *", name="report")(target) is target
