"""Leases: one at a time, a fence that only grows, and no harm from whoever lost one without noticing."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast as hf
from holdfast.patterns.acquiring import SKEW_MARGIN_MS
from holdfast.testing import FaultsAt, ProcessDied
from holdfast.testing.faults import CrashAfter, CrashBefore, Delay, FailBefore, LoseAnswer, PauseAfter, PauseBefore

MINUTES = 60_000


class Guarded:
    """What a lease protects: it refuses every fence lower than the highest it has seen."""

    def __init__(self):
        self.highest = 0
        self.accepted = []
        self.refused = []

    def write(self, fence, who):
        if fence < self.highest:
            self.refused.append((fence, who))
            return False
        self.highest = fence
        self.accepted.append((fence, who))
        return True


async def hold(process, seconds=0.0, **options):
    """Hold the lease for a while, and answer its fence."""

    async def work():
        async with process.app.lease("x", **options) as held:
            await asyncio.sleep(seconds)
            return held.check()

    return await process.call(work)


async def hold_without_check(process, seconds):
    """Be in the block for a while, and ask nothing."""

    async def work():
        async with process.app.lease("x", ttl="10s"):
            await asyncio.sleep(seconds)

    await process.call(work)


# ── One at a time ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_process_after_another_each_with_a_higher_fence(simulate):
    async def story(machines):
        inside, most, fences = 0, 0, []

        async def work(process):
            nonlocal inside, most
            for _ in range(5):
                async with process.app.lease("x", ttl="10s") as held:
                    inside += 1
                    most = max(most, inside)
                    fences.append(held.check())
                    await asyncio.sleep(0.2)
                    inside -= 1

        processes = [await machines.boot() for _ in range(3)]
        await asyncio.gather(*(process.call(lambda p=process: work(p)) for process in processes for _ in range(2)))
        assert most == 1
        assert fences == sorted(set(fences)) and len(fences) == 30
        return asyncio.get_running_loop().time()

    seconds = simulate(story)
    assert seconds < 10, "rings, not polls, hand a lease on"


def test_it_costs_one_write_to_enter_and_one_to_leave(simulate):
    async def story(machines):
        process = await machines.boot()
        await hold(process)
        before = process.wire.writes
        assert before == 3, "the very first time of a name costs one refused write more"
        for _ in range(10):
            await hold(process)
        assert process.wire.writes == before + 20

    simulate(story)


def test_those_who_wait_in_one_process_cost_no_writes_while_they_wait(simulate):
    async def story(machines):
        one, other = await machines.boot(), await machines.boot()
        await hold(one)
        holding = asyncio.ensure_future(hold(one, 60.0, ttl="1h"))
        await asyncio.sleep(0.1)
        waiting = [asyncio.ensure_future(hold(other)) for _ in range(20)]
        await asyncio.sleep(50.0)
        assert other.wire.writes == 1, "the first of them tried once, then looked by reading"
        await asyncio.gather(holding, *waiting)
        assert one.wire.writes == 3 + 2

    simulate(story)


def test_a_wait_has_an_end(simulate):
    async def story(machines):
        one, other = await machines.boot(), await machines.boot()
        holding = asyncio.ensure_future(hold(one, 100.0))
        await asyncio.sleep(0.1)
        loop = asyncio.get_running_loop()
        for wait, process in ((0, other), ("3s", other), (0, one), ("3s", one)):
            began = loop.time()
            with pytest.raises(hf.WaitTimeout, match="'lease x' is held by others"):
                await hold(process, wait=wait)
            assert loop.time() - began == pytest.approx(3.0 if wait else 0.0, abs=0.05)
        await holding

    simulate(story)


def test_it_is_renewed_while_the_block_runs(simulate):
    async def story(machines):
        one, other = await machines.boot(), await machines.boot()
        holding = asyncio.ensure_future(hold(one, 3600.0, ttl="10s"))
        await asyncio.sleep(0.1)
        with pytest.raises(hf.WaitTimeout):
            await hold(other, wait="59m")
        assert await holding == 1
        assert 3600 / 3.5 <= one.wire.writes <= 3600 / 2.5 + 3
        assert await hold(other) == 2

    simulate(story)


def test_a_cancelled_wait_leaves_no_lease_behind(simulate):
    async def story(machines):
        slow = await machines.boot(FaultsAt({2: Delay(before_seconds=1.0, after_seconds=1.0)}))
        other = await machines.boot()
        entering = asyncio.ensure_future(slow.call(lambda: slow.app.lease("x").__aenter__()))
        await asyncio.sleep(0.5)
        entering.cancel()
        await asyncio.wait([entering])
        await asyncio.sleep(5.0)
        assert await hold(other, wait=0) == 2

    simulate(story)


# ── Death ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.not_on_dynamodb("nobody can tell there that a process has died: its lease has to run out")
def test_the_lease_of_a_dead_process_is_taken_over_at_once(simulate):
    async def story(machines):
        one, other = await machines.boot(), await machines.boot()
        holding = asyncio.ensure_future(hold(one, 1e6, ttl="1h"))
        await asyncio.sleep(0.1)
        one.crash()
        with pytest.raises(ProcessDied):
            await holding
        assert await hold(other, wait=0) == 2, "the doorbell knows that it is dead"

    simulate(story)


async def test_on_a_file_too_the_lease_of_a_dead_process_is_taken_over_at_once(sqlite_world):
    dying, other = sqlite_world.app(), sqlite_world.app()
    async with other, dying:
        held = await dying.lease("x", ttl="1h").__aenter__()
        with pytest.raises(hf.WaitTimeout):
            await other.lease("x", wait=0).__aenter__()
        await dying.runtime().home.doorbell.close()  # what the end of a process does to its socket
        async with other.lease("x", wait=0) as taken:
            assert taken.fence == held.fence + 1
        held._keeper.cancel()


def test_a_lease_of_a_process_of_which_nothing_is_known_lapses(simulate, monkeypatch):
    async def story(machines):
        one, other = await machines.boot(), await machines.boot()
        holding = asyncio.ensure_future(hold(one, 1e6, ttl="1m"))
        await asyncio.sleep(0.1)
        monkeypatch.setattr(other.app.runtime().home.doorbell, "alive", lambda _owner: True)
        one.crash()
        with pytest.raises(ProcessDied):
            await holding
        with pytest.raises(hf.WaitTimeout):
            await hold(other, wait="55s")
        assert await hold(other, wait="10s") == 2

    simulate(story)


WRITES = {1: "the refused claim", 2: "the first claim", 3: "a renewal", 4: "another renewal", 5: "the release"}
FAULTS = [CrashBefore(), CrashAfter(), LoseAnswer(), FailBefore(), PauseBefore(), PauseAfter()]


@pytest.mark.parametrize("number", WRITES, ids=WRITES.values())
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_whatever_happens_at_any_write_the_others_go_on_behind_a_higher_fence(simulate, number, fault):
    async def story(machines):
        guarded = Guarded()
        victim, other = await machines.boot(FaultsAt({number: fault})), await machines.boot()

        async def work(process, seconds):
            async with process.app.lease("x", ttl="10s") as held:
                for _ in range(seconds):
                    await asyncio.sleep(1.0)
                    guarded.write(held.check(), process.name)
                return held.check()

        first = asyncio.ensure_future(victim.call(lambda: work(victim, 7)))
        second = asyncio.ensure_future(_begin_later(other, lambda: work(other, 3)))
        fence = await second
        if victim.paused:
            victim.resume()
        with_loss = (ProcessDied, hf.LeaseLost)
        try:
            earlier = await first
        except with_loss:
            earlier = 0
        assert fence != earlier
        assert guarded.refused == [], "whoever has lost it finds out before it does anything"
        assert [each for each, _ in guarded.accepted] == sorted(each for each, _ in guarded.accepted)
        assert sum(1 for _, who in guarded.accepted if who == other.name) == 3
        assert machines.world.counts.counts[type(fault).__name__] == 1
        assert await hold(other) > max(fence, earlier)

    simulate(story)


async def _begin_later(process, work):
    await asyncio.sleep(0.5)
    return await process.call(work)


# ── Loss ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_zombie_is_refused_by_what_it_would_harm_and_by_itself(simulate):
    async def story(machines):
        guarded = Guarded()
        zombie, other = await machines.boot(), await machines.boot()
        seen = []

        async def work():
            async with zombie.app.lease("x", ttl="10s") as held:
                await asyncio.sleep(1.0)
                seen.append(guarded.write(held.fence, "zombie"))  # it goes on without a check
                with pytest.raises(hf.LeaseLost, match="lapsed before it was renewed"):
                    held.check()
                assert not held.is_held

        working = asyncio.ensure_future(zombie.call(work))
        await asyncio.sleep(0.5)
        zombie.pause()
        await asyncio.sleep(3600.0)
        assert guarded.write(await hold(other), "other")
        zombie.resume()
        with pytest.raises(hf.LeaseLost, match="was lost before its block ended"):
            await working
        assert seen == [False]

    simulate(story)


def test_who_was_robbed_learns_it_with_the_next_renewal(simulate):
    async def story(machines):
        owner, robber = await machines.boot(), await machines.boot(offset_ms=10 * MINUTES)
        lost = []

        async def work():
            async with owner.app.lease("x", ttl="60s") as held:
                await held.lost()
                lost.append(asyncio.get_running_loop().time())
                with pytest.raises(hf.LeaseLost, match="another owner took it over"):
                    held.check()

        working = asyncio.ensure_future(owner.call(work))
        await asyncio.sleep(0.1)
        assert await hold(robber, wait=0) == 2
        with pytest.raises(hf.LeaseLost):
            await working
        assert lost[0] < 25.0, "long before its own lease would have ended"

    simulate(story)


def test_a_zombie_does_not_release_what_another_holds(simulate):
    async def story(machines):
        zombie, other = await machines.boot(), await machines.boot()
        waking = asyncio.ensure_future(hold(zombie, 1.0, ttl="10s"))
        await asyncio.sleep(0.5)
        zombie.pause()
        await asyncio.sleep(60.0)
        holding = asyncio.ensure_future(hold(other, 30.0))
        await asyncio.sleep(1.0)
        zombie.resume()
        with pytest.raises(hf.LeaseLost):
            await waking
        with pytest.raises(hf.WaitTimeout):
            await hold(zombie, wait="20s")
        assert await holding == 2

    simulate(story)


def test_a_release_whose_answer_is_lost_is_no_loss_though_another_has_it_by_then(simulate):
    async def story(machines):
        owner, other = await machines.boot(FaultsAt({3: LoseAnswer()})), await machines.boot()
        holding = asyncio.ensure_future(hold(owner, 1.0))
        await asyncio.sleep(0.5)
        next_one = asyncio.ensure_future(hold(other, 30.0))
        await asyncio.sleep(0.4)
        for _ in range(30):  # it looks all the time, and so between the release and its repeat
            other.app.runtime().wake_listeners.heard("lease#x")
            await asyncio.sleep(0.01)
        assert await holding == 1
        assert await next_one == 2
        assert owner.app.telemetry.counts["lease_lost"] == 0

    simulate(story)


def test_a_loss_is_told_although_the_release_is_not_answered(simulate):
    async def story(machines):
        zombie = await machines.boot(FaultsAt({3: FailBefore()}))
        other = await machines.boot()
        waking = asyncio.ensure_future(hold_without_check(zombie, 1.0))
        await asyncio.sleep(0.5)
        zombie.pause()
        await asyncio.sleep(60.0)
        holding = asyncio.ensure_future(hold(other, 30.0))
        await asyncio.sleep(1.0)
        zombie.resume()
        with pytest.raises(hf.LeaseLost, match="before its block ended"):
            await waking
        assert await holding == 2

    simulate(story)


def test_a_block_that_ended_in_time_is_no_loss_although_its_release_comes_late(simulate):
    async def story(machines):
        owner = await machines.boot(FaultsAt({number: FailBefore() for number in range(3, 200)}))
        other = await machines.boot()
        holding = asyncio.ensure_future(hold_without_check(owner, 1.0))
        await asyncio.sleep(0.5)
        assert await hold(other) == 2
        await holding
        assert owner.app.telemetry.counts["lease_lost"] == 0

    simulate(story)


def test_an_outage_longer_than_the_lease_loses_it(simulate):
    async def story(machines):
        cut_off = await machines.boot(FaultsAt({number: FailBefore() for number in range(3, 200)}))
        lost = []

        async def work():
            async with cut_off.app.lease("x", ttl="10s") as held:
                await held.lost()
                lost.append(asyncio.get_running_loop().time())
                assert not held.is_held
                held.check()

        with pytest.raises(hf.LeaseLost, match="do nothing more under it"):
            await cut_off.call(work)
        assert lost == [pytest.approx(10.0, abs=0.1)]
        assert cut_off.app.telemetry.counts["lease_lost"] == 1

    simulate(story)


def test_the_bodys_own_error_is_not_hidden_by_the_loss(simulate):
    async def story(machines):
        process = await machines.boot(FaultsAt({number: FailBefore() for number in range(3, 200)}))

        async def work():
            async with process.app.lease("x", ttl="1s") as held:
                await held.lost()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await process.call(work)

    simulate(story)


def test_a_release_that_does_not_reach_the_store_is_no_failure_of_the_block(simulate):
    async def story(machines):
        process = await machines.boot(FaultsAt({number: FailBefore() for number in range(3, 200)}))
        assert await hold(process, ttl="10s") == 1
        assert process.app.telemetry.counts["release_failed"] == 1
        assert asyncio.get_running_loop().time() < 11, "it is not tried for longer than the lease lasts"
        other = await machines.boot()
        assert await hold(other, wait="15s") == 2

    simulate(story)


def test_a_lease_that_has_ended_says_so(simulate):
    async def story(machines):
        process = await machines.boot()

        async def work():
            async with process.app.lease("x") as held:
                assert held.is_held
            assert not held.is_held
            with pytest.raises(hf.LeaseLost, match="was released"):
                held.check()

        await process.call(work)

    simulate(story)


# ── Clocks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", [-10, 0, 10])
@pytest.mark.parametrize("second", [-10, 0, 10])
def test_clocks_that_differ_by_ten_minutes_cost_time_and_never_a_fence(simulate, first, second):
    async def story(machines):
        guarded = Guarded()
        processes = [await machines.boot(offset_ms=minutes * MINUTES) for minutes in (first, second)]
        done = {process.name: 0 for process in processes}

        async def work(process):
            while done[process.name] < 5:
                try:
                    async with process.app.lease("x", ttl="10s") as held:
                        for _ in range(3):
                            await asyncio.sleep(1.0)
                            guarded.write(held.fence, process.name)
                    done[process.name] += 1
                except hf.LeaseLost:
                    await asyncio.sleep(1.0)

        async with asyncio.timeout(3600):
            await asyncio.gather(*(process.call(lambda p=process: work(p)) for process in processes))
        fences = [fence for fence, _ in guarded.accepted]
        assert fences == sorted(fences)
        owners = {}
        for fence, who in guarded.accepted:
            assert owners.setdefault(fence, who) == who, "one owner for each fence"

    simulate(story)


def test_a_dead_owner_with_a_fast_clock_blocks_nobody_for_longer_than_a_living_one(simulate, monkeypatch):
    async def story(machines):
        fast, other = await machines.boot(offset_ms=10 * MINUTES), await machines.boot()
        holding = asyncio.ensure_future(hold(fast, 1e6, ttl="10s"))
        await asyncio.sleep(0.1)
        monkeypatch.setattr(other.app.runtime().home.doorbell, "alive", lambda _owner: True)
        fast.crash()
        with pytest.raises(ProcessDied):
            await holding
        began = asyncio.get_running_loop().time()
        assert await hold(other, wait="30s") == 2
        assert asyncio.get_running_loop().time() - began < 10 + SKEW_MARGIN_MS / 1000 + 6

    simulate(story)


# ── Declared ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ttl": -1}, "must be 0 to"),
        ({"ttl": 0}, "1 second to 1 day"),
        ({"ttl": "2d"}, "1 second to 1 day"),
        ({"ttl": float("nan")}, "must be 0 to"),
        ({"ttl": "soon"}, "is no duration"),
        ({"wait": -1}, "must be 0 to"),
        ({"wait": True}, "a number of seconds"),
        ({"name": ""}, "name of a lease"),
        ({"name": "a\0b"}, "name of a lease"),
        ({"name": "x" * 201}, "name of a lease"),
        ({"name": 7}, "name of a lease"),
    ],
)
def test_bad_input_is_refused_where_it_is_given(options, told):
    app = hf.App("shop")
    name = options.pop("name", "x")
    for make in (app.lease, app.with_lease):
        with pytest.raises(hf.InvalidInput, match=told):
            make(name, **options)


def test_it_needs_an_open_app(app):
    async def enter():
        async with app.lease("x"):
            pass

    with pytest.raises(hf.ConfigurationError, match="is not open"):
        asyncio.run(enter())
    with pytest.raises(hf.ConfigurationError, match="is not open"), app.lease("x"):
        pass


async def test_it_is_refused_to_whoever_holds_it_already(app):
    async with app:
        lease = app.lease("x")
        async with lease:
            with pytest.raises(hf.InvalidState, match="make another"):
                await lease.__aenter__()
            with pytest.raises(hf.InvalidState, match="would wait for itself"):
                await app.lease("x").__aenter__()
            with pytest.raises(hf.InvalidState, match="would wait for itself"):
                await asyncio.create_task(app.lease("x").__aenter__())
            async with app.lease("y"):
                pass
        async with lease as again:
            assert again.fence == 2


async def test_a_decorated_function_holds_it_during_each_call(app):
    inside = 0

    @app.with_lease("x")
    async def work(n: int) -> int:
        nonlocal inside
        inside += 1
        assert inside == 1
        await asyncio.sleep(0)
        inside -= 1
        return n

    async with app:
        assert await asyncio.gather(*map(work, range(5))) == [0, 1, 2, 3, 4]
    assert work.__name__ == "work"


# ── Without an event loop ───────────────────────────────────────────────────────────────────────────────────────────


def test_threads_take_turns_with_the_plain_form(app):
    inside, fences = [], []

    @app.with_lease("x")
    def also():
        return "done"

    def work():
        with app.lease("x", ttl="20s") as held:
            inside.append(1)
            assert len(inside) == 1
            fences.append(held.check())
            inside.pop()

    with app.sync():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert fences == [1, 2, 3, 4]
        assert also() == "done"
        with app.lease("x"), pytest.raises(hf.InvalidState, match="would wait for itself"), app.lease("x"):
            pass


async def test_the_plain_form_is_refused_where_it_would_block_its_own_loop(app):
    async with app:
        with pytest.raises(hf.InvalidState, match="write 'async with'"), app.lease("x"):
            pass


async def test_it_is_refused_in_a_workflow_body(app):
    @app.workflow
    async def body() -> None:
        async with app.lease("x"):
            pass

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed) as caught:
            await (await body.start()).result("60s")
    assert isinstance(caught.value.__cause__, hf.IOOutsideStep)


def test_a_loss_that_its_holder_notices_first_is_told_to_who_waits_for_it(simulate):
    async def story(machines):
        # A renewal that is not answered for long, and a holder who looks at the very moment at which the lease ends.
        process = await machines.boot(FaultsAt({number: Delay(before_seconds=60.0) for number in range(3, 200)}))
        told = []

        async def work():
            async with process.app.lease("x", ttl="10s") as held:
                waiting = asyncio.ensure_future(held.lost())
                while held.is_held:
                    await asyncio.sleep(0.01)
                with pytest.raises(hf.LeaseLost):
                    held.check()
                async with asyncio.timeout(60):
                    await waiting
                told.append(True)

        with pytest.raises(hf.LeaseLost):
            await process.call(work)
        assert told == [True]
        assert process.app.telemetry.counts["lease_lost"] == 1

    simulate(story)
