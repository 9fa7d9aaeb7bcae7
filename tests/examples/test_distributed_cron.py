"""The schedule: one job for each tick, whoever runs it, and none for what was missed but one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from distributed_cron import Cron, app, job, work

from holdfast.testing.virtual_time import START_MS

BEGIN = datetime.fromtimestamp(START_MS / 1000, UTC)
report = Cron.at("report")


async def jobs() -> list[float]:
    """The ticks that have a job, in seconds since the beginning; each job has ended well."""
    page = await app.executions("job", limit=1_000)
    for each in page.executions:
        assert await job.handle(each.id) == f"the {each.tags['schedule']} of now"
    return sorted((datetime.fromisoformat(each.id.split()[1]) - BEGIN).total_seconds() for each in page.executions)


def test_the_job_is_plain_code():
    assert asyncio.run(work("report")) == "the report of now"


def test_each_tick_has_its_job(virtually):
    async def main() -> None:
        await report.schedule(10_000)
        await asyncio.sleep(45)
        assert await jobs() == [10, 20, 30, 40]
        state = await report.state()
        assert state.ticks == 4
        assert state.next_tick == BEGIN + timedelta(seconds=50)

    virtually(app, main)


def test_ticks_do_not_drift(virtually):
    async def main() -> None:
        await report.schedule(333)
        await asyncio.sleep(34)
        assert await jobs() == [round(0.333 * number, 3) for number in range(1, 103)]

    virtually(app, main)


def test_saying_it_again_changes_nothing(virtually):
    async def main() -> None:
        await report.schedule(10_000)
        await asyncio.sleep(7)
        await asyncio.gather(*(report.schedule(10_000) for _ in range(5)))
        await asyncio.sleep(15)
        assert await jobs() == [10, 20]

    virtually(app, main)


def test_another_period_counts_from_now(virtually):
    async def main() -> None:
        await report.schedule(10_000)
        await asyncio.sleep(12)
        await report.schedule(5_000)
        await asyncio.sleep(11)
        assert await jobs() == [10, 17, 22]

    virtually(app, main)


def test_it_can_be_stopped_and_begun_again(virtually):
    async def main() -> None:
        await report.stop()
        await report.schedule(10_000)
        await asyncio.sleep(12)
        await report.stop()
        assert (await report.state()).next_tick is None
        await asyncio.sleep(100)
        assert await jobs() == [10]
        await report.schedule(10_000)
        await asyncio.sleep(11)
        assert await jobs() == [10, 122]

    virtually(app, main)


def test_schedules_do_not_see_each_other(virtually):
    async def main() -> None:
        await report.schedule(10_000)
        await Cron.at("backup").schedule(10_000)
        await asyncio.sleep(11)
        assert await jobs() == [10, 10]
        assert {each.id.split()[0] for each in (await app.executions("job")).executions} == {"report", "backup"}

    virtually(app, main)


def test_what_was_missed_is_one_late_tick(tmp_path):
    """The one test here in real time: its file outlives the workers."""

    async def main() -> None:
        app.home_url, app.clock = f"sqlite:///{tmp_path}/cron.db", SteppedClock()
        async with app.worker():
            await report.schedule(3_600_000)
        app.clock = SteppedClock(hours=5.5)
        async with app.worker():
            while (state := await report.state()).ticks < 1:
                await asyncio.sleep(0.01)
            assert await jobs() == [3_600]
            assert (state.ticks, state.next_tick) == (1, BEGIN + timedelta(hours=6))

    asyncio.run(main())


class SteppedClock:
    """A clock that stands still."""

    def __init__(self, hours: float = 0) -> None:
        self._now_ms = START_MS + int(hours * 3_600_000)

    def now_ms(self) -> int:
        return self._now_ms
