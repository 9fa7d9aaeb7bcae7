"""Attempts whose store fails, and whose callers go away, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.testing import FaultsAt, VirtualClock, faulty_home, run_virtual
from holdfast.testing.faults import Delay, FailBefore


class Outages(FaultsAt):
    """While ``down`` no write arrives."""

    down = False

    def on_write(self, number: int) -> Any:
        return FailBefore() if self.down else super().on_write(number)


def shop(plan: Any) -> tuple[hf.App, MemoryData]:
    data = MemoryData()

    async def open_home() -> Any:
        return faulty_home(open_memory_home(data=data), plan)

    return hf.App("shop", home=open_home, clock=VirtualClock()), data


def test_when_the_store_fails_after_the_handler_its_caller_gets_the_value():
    async def story():
        plan = Outages()
        app, _ = shop(plan)
        runs = []

        @app.idempotent(key="id", lease="30s")
        async def charge(id: str) -> int:
            runs.append(id)
            plan.down = len(runs) == 1
            return len(runs)

        async with app:
            with pytest.raises(hf.ResultNotStored, match="may run it again") as caught:
                await charge("17")
            assert caught.value.value == 1 and isinstance(caught.value.__cause__, hf.StoreError)
            plan.down = False
            with pytest.raises(hf.Busy):  # the record was kept
                await charge("17")
            await asyncio.sleep(33)
            return await charge("17"), await charge("17"), runs

    assert run_virtual(story) == (2, 2, ["17", "17"])


@pytest.mark.parametrize("error", [OSError("the line is dead"), hf.Terminal("no funds")], ids=repr)
def test_when_the_store_fails_after_a_failure_the_failure_is_told(error):
    async def story():
        plan = Outages()
        app, _ = shop(plan)

        @app.idempotent(key="id")
        async def charge(id: str) -> int:
            plan.down = True
            raise error

        async with app:
            with pytest.raises(type(error)) as caught:
                await charge("17")
            return caught.value.__notes__

    (note,) = run_virtual(story)
    assert "was not recorded" in note


def test_when_the_store_does_not_answer_nothing_runs():
    async def story():
        plan = Outages()
        app, _ = shop(plan)

        @app.idempotent(key="id")
        async def charge(id: str) -> None:
            raise AssertionError("ran without its key")

        async with app:
            plan.down = True
            with pytest.raises(hf.StoreError):
                await charge("17")

    run_virtual(story)


@pytest.mark.parametrize("delay", [Delay(before_seconds=5), Delay(after_seconds=5)], ids=["on its way", "applied"])
def test_who_goes_away_while_he_asks_for_the_key_leaves_it_free(delay):
    async def story():
        app, _ = shop(FaultsAt({1: delay}))
        runs = []

        @app.idempotent(key="id")
        async def charge(id: str) -> int:
            runs.append(id)
            return len(runs)

        async with app:
            task = asyncio.create_task(charge("17"))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(5)
            found = await app.idempotency("charge").get("17")
            assert found is not None and found.status == "FREE" and not runs
            return await charge("17")

    assert run_virtual(story) == 1


@pytest.mark.parametrize("delay", [Delay(before_seconds=5), Delay(after_seconds=5)], ids=["on its way", "applied"])
def test_who_goes_away_while_he_asks_for_a_key_that_was_used_leaves_it_free(delay):
    async def story():
        app, _ = shop(FaultsAt({4: delay}))
        runs = []

        @app.idempotent(key="id")
        async def charge(id: str) -> int:
            runs.append(id)
            if len(runs) == 1:
                raise OSError("the line is dead")
            return len(runs)

        async with app:
            with pytest.raises(OSError, match="dead"):
                await charge("17")
            task = asyncio.create_task(charge("17"))  # write 3 is refused, write 4 takes the key
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(5)
            found = await app.idempotency("charge").get("17")
            assert found is not None and found.status == "FREE" and runs == ["17"]
            return await charge("17")

    assert run_virtual(story) == 2


@pytest.mark.parametrize("delay", [Delay(before_seconds=5), Delay(after_seconds=5)], ids=["on its way", "applied"])
def test_who_goes_away_while_his_result_is_recorded_does_not_undo_it(delay):
    async def story():
        app, _ = shop(FaultsAt({2: delay}))
        runs = []

        @app.idempotent(key="id", wait="1m")
        async def charge(id: str) -> int:
            runs.append(id)
            return len(runs)

        async with app:
            task = asyncio.create_task(charge("17"))
            await asyncio.sleep(1)
            assert runs == ["17"]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await charge("17"), runs

    assert run_virtual(story) == (1, ["17"])


def test_who_hears_too_late_that_the_key_is_his_runs_nothing_if_it_is_not():
    async def story():
        data = MemoryData()
        plans = [FaultsAt({1: Delay(after_seconds=60)}), FaultsAt()]
        apps, runs = [], []

        def declare(plan):
            async def open_home() -> Any:
                return faulty_home(open_memory_home(data=data), plan)

            app = hf.App("shop", home=open_home, clock=VirtualClock())
            apps.append(app)

            @app.idempotent(key="id", lease="5s", wait="1m")
            async def charge(id: str) -> int:
                runs.append(plan)
                return len(runs)

            return charge

        late, swift = map(declare, plans)
        async with apps[0], apps[1]:
            first = asyncio.create_task(late("17"))
            await asyncio.sleep(1)
            answers = [await swift("17"), await first]
        return answers, [plans.index(each) for each in runs]

    assert run_virtual(story) == ([1, 1], [1])


def test_who_hears_too_late_that_the_key_is_his_runs_if_it_still_is():
    async def story():
        app, _ = shop(FaultsAt({1: Delay(after_seconds=60)}))
        runs = []

        @app.idempotent(key="id", lease="5s")
        async def charge(id: str) -> int:
            runs.append(id)
            return len(runs)

        async with app:
            return await charge("17"), runs

    assert run_virtual(story) == (1, ["17"])


def test_who_waits_in_vain_is_told_when_to_come_again():
    async def story():
        app, _ = shop(FaultsAt())

        @app.idempotent(key="id", wait="10s")
        async def charge(id: str) -> None:
            await asyncio.sleep(100)

        async with app:
            task = asyncio.create_task(charge("17"))
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            with pytest.raises(hf.Busy) as caught:
                await charge("17")
            waited = asyncio.get_running_loop().time() - began
            await task
            return round(waited), caught.value.retry_after_seconds

    assert run_virtual(story) == (10, 11)


def test_a_lease_is_extended_through_an_outage():
    async def story():
        plan = Outages()
        app, _ = shop(plan)
        runs = []

        @app.idempotent(key="id", lease="30s", wait="10m")
        async def charge(id: str) -> int:
            runs.append(id)
            await asyncio.sleep(300)
            return len(runs)

        async with app:
            task = asyncio.create_task(charge("17"))
            for down in (True, False) * 5:
                plan.down = down
                await asyncio.sleep(8)
            plan.down = False
            return await charge("17"), await task, runs

    assert run_virtual(story) == (1, 1, ["17"])
