"""A document under optimistic locking by hand, and ours, under the same schedules."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from types import SimpleNamespace

from tests.compared import naive
from tests.compared.stage import do, outcome

from holdfast.testing.faults import Delay


@dataclass
class Account:
    cents: int


def add(cents):
    return lambda account: replace(account, cents=account.cents + cents)


def by_hand(save):
    def build(app, stage):
        async def create():
            stage.store.rows["ada"] = {"cents": 100, "version": 1}

        async def deposit(cents, seconds=0):
            row = await stage.store.get("ada")
            await asyncio.sleep(seconds)
            await save(stage.store, "ada", {**row, "cents": row["cents"] + cents})

        async def balance():
            return (await stage.store.get("ada"))["cents"]

        return SimpleNamespace(create=create, deposit=deposit, balance=balance)

    return build


def with_put(app, stage):
    account = app.document(Account, "ada")

    async def create():
        await account.create(Account(100))

    async def deposit(cents, seconds=0):
        read = await account.get()
        await asyncio.sleep(seconds)
        await account.put(add(cents)(read.value), version=read.version)

    async def balance():
        return (await account.get()).value.cents

    return SimpleNamespace(create=create, deposit=deposit, balance=balance)


def with_update(app, stage):
    account = app.document(Account, "ada")

    async def deposit(cents, seconds=0):
        await account.update(add(cents))  # the schedule lets its write be under way for a second

    with_update = with_put(app, stage)
    with_update.deposit = deposit
    return with_update


async def two_at_once(stage):
    one, two = await stage.boot({1: Delay(before_seconds=1)}), await stage.boot()
    await do(two, "create")
    slow = do(one, "deposit", 10, 1)
    await asyncio.sleep(0.5)
    fast = do(two, "deposit", 5)
    return await outcome(fast), await outcome(slow), await do(two, "balance")


def test_of_two_who_save_what_they_have_read_one_is_refused(compare):
    by_naive, by_ours = compare(two_at_once, by_hand(naive.save), with_put)
    assert by_naive == (None, None, 110)  # five cents are lost, and nobody knows
    assert by_ours == (None, "Conflict", 105)


def test_whoever_was_slower_decides_anew(compare):
    by_naive, by_ours = compare(two_at_once, by_hand(naive.save_with_back_off), with_update)
    assert by_naive == (None, "TimeoutError", 105)  # five tries in 31 seconds, all at the version that was gone
    assert by_ours == (None, None, 115)


def test_a_second_save_is_possible(compare):
    async def schedule(stage):
        process = await stage.boot()
        await do(process, "create")
        saves = [await outcome(do(process, "deposit", 10)) for _ in range(2)]
        return saves, await do(process, "balance")

    by_naive, by_ours = compare(schedule, by_hand(naive.save_counting), with_put)
    assert by_naive == (["Refused", "Refused"], 100)
    assert by_ours == ([None, None], 120)
