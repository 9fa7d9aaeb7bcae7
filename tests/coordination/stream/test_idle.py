"""Finding the streams to which nothing was appended for long."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.coordination.stream.accounts import Deposited, accounts

import holdfast as hf
from holdfast.clock import moment
from holdfast.coordination.stream import deleting


async def found(app, before):
    return sorted([each async for each in accounts(app).idle(before)], key=lambda each: each.stream.key)


async def test_those_are_found_whose_last_event_is_from_before(world):
    app = world.app()
    async with app:
        for key, count in (("old", 3), ("older", 1)):
            await accounts(app).at(key, "eu").append(*(Deposited(n) for n in range(1, count + 1)))
        last = max([each.at_ms async for each in accounts(app).at("old", "eu").read()])
        long_after = moment(last) + timedelta(seconds=1)
        first, second = await found(app, long_after)
        assert (first.stream.key, first.version, first.last_at) == (("old", "eu"), 3, moment(last))
        assert (second.stream.key, second.version) == (("older", "eu"), 1)
        assert await found(app, moment(0)) == []
        for each in (first, second):
            await each.stream.delete(version=each.version)
        assert await found(app, long_after + timedelta(days=1)) == []


async def test_one_that_got_an_event_meanwhile_stays(world):
    app = world.app()
    async with app:
        account = accounts(app).at("a")
        (event,) = await account.append(Deposited(1))
        (idle,) = await found(app, moment(event.at_ms + 1))
        await account.append(Deposited(2))
        with pytest.raises(hf.Conflict):
            await idle.stream.delete(version=idle.version)
        assert len([each async for each in account.read()]) == 2


async def test_an_interrupted_deletion_is_found_whatever_its_age_and_ended(world, monkeypatch):
    async def dies(_stream):
        raise ConnectionError

    app = world.app()
    async with app:
        account = accounts(app).at("a")
        await account.append(Deposited(1), Deposited(2))
        with monkeypatch.context() as patch:
            patch.setattr(deleting, "empty", dies)
            with pytest.raises(ConnectionError):
                await account.delete()
        (idle,) = await found(app, moment(0))
        await idle.stream.delete(version=idle.version)
        assert await found(app, moment(0)) == []
        assert (await account.deletion()).emptied == idle.version
