"""A call that was refused is not applied, wherever it has run before and however late that is written (G4)."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress

import pytest

import holdfast as hf
from holdfast.actors.calling.chain import take_back
from holdfast.testing import FaultsAt, World, run_virtual
from holdfast.testing.faults import Delay, FailBefore, LoseAnswer, PauseAfter, PauseBefore
from holdfast.testing.world import swift

SLOW = (Delay(before_seconds=6), Delay(before_seconds=20), Delay(after_seconds=6), LoseAnswer(), FailBefore())
AGAIN = hf.Retry(max_attempts=40, initial="2s", backoff=1, jitter=hf.Jitter.NONE)
A_WHILE_SECONDS = 120


def bank(app, ledger):
    """Money goes from a to b. The giver gives up after a second, and tries again when the other one calls it."""
    outside = contextvars.copy_context()
    asking = set()

    class Account(hf.Actor, app=app, retry=AGAIN):
        cents: int = 100

        async def give(self, to: str, cents: int) -> None:
            runs = ledger.notes["runs"] = ledger.notes.get("runs", 0) + 1
            if runs == 1:  # it is there before the money has been taken, so that is written beside it
                ledger.notes["asks"] = asyncio.Event()
                task = asyncio.create_task(Account.at(to).ask(self.key), context=outside)
                asking.add(task)
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(ledger.notes["asks"].wait(), 3)
            self.cents -= cents
            try:
                async with asyncio.timeout(1):
                    await Account.at(to).take(cents, seconds=0.2)
            except hf.CallCycle:
                ledger.notes["refused"] = ledger.notes.get("refused", 0) + 1
                self.cents += cents

        async def take(self, cents: int, seconds: float = 0) -> None:
            await asyncio.sleep(seconds)
            self.cents += cents

        async def ask(self, other: str) -> None:
            await asyncio.sleep(4)
            ledger.notes["asks"].set()
            await Account.at(other).take(0)

        @hf.read
        async def balance(self) -> int:
            return self.cents

    async def user():
        return Account

    return user


async def transfer(plan):
    """How much money there is in the end, how often a call was refused, and how many writes the bank has made."""
    world = World(bank, limits=swift())
    try:
        process = await world.boot(plan)
        account = await process.call(process.user)
        await process.call(lambda: hf.send(account.at("a").give, "b", 10, request_id="once"))
        await asyncio.sleep(A_WHILE_SECONDS)
        money = [await process.call(account.at(key).balance) for key in "ab"]
        return sum(money), world.ledger.notes.get("refused", 0), process.wire.writes
    finally:
        await world.close()


def test_a_call_that_is_being_written_is_not_refused():
    _, _, writes = run_virtual(lambda: transfer(FaultsAt()))
    refused = 0
    for number in range(1, writes + 1):
        for fault in SLOW:
            money, times, _ = run_virtual(lambda: transfer(FaultsAt({number: fault})))  # noqa: B023 - it runs now
            assert money == 200, f"{fault} at write {number}"
            refused += times
    assert refused


async def taken_back(plan, seconds):
    """An owner applies a call that nobody waits for any more, by its plan; after so many seconds another process takes
    it back. Whether its caller was gone by then; what is said; what is in the account in the end; what was written.
    """
    world = World(bank, limits=swift())
    try:
        owner, other = world.admit(plan), await world.client()
        theirs = await other.call(other.user)
        left = asyncio.create_task(leave_behind(owner))
        await asyncio.sleep(seconds)
        is_gone = left.done() and left.result()
        runtime = theirs.kind.connect()
        reply = await other.call(lambda: take_back("actor#Account#b", "once", runtime))
        await asyncio.sleep(30)
        owner.resume()
        await asyncio.sleep(30)
        owner.crash()
        await world.boot()
        await asyncio.sleep(30)
        return is_gone, reply is not None, await other.call(theirs.at("b").balance), owner.wire.writes
    finally:
        await world.close()


async def leave_behind(owner):
    """Call, and wait no longer when it runs; true if that has happened."""
    with suppress(Exception):
        await owner.start()
        account = await owner.call(owner.user)
        await owner.call(lambda: call_and_leave(account))
        return True
    return False


async def call_and_leave(account):
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await account.at("b", request_id="once").take(10, seconds=2)


@pytest.mark.parametrize("seconds", [1.5, 4])
@pytest.mark.parametrize("fault", [*SLOW, PauseBefore(), PauseAfter()], ids=repr)
def test_an_owner_that_has_not_written_what_it_applied_writes_it_now_or_never(fault, seconds):
    _, applied, cents, writes = run_virtual(lambda: taken_back(FaultsAt(), seconds))
    assert (applied, cents) == ((True, 110) if seconds == 4 else (False, 100))
    tried = 0
    for number in range(1, writes + 1):
        is_gone, applied, cents, _ = run_virtual(lambda: taken_back(FaultsAt({number: fault}), seconds))  # noqa: B023 - now
        tried += is_gone
        if is_gone:  # a caller that still waits may ask again
            assert cents == (110 if applied else 100), f"{fault} at write {number}"
    assert tried
