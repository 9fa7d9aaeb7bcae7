"""Sagas: steps that know how to undo themselves."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

import holdfast as hf

ONCE = hf.Retry(max_attempts=1)


class Shop:
    """Steps that keep a ledger of what was done and undone, and can be told to fail."""

    def __init__(self, app: hf.App, *, undo_retry: hf.Retry = ONCE) -> None:
        self.ledger: list[str] = []
        self.broken: set[str] = set()
        self.gates: dict[str, asyncio.Event] = {}
        self.book = self._step(app, "book", undo_retry)
        self.fly = self._step(app, "fly", undo_retry)
        self.pay = self._step(app, "pay", undo_retry)

        @app.step(name="fail", retry=ONCE)
        async def fail(message: str = "no") -> None:
            raise LookupError(message)

        self.fail = fail

        @app.step(name="note")
        async def note(what: str) -> None:
            self.ledger.append(what)

        self.note = note

    def _step(self, app, name, undo_retry):
        @app.step(name=name, retry=ONCE)
        async def do(what: str = "") -> str:
            await self._pass(name)
            self.ledger.append(f"{name} {what}".strip())
            return what or name

        @do.undo(retry=undo_retry)
        async def undo(result: str) -> None:
            await self._pass(f"un{name}")
            self.ledger.append(f"un{name} {result}" if result != name else f"un{name}")

        return do

    async def _pass(self, name):
        if name in self.gates:
            await self.gates[name].wait()
        if name in self.broken:
            self.ledger.append(f"{name} breaks")
            raise ConnectionError(f"{name} is broken")


@pytest.fixture
def shop(app):
    return Shop(app)


async def test_what_was_done_is_undone_in_reverse(app, shop):
    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.book("hotel")
            await shop.fly()
            await shop.pay("100")
            await shop.fail("declined")

    async with app.worker():
        handle = await trip.start(id="t")
        with pytest.raises(hf.ExecutionFailed, match="LookupError: declined"):
            await handle
        assert (await handle.status()).status == "FAILED"
        names = [event.name for event in await handle.history()]
    assert shop.ledger == ["book hotel", "fly", "pay 100", "unpay 100", "unfly", "unbook hotel"]
    assert [name.split("/")[-1] for name in names[-3:]] == ["pay.undo#0", "fly.undo#0", "book.undo#0"]


async def test_nothing_is_undone_if_nothing_fails(app, shop):
    @app.workflow
    async def trip() -> str:
        async with hf.saga():
            await shop.book()
            await hf.sleep("1ms")
        await shop.note("after")
        return "done"

    async with app.worker():
        assert await trip() == "done"
    assert shop.ledger == ["book", "after"]


async def test_only_the_steps_of_the_block_are_undone(app, shop):
    @app.workflow
    async def trip() -> str:
        await shop.book("outside")
        try:
            async with hf.saga():
                await shop.fly()
                raise ValueError("changed my mind")
        except ValueError as error:
            await shop.pay("instead")
            return str(error)

    async with app.worker():
        assert await trip() == "changed my mind"
    assert shop.ledger == ["book outside", "fly", "unfly", "pay instead"]


async def test_a_failure_after_the_block_undoes_nothing(app, shop):
    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.book()
        await shop.fail()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await trip()
    assert shop.ledger == ["book"]


async def test_what_an_inner_block_finished_is_undone_by_the_outer(app, shop):
    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.book()
            async with hf.saga():
                await shop.fly()
            await shop.pay()
            await shop.fail()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await trip()
    assert shop.ledger == ["book", "fly", "pay", "unpay", "unfly", "unbook"]


async def test_what_an_inner_block_undid_is_not_undone_twice(app, shop):
    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.book()
            try:
                async with hf.saga():
                    await shop.fly()
                    await shop.fail()
            except LookupError:
                await shop.fly("later")
            await shop.fail("after all")

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="after all"):
            await trip()
    assert shop.ledger == ["book", "fly", "unfly", "fly later", "unfly later", "unbook"]


async def test_steps_in_functions_and_tasks_below_belong_to_the_block(app, shop):
    async def helper() -> None:
        await asyncio.gather(shop.book("a"), shop.book("b"))

    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await helper()
            async with asyncio.TaskGroup() as group:
                group.create_task(shop.fly())
            await shop.fail()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await trip()
    assert sorted(shop.ledger[:2]) == ["book a", "book b"]
    assert shop.ledger[2:4] == ["fly", "unfly"]
    assert [each.removeprefix("un") for each in shop.ledger[4:]] == shop.ledger[:2][::-1]


async def test_what_is_finished_last_under_gather_is_undone_first(app, shop):
    shop.gates["book"] = asyncio.Event()

    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await asyncio.gather(shop.book(), opened())
            await shop.fail()

    async def opened() -> None:
        await shop.fly()
        await shop.pay()
        await release()

    @app.step
    async def release() -> None:
        shop.gates["book"].set()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await trip()
    assert shop.ledger == ["fly", "pay", "book", "unbook", "unpay", "unfly"]


@pytest.mark.parametrize("how", ["gather", "TaskGroup"])
async def test_a_step_that_was_still_running_when_its_sibling_failed_is_undone_too(app, how, eventually):
    """Its effect cannot be called back half-way, in a thread least of all: the saga waits for it, then undoes it."""
    failed, ledger = threading.Event(), []

    @app.step(retry=ONCE)
    def reserve() -> str:
        failed.wait(5)
        ledger.append("reserved")
        return "r-1"

    @reserve.undo
    async def release(reservation: str) -> None:
        ledger.append(f"released {reservation}")

    @app.step(retry=ONCE)
    async def assess() -> None:
        asyncio.get_running_loop().call_later(0.005, failed.set)
        raise LookupError("risky")

    @app.workflow
    async def checkout() -> None:
        async with hf.saga():
            if how == "gather":
                await asyncio.gather(reserve(), assess())
            else:
                async with asyncio.TaskGroup() as group:
                    group.create_task(reserve())
                    group.create_task(assess())

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await checkout()
        await eventually(lambda: ledger)
    assert ledger == ["reserved", "released r-1"]


async def test_the_result_of_the_step_is_what_its_undo_is_given(app):
    undone = []

    @app.step
    async def charge(cents: int) -> dict[str, int]:
        return {"payment": cents}

    @charge.undo
    async def refund(payment: dict[str, int]) -> None:
        undone.append(payment)

    @app.step
    async def lock() -> None: ...

    @lock.undo
    def unlock() -> None:
        undone.append("unlocked")

    @app.workflow
    async def job() -> None:
        async with hf.saga():
            await charge(5)
            await lock()
            raise ValueError("no")

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await job()
    assert undone == ["unlocked", {"payment": 5}]


async def test_an_undo_may_be_a_step_of_its_own(app):
    undone = []

    @app.step
    async def charge() -> str:
        return "p-1"

    @charge.undo
    @app.step
    async def refund(payment: str) -> None:
        undone.append(payment)

    @app.workflow
    async def job(fail: bool) -> None:
        async with hf.saga():
            await charge()
            if fail:
                raise ValueError("no")
        await refund("by hand")

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="ValueError: no"):
            await job(True)
        await job(False)
    assert undone == ["p-1", "by hand"]


async def test_an_undo_is_retried(world, fast):
    app = world.app()
    attempts = []

    @app.step
    async def charge() -> str:
        return "p-1"

    @charge.undo(retry=fast)
    async def refund(payment: str) -> None:
        attempts.append(payment)
        if len(attempts) < 3:
            raise ConnectionError("bank is down")

    @app.workflow
    async def job() -> None:
        async with hf.saga():
            await charge()
            raise ValueError("no")

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="ValueError: no"):
            await job()
    assert attempts == ["p-1"] * 3


async def test_an_undo_that_gives_up_is_visible_and_can_be_retried_after_the_repair(app, shop):
    shop.broken.add("unfly")

    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.book()
            await shop.fly()
            await shop.pay()
            await shop.fail("declined")

    async with app.worker():
        handle = await trip.start(id="t")
        with pytest.raises(hf.CompensationFailed, match="fly.undo gave up with ConnectionError: unfly is broken"):
            await handle
        status = await handle.status()
        assert status.status == "COMPENSATION_FAILED"
        assert "1 older steps are not undone" in (status.error or "")
        assert shop.ledger[-2:] == ["unpay", "unfly breaks"]

        shop.broken.clear()
        await handle.retry()
        with pytest.raises(hf.ExecutionFailed, match="LookupError: declined"):
            await handle
    assert shop.ledger == ["book", "fly", "pay", "unpay", "unfly breaks", "unfly", "unbook"]


async def test_cancelling_undoes(app, shop, reaches):
    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.book()
            await hf.sleep("1h")

    async with app.worker():
        handle = await trip.start(id="t")
        await reaches(handle, "SUSPENDED")
        await handle.cancel()
        with pytest.raises(hf.ExecutionCancelled):
            await handle
    assert shop.ledger == ["book", "unbook"]


async def test_cancelling_does_not_interrupt_an_undo(app, shop, eventually):
    gate = shop.gates["unfly"] = asyncio.Event()

    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.book()
            await shop.fly()
            await shop.note("failing")
            await shop.fail("no")

    async with app.worker():
        handle = await trip.start(id="t")
        await eventually(lambda: "failing" in shop.ledger)
        await handle.cancel()
        await asyncio.sleep(0.01)
        gate.set()
        with pytest.raises((hf.ExecutionFailed, hf.ExecutionCancelled)):
            await handle
    assert shop.ledger == ["book", "fly", "failing", "unfly", "unbook"]


async def test_a_time_out_around_the_block_undoes(app, shop):
    @app.workflow
    async def trip() -> str:
        try:
            async with asyncio.timeout(0.01), hf.saga():
                await shop.book()
                await hf.signal("paid")
        except TimeoutError:
            return "too late"
        return "?"

    async with app.worker():
        assert await trip() == "too late"
    assert shop.ledger == ["book", "unbook"]


async def test_an_execution_time_out_undoes(app, shop):
    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.book()
            await hf.signal("paid")

    async with app.worker():
        with pytest.raises(hf.ExecutionTimedOut):
            await (await trip.start(timeout="20ms"))
    assert shop.ledger == ["book", "unbook"]


@pytest.mark.parametrize("ambiguous", [True, False])
async def test_a_step_that_may_have_happened_is_undone_if_that_is_asked_for(app, ambiguous):
    undone = []

    @app.step(timeout="5ms", retry=ONCE)
    async def charge() -> str:
        await asyncio.Event().wait()
        return "never"

    @charge.undo(ambiguous=ambiguous)
    async def refund(payment: str | None) -> None:
        undone.append(payment)

    @app.workflow
    async def job() -> None:
        async with hf.saga():
            await charge()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="StepTimeout"):
            await job()
    assert undone == ([None] if ambiguous else [])


async def test_a_step_cancelled_half_way_is_waited_for_and_undone(world, app, shop, eventually):
    gate = shop.gates["book"] = asyncio.Event()

    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            await shop.fly()
            await shop.book()

    async with app.worker():
        handle = await trip.start(id="t")
        await eventually(lambda: shop.ledger == ["fly"])
        await handle.cancel()
        await asyncio.sleep(0.5 if world.name == "dynamodb" else 0.01)  # for its turn to hear of it
        assert shop.ledger == ["fly"]
        gate.set()
        with pytest.raises(hf.ExecutionCancelled):
            await handle
    assert shop.ledger == ["fly", "book", "unbook", "unfly"]


async def test_a_step_given_up_inside_the_block_is_undone_if_the_block_fails(app, shop, eventually):
    gate = shop.gates["book"] = asyncio.Event()

    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.002):
                    await shop.book()
            await shop.note("gave up")
            await shop.fail()

    async with app.worker():
        handle = await trip.start(id="t")
        await eventually(lambda: shop.ledger == ["gave up"])
        gate.set()
        with pytest.raises(hf.ExecutionFailed):
            await handle
    assert shop.ledger == ["gave up", "book", "unbook"]


async def test_a_step_given_up_inside_the_block_is_stopped_if_the_block_ends_well(app, shop):
    started, stopped = asyncio.Event(), []

    @app.step
    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("stopped")

    @slow.undo
    async def unslow() -> None:
        stopped.append("undone")

    @app.step
    async def until_it_has_started() -> None:
        await started.wait()

    @app.workflow
    async def trip() -> str:
        async with hf.saga():
            task = asyncio.create_task(slow())
            await until_it_has_started()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return "ended"

    async with app.worker():
        assert await trip() == "ended"
    assert stopped == ["stopped"]


async def test_sagas_beside_each_other_do_not_mix(app, shop):
    @app.workflow
    async def trips() -> list[str]:
        async def trip(name: str, fails: bool) -> str:
            try:
                async with hf.saga():
                    await shop.book(name)
                    await shop.fly(name)
                    if fails:
                        await shop.fail()
            except LookupError:
                return f"{name} undone"
            return f"{name} done"

        return list(await asyncio.gather(trip("a", True), trip("b", False), trip("c", True)))

    async with app.worker():
        assert await trips() == ["a undone", "b done", "c undone"]
    for name in "ac":
        own = [each for each in shop.ledger if each.endswith(name)]
        assert own == [f"book {name}", f"fly {name}", f"unfly {name}", f"unbook {name}"]
    assert [each for each in shop.ledger if each.endswith("b")] == ["book b", "fly b"]


# ── New runs ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_new_run_inside_a_block_is_refused_and_the_block_undone(app, shop):
    @app.workflow
    async def trip(left: int) -> str:
        async with hf.saga():
            await shop.book(str(left))
            if left:
                hf.continue_as_new(left - 1)
        return "done"

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="continue_as_new inside hf.saga.. would forget how to undo"):
            await trip(2)
    assert shop.ledger == ["book 2", "unbook 2"]


async def test_a_new_run_asked_for_by_a_task_from_outside_the_block_is_refused_too(app, shop):
    @app.workflow
    async def trip(left: int) -> str:
        go = asyncio.Event()

        async def another_run() -> None:
            await go.wait()
            hf.continue_as_new(left - 1)

        task = asyncio.create_task(another_run())
        async with hf.saga():
            await shop.book(str(left))
            go.set()
            await task
        return "done"

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="continue_as_new inside hf.saga.. would forget how to undo"):
            await trip(2)
    assert shop.ledger == ["book 2", "unbook 2"]


async def test_a_new_run_after_the_block_keeps_what_it_has_done(app, shop):
    @app.workflow
    async def trip(left: int) -> str:
        async with hf.saga():
            await shop.book(str(left))
        if left:
            hf.continue_as_new(left - 1)
        return "done"

    async with app.worker():
        assert await trip(2) == "done"
    assert shop.ledger == ["book 2", "book 1", "book 0"]


async def test_a_new_run_does_not_forget_a_block_that_another_task_is_in(app, shop):
    @app.workflow
    async def trip(left: int) -> str:
        booked = asyncio.Event()

        async def book() -> None:
            async with hf.saga():
                await shop.book(str(left))
                booked.set()
                await hf.signal("never")

        if left:
            booking = asyncio.create_task(book())
            await booked.wait()
            hf.continue_as_new(left - 1)
            await booking
        return "done"

    async with app.worker():
        assert await trip(1) == "done"
    assert shop.ledger == ["book 1", "unbook 1"]


# ── Crashes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_crash_between_two_undos_repeats_none_of_those_done(world, eventually):
    first, second = world.app(), world.app()
    shops = Shop(first), Shop(second)
    shops[1].ledger = shops[0].ledger
    shops[0].gates["unbook"] = asyncio.Event()

    def code(app, shop):
        @app.workflow
        async def trip() -> None:
            async with hf.saga():
                await shop.book()
                await shop.fly()
                await shop.fail()

        return trip

    before, after = code(first, shops[0]), code(second, shops[1])
    async with first.worker(grace=0):
        await before.start(id="t")
        await eventually(lambda: "unfly" in shops[0].ledger)
        await asyncio.sleep(0.005)
    async with second.worker():
        with pytest.raises(hf.ExecutionFailed):
            await after.handle("t")
    assert shops[0].ledger == ["book", "fly", "unfly", "unbook"]
