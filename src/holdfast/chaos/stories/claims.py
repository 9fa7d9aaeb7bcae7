"""Workers that die, hang or come back while they hold an event."""

from __future__ import annotations

from typing import Final

from holdfast.chaos.looking import head_of
from holdfast.chaos.points import Action, Fault, Moment, Point
from holdfast.chaos.shop import Customer
from holdfast.chaos.stage import LONG_LEASE_MS, Stage, many, order_of, times
from holdfast.clock import SystemClock
from holdfast.crew.ledger import ACCEPTED, REPEAT
from holdfast.crew.process import Said

ORDERS: Final = 3
SHORT_LEASE_MS: Final = 1_200


async def stuck_claim(stage: Stage) -> None:
    """Once the death of the first worker is noticed, and once it only hangs, which cannot be distinguished from being
    slow.
    """
    await _take_over(stage, dies=True)
    await _take_over(stage, dies=False)


async def _take_over(stage: Stage, *, dies: bool) -> None:
    lease_ms = LONG_LEASE_MS if dies else SHORT_LEASE_MS
    first = await stage.worker(_fault(stage, Point.CLAIM, "after", "stop"), lease_ms=lease_ms)
    await stage.publish(ORDERS)
    struck = await stage.stopped(first, "when it has claimed")
    order, lapses = order_of(struck), (await head_of(struck["partition"])).lease_until or 0
    second = await stage.worker(lease_ms=lease_ms)
    earliest = lapses
    if dies:
        await Customer.at("Zoe").move_to("3 Kelp Street")
        stage.say(f"{second} is up and at work: what {first} holds it leaves alone, for that may only be slow")
        earliest = SystemClock().now_ms()
        first.kill()
        stage.fault(f"kill -9: {first} dies; the lease of {order} has long to go")
    taken = (await second.heard(lambda said: _claims(said, struck)))["now"]
    how_long = f"{abs(lapses - taken) / 1000:.1f} s {'before' if taken < lapses else 'after'} its lease lapses"
    stage.say(f"{second} takes {order} over, {how_long}")
    stage.problem(f"{order} was taken from the living, before the lease had lapsed", unless=taken >= earliest)
    if dies:
        stage.problem(f"the death was not noticed: the lease of {order} had to lapse", unless=taken < lapses)
    await stage.quiet()
    await first.stop()
    await second.stop()


async def crash_between_claim_and_effect(stage: Stage) -> None:
    """The first worker has the lease and nothing else."""
    first = await stage.worker(_fault(stage, Point.CLAIM, "after", "kill"))
    await stage.publish(ORDERS)
    order = order_of(await stage.killed(first, "when it has claimed"))
    stage.problem(f"{order} was charged before the crash: it came too late", unless=not stage.attempts(order))
    second = await stage.worker()
    await stage.quiet()
    pids = [attempt.pid for attempt in stage.attempts(order)]
    stage.say(f"{second} takes over: the bank hears of {order} {times(len(pids))}")
    stage.problem(f"{order} was to be charged once, by {second}, and was by {pids}", unless=pids == [second.pid])


async def crash_between_effect_and_mark(stage: Stage) -> None:
    """The first worker has charged, and only the bank knows."""
    first = await stage.worker(_fault(stage, Point.COMMIT, "before", "kill"))
    await stage.publish(ORDERS)
    order = order_of(await stage.killed(first, "when it has charged and not noted it"))
    second = await stage.worker()
    await stage.quiet()
    _tell_attempts(stage, order, first.pid, second.pid)


async def zombie_after_a_pause(stage: Stage) -> None:
    """The first worker has charged and is stopped for longer than its lease. Then it tries to record that."""
    first = await stage.worker(_fault(stage, Point.COMMIT, "before", "stop"), lease_ms=SHORT_LEASE_MS)
    await stage.publish(ORDERS)
    struck = await stage.stopped(first, "when it has charged and not noted it")
    order, partition = order_of(struck), struck["partition"]
    second = await stage.worker(lease_ms=SHORT_LEASE_MS)
    await second.heard(lambda said: _claims(said, struck))
    stage.say(f"its lease has lapsed, {second} has taken {order} over")
    await stage.quiet()
    _tell_attempts(stage, order, first.pid, second.pid)
    before = (await head_of(partition)).body
    await first.resume()
    stage.say(f"SIGCONT: {first} goes on as if nothing had happened")
    answer = await first.heard(lambda said: said.get("partition") == partition and _is_answer(said))
    refused = "refused" in answer
    stage.say(f"its next write, the commit of {order}, is {'refused' if refused else 'ACCEPTED'}")
    stage.problem(f"{order} had a new owner, and the old one could still write", unless=refused)
    stage.problem(f"{order} was changed by its old owner", unless=(await head_of(partition)).body == before)


def _fault(stage: Stage, point: Point, moment: Moment, action: Action) -> Fault:
    """A fault at one of the orders, chosen at random."""
    number = stage.random.randint(1, ORDERS)
    return Fault(at=(point,), moment=moment, action=action, number=number)


def _claims(said: Said, struck: Said) -> bool:
    return said.get("passed") == Point.CLAIM and said["partition"] == struck["partition"]


def _is_answer(said: Said) -> bool:
    return Point.COMMIT in {said.get("passed"), said.get("refused")}


def _tell_attempts(stage: Stage, order: str, first: int, second: int) -> None:
    """Both have charged, under one key, and the bank has accepted one of them."""
    attempts = stage.attempts(order)
    keys = {attempt.key for attempt in attempts}
    accepted = [attempt for attempt in attempts if attempt.what == ACCEPTED]
    heard = f"{times(len(attempts))}, under {many(len(keys), 'key')}"
    stage.say(f"the bank hears of {order} {heard}, and accepts {len(accepted)}")
    answers = [(attempt.pid, attempt.what) for attempt in attempts]
    wanted = [(first, ACCEPTED), (second, REPEAT)]
    stage.problem(f"the bank was to hear of {order} as {wanted}, and heard {answers}", unless=answers == wanted)
