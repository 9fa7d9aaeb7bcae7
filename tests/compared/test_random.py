"""Random schedules: how often the code by hand goes wrong under them, and that ours never does.

Hypothesis draws who calls, stops, goes on and dies, and which writes fail. What must hold is said without knowing how
either of them works, so the same judge looks at both.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compared import naive
from tests.compared.stage import begin, outcome, play, told
from tests.compared.test_idempotency import by_hand, ours

EXAMPLES, MORE_OF_OURS = 200, 50
PROCESSES = 3
QUIET_SECONDS = 200
HALF_WAY_SECONDS = 0.5

MOVE = st.tuples(
    st.sampled_from(["call", "call", "call and stop", "stop", "go on", "die", "fail"]),
    st.integers(0, PROCESSES - 1),
    st.sampled_from([0.0, 0.004, 0.5, 2.0, 15.0, 70.0]),
)
MOVES = st.lists(MOVE, min_size=4, max_size=20)


def playing(moves):
    """A schedule of these moves, each ``(what, whose, seconds until the next)``. Answers what became of the calls."""

    async def schedule(stage):
        processes = [await stage.boot() for _ in range(PROCESSES)]
        calls = []
        for what, whose, seconds in moves:
            match what:
                case "call":
                    calls.append(begin(processes[whose]))
                case "call and stop":
                    calls.append(begin(processes[whose]))
                    await asyncio.sleep(HALF_WAY_SECONDS)
                    processes[whose].pause()
                case "stop":
                    processes[whose].pause()
                case "go on":
                    processes[whose].resume()
                case "die":
                    processes[whose].crash()
                    processes[whose] = await stage.boot()
                case "fail":
                    stage.fail_writes(1)
            await asyncio.sleep(seconds)
        for process in processes:
            process.resume()
        await asyncio.sleep(QUIET_SECONDS)
        stage.fail_writes(0)
        last = await told(await stage.boot())
        return [await outcome(call) for call in calls], last, stage

    return schedule


def compared(judge, by_naive, by_ours):
    """How often each naive build was found guilty; ours never may be."""
    guilty = Counter()

    @settings(max_examples=EXAMPLES, derandomize=True)  # or a test would depend on luck
    @given(MOVES)
    def on_the_same_schedules(moves):
        assert judge(moves, *play(playing(moves), by_ours)) == ""
        for name, build in by_naive.items():
            guilty[name] += judge(moves, *play(playing(moves), build)) != ""

    @settings(max_examples=MORE_OF_OURS)
    @given(MOVES)
    def on_others(moves):
        assert judge(moves, *play(playing(moves), by_ours)) == ""

    on_the_same_schedules()
    on_others()
    return guilty


# ── Idempotency ─────────────────────────────────────────────────────────────────────────────────────────────────────


def one_outcome(moves, answers, last, stage):
    """What is wrong: two callers were told of two payments, a key is stuck, or it paid more often than it had to."""
    told_of = {answer for answer in [*answers, last] if answer.startswith("payment")}
    if last in {"InProgress", "Busy"}:
        return f"nobody is at it, and the last call was answered {last}"
    if len(told_of) > 1:
        return f"callers were told of {sorted(told_of)}"
    disturbed = sum(what in {"stop", "call and stop", "die"} for what, _, _ in moves)
    return "" if len(stage.seen) <= 1 + disturbed else f"{len(stage.seen)} payments, disturbed {disturbed} times"


def test_one_key_has_one_outcome_under_any_schedule():
    by_naive = {once.__name__: by_hand(once) for once in (naive.once_cleaning_up, naive.once, naive.once_with_expiry)}
    guilty = compared(one_outcome, by_naive, ours)
    assert all(guilty[name] > 0 for name in by_naive), guilty


# ── Lock ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def write_down(stage, fence=0):
    """Read the list, think, and write it back with a number of one's own, which is answered."""
    stage.seen.append("begun")
    number, row = len(stage.seen), await stage.store.get("list") or {"numbers": [], "fence": 0}
    await asyncio.sleep(1)
    longer = {"numbers": [*row["numbers"], number], "fence": fence}
    await stage.store.put("list", longer, when=lambda there: there is None or there["fence"] <= fence)
    return number


def under(lock):
    def build(app, stage):
        return lambda: lock(stage.store, "lock", lambda: write_down(stage))

    return build


def under_ours(app, stage):
    async def work():
        async with app.lease("list", ttl="10s", wait="2s") as held:
            return await write_down(stage, held.fence)

    return work


def nothing_lost(_moves, answers, last, stage):
    """What is wrong: a caller was told that his number is in the list, and it is not."""
    kept = stage.store.rows["list"]["numbers"] if "list" in stage.store.rows else []
    lost = [answer for answer in [*answers, last] if isinstance(answer, int) and answer not in kept]
    return f"{lost} are not in {kept}" if lost else ""


def test_what_was_written_under_a_lock_stays_under_any_schedule():
    by_naive = {lock.__name__: under(lock) for lock in (naive.with_lock, naive.with_owned_lock)}
    guilty = compared(nothing_lost, by_naive, under_ours)
    assert all(guilty[name] > 0 for name in by_naive), guilty
