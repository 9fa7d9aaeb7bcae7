"""Alarms of one process: in order, once, not early, and not all in one turn of the loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import uvloop

from holdfast.clock import Clock, SystemClock
from holdfast.kernel.wakeups import FIRED_AT_ONCE, LocalAlarms
from holdfast.testing import VirtualClock, run_virtual

SWEEP_SECONDS = 5.0


@dataclass
class Checked:
    """Notes what is checked, and when."""

    clock: Clock = field(default_factory=VirtualClock)
    draining: bool = False
    seen: list[tuple[str, int]] = field(default_factory=list)
    began_ms: int = 0

    def check(self, partition: str) -> bool:
        self.seen.append((partition, self.clock.now_ms() - self.began_ms))
        return True


def test_they_fire_in_the_order_of_their_times_whatever_the_order_they_were_set_in():
    async def main() -> list[tuple[str, int]]:
        host, alarms = Checked(), LocalAlarms(SWEEP_SECONDS)
        host.began_ms = host.clock.now_ms()
        for name, after_ms in [("c", 300), ("a", 100), ("late", 60_000), ("b", 200), ("also b", 200), ("gone", 150)]:
            alarms.check_at(host, name, host.began_ms + after_ms)
        alarms.cancel("gone")
        alarms.check_at(host, "c", host.began_ms + 400)  # instead of the one before
        await asyncio.sleep(100)
        return host.seen

    assert run_virtual(main) == [("a", 100), ("b", 200), ("also b", 200), ("c", 400)]  # a sweep finds what is late


def test_of_many_that_are_due_at_once_others_come_in_between():
    async def main() -> list[int]:
        host, alarms = Checked(), LocalAlarms(SWEEP_SECONDS)
        for number in range(4 * FIRED_AT_ONCE):
            alarms.check_at(host, str(number), host.clock.now_ms())
        fired = [0]
        while fired[-1] < 4 * FIRED_AT_ONCE:
            await asyncio.sleep(0)
            fired.append(len(host.seen))
        assert [int(name) for name, _ in host.seen] == list(range(4 * FIRED_AT_ONCE))
        return [after - before for before, after in zip(fired, fired[1:], strict=False)]

    in_a_turn = run_virtual(main)
    assert max(in_a_turn) == FIRED_AT_ONCE


def test_nothing_is_kept_of_alarms_that_were_set_and_cancelled():
    async def main() -> int:
        host, alarms = Checked(), LocalAlarms(SWEEP_SECONDS)
        alarms.check_at(host, "stays", host.clock.now_ms() + 9_000)
        for number in range(10 * FIRED_AT_ONCE):
            alarms.check_at(host, str(number), host.clock.now_ms() + 9_000)
            alarms.cancel(str(number))
        kept = len(alarms._by_time)
        alarms.cancel_all()
        await asyncio.sleep(20)
        assert not host.seen
        return kept

    assert run_virtual(main) <= 2 * FIRED_AT_ONCE


def test_what_a_sweep_sets_again_for_the_same_moment_is_kept_once_and_another_moment_counts():
    async def main() -> tuple[int, list[tuple[str, int]]]:
        host, alarms = Checked(), LocalAlarms(SWEEP_SECONDS)
        now = host.clock.now_ms()
        for _ in range(3):
            for name, after_ms in [("later", 4_000), ("sooner", 4_000), ("stays", 4_000)]:
                alarms.check_at(host, name, now + after_ms)
            await asyncio.sleep(0.5)
        kept = len(alarms._by_time)
        alarms.check_at(host, "later", now + 6_000)
        alarms.check_at(host, "sooner", now + 3_000)
        await asyncio.sleep(9)
        return kept, [(name, at - now) for name, at in host.seen]

    kept, seen = run_virtual(main)
    assert kept == 3
    assert [name for name, _ in seen] == ["sooner", "stays", "later"]
    assert [at // 1_000 for _, at in seen] == [3, 4, 6]


def test_they_fire_on_uvloop_of_which_a_timer_that_is_due_has_no_time():
    async def main() -> list[str]:
        host, alarms = Checked(SystemClock()), LocalAlarms(SWEEP_SECONDS)
        now = host.clock.now_ms()
        for number in range(3 * FIRED_AT_ONCE):
            alarms.check_at(host, str(number), now + number % 3)
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            while len(host.seen) < 3 * FIRED_AT_ONCE:
                await asyncio.sleep(0.001)
        return [name for name, _ in host.seen]

    assert len(set(uvloop.run(main()))) == 3 * FIRED_AT_ONCE


def test_those_behind_one_that_fails_fire_too():
    class Failing(Checked):
        def check(self, partition: str) -> bool:
            super().check(partition)
            if partition == "bad":
                raise ValueError("cannot be checked")
            return True

    async def main() -> list[str]:
        host, alarms = Failing(), LocalAlarms(SWEEP_SECONDS)
        now = host.clock.now_ms()
        for name, after_ms in [("bad", 100), ("good", 100), ("later", 200)]:
            alarms.check_at(host, name, now + after_ms)
        await asyncio.sleep(1)
        alarms.check_at(host, "at last", host.clock.now_ms() + 100)
        await asyncio.sleep(1)
        return [name for name, _ in host.seen]

    assert run_virtual(main) == ["bad", "good", "later", "at last"]
