"""A stream of events by hand, and ours, under the same schedules."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace

from tests.compared import naive
from tests.compared.stage import do, outcome

import holdfast as hf


@dataclass
class Deposited:
    cents: int


@dataclass
class Withdrawn:
    cents: int


class TooLittle(Exception):
    """There is not that much in the account."""


def balance_of(events):
    return sum(event["cents"] for event in events)


def by_hand(app, stage):
    async def withdraw(cents, seconds):
        have = balance_of(await naive.load(stage.store, "ada"))
        await asyncio.sleep(seconds)
        if have < cents:
            raise TooLittle
        await naive.append(stage.store, "ada", {"cents": -cents})

    async def deposit(cents):
        await naive.append(stage.store, "ada", {"cents": cents})

    async def balance():
        return balance_of(await naive.load(stage.store, "ada"))

    return SimpleNamespace(withdraw=withdraw, deposit=deposit, balance=balance)


def change(cents: int, event: Deposited | Withdrawn) -> int:
    return cents + event.cents if isinstance(event, Deposited) else cents - event.cents


def ours(app, stage):
    account = app.streams(Deposited | Withdrawn, name="accounts").at("ada")
    fold = hf.Fold(int, change)

    async def withdraw(cents, seconds):
        version, have = 0, 0
        async for recorded in account.read():
            version, have = recorded.version, change(have, recorded.event)
        await asyncio.sleep(seconds)
        if have < cents:
            raise TooLittle
        await account.append(Withdrawn(cents), version=version)

    async def deposit(cents):
        await account.append(Deposited(cents))

    async def balance():
        return await account.state(fold)

    return SimpleNamespace(withdraw=withdraw, deposit=deposit, balance=balance)


def test_of_two_who_decide_on_the_same_past_one_is_refused(compare):
    async def schedule(stage):
        one, two = await stage.boot(), await stage.boot()
        await do(one, "deposit", 100)
        first, second = do(one, "withdraw", 80, 1), do(two, "withdraw", 70, 1.5)
        return await outcome(first), await outcome(second), await do(one, "balance")

    by_naive, by_ours = compare(schedule, by_hand, ours)
    assert by_naive == (None, None, -50)
    assert by_ours == (None, "Conflict", 20)


def test_a_state_is_made_of_all_events(compare):
    async def schedule(stage):
        process = await stage.boot()
        for _ in range(150):
            await do(process, "deposit", 1)
        return await do(process, "balance")

    by_naive, by_ours = compare(schedule, by_hand, ours)
    assert by_naive == 100  # as many as the store answers at once
    assert by_ours == 150
