"""What a saga has undone no longer holds: nobody goes on from it, neither by a retry nor by a fork."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf

ONCE = hf.Retry(max_attempts=1)


@pytest.fixture
def shop(app, ran, broken):
    return Shop(app, ran, broken)


class Shop:
    """Charging, which can be undone, and shipping, which can fail."""

    def __init__(self, app, ran, broken):
        @app.step
        async def charge(what: str) -> str:
            ran[f"charge {what}"] += 1
            return what

        @charge.undo(retry=ONCE)
        async def refund(what: str) -> None:
            ran[f"refund {what}"] += 1
            if f"refund {what}" in broken:
                raise LookupError("closed")

        @app.step(retry=ONCE)
        async def ship(what: str) -> str:
            ran[f"ship {what}"] += 1
            if what in broken:
                raise LookupError("out of stock")
            return what

        self.charge, self.ship = charge, ship


async def failed(handle):
    with pytest.raises(hf.ExecutionError):
        await handle.result("60s")
    return handle


async def test_a_fork_does_not_keep_what_was_undone(app, shop, ran, broken):
    @app.workflow
    async def order() -> str:
        async with hf.saga():
            await shop.charge("a")
            await shop.charge("b")
            return await shop.ship("lamp")

    broken.add("lamp")
    async with app.worker():
        handle = await failed(await order.start(id="o"))
        broken.clear()
        told = r"undoing, charge#0, charge#1, which this fork would keep\. Start .* or fork before 'charge#0'"
        with pytest.raises(hf.InvalidState, match=told):
            await handle.fork("o-2", before="ship#0")
        with pytest.raises(hf.InvalidState, match=r"undoing, charge#0, which .* fork before 'charge#0'"):
            await handle.fork("o-3", before="charge#1")
        with pytest.raises(hf.InvalidState, match=r"no longer hold.* fork this one before 'charge#0'$"):
            await handle.retry()
        assert ran["ship lamp"] == 1
        assert await (await handle.fork("o-4", before="charge#0")).result("60s") == "lamp"
    assert ran == {"charge a": 2, "charge b": 2, "ship lamp": 2, "refund a": 1, "refund b": 1}


async def test_a_fork_of_everything_has_undone_what_the_original_has(app, shop, ran, broken):
    @app.workflow
    async def order() -> str:
        async with hf.saga():
            await shop.charge("a")
            return await shop.ship("lamp")

    broken.add("lamp")
    async with app.worker():
        handle = await failed(await order.start(id="o"))
        broken.clear()
        await failed(await handle.fork("o-2"))
    assert ran == {"charge a": 1, "ship lamp": 1, "refund a": 1}


@pytest.fixture
def rounds(app, shop):
    @app.workflow
    async def orders(end: str = "done") -> str:
        for what in ("a", "b", "c"):
            try:
                async with hf.saga():
                    await shop.charge(what)
                    await shop.ship(what)
            except LookupError:
                continue
        return await shop.ship(end)

    return orders


async def test_what_was_undone_before_stays_undone_in_the_fork(app, rounds, ran, broken):
    broken |= {"b", "done"}
    async with app.worker():
        handle = await failed(await rounds.start(id="o"))
        broken.clear()
        assert await (await handle.fork("o-2", before="ship#3")).result("60s") == "done"
    assert ran["charge b"] == ran["refund b"] == 1


async def test_a_fork_is_possible_before_the_first_step_whose_undo_it_would_leave_out(app, rounds, ran, broken):
    broken |= {"b", "c", "done"}
    async with app.worker():
        handle = await failed(await rounds.start(id="o"))
        with pytest.raises(hf.InvalidState, match=r"undoing, charge#1, which .* fork before 'charge#1'"):
            await handle.fork("o-2", before="ship#1")
        with pytest.raises(hf.InvalidState, match=r"undoing, charge#2, which .* fork before 'charge#2'"):
            await handle.fork("o-2", before="ship#2")
        broken.clear()
        assert await (await handle.fork("o-3", before="charge#1")).result("60s") == "done"
    assert ran["charge a"] == 1
    assert ran["charge b"] == ran["charge c"] == 2


async def test_what_another_block_has_done_is_not_taken_for_undone(app, shop, ran, broken):
    bought = asyncio.Event()

    @app.step
    async def buy() -> None:
        bought.set()

    @app.step
    async def until_bought() -> None:
        await bought.wait()

    async def one(what: str, *, late: bool) -> None:
        async with hf.saga():
            await shop.charge(what)
            if not late:
                await until_bought()
            await shop.ship(what)
        await buy()

    @app.workflow
    async def orders() -> None:
        await asyncio.gather(one("bad", late=False), one("good", late=True), return_exceptions=True)
        await shop.ship("rest")

    broken |= {"bad", "rest"}
    async with app.worker():
        handle = await failed(await orders.start(id="o"))
        with pytest.raises(hf.InvalidState, match=r"undoing, one#0/charge#0, which .* before 'one#0/charge#0'$"):
            await handle.fork("o-2", before="one#0/ship#0")
        broken.clear()
        await (await handle.fork("o-3", before="ship#0")).result("60s")
    assert ran["charge bad"] == ran["refund bad"] == ran["charge good"] == 1
    assert ran["refund good"] == 0


async def test_steps_with_names_of_their_own_do_not_hold_either_when_they_were_undone(app, shop, ran, broken):
    @app.workflow
    async def order() -> str:
        async with hf.saga():
            await hf.step(shop.charge, "a", name="charge:17")
            return await shop.ship("lamp")

    broken.add("lamp")
    async with app.worker():
        handle = await failed(await order.start(id="o"))
        broken.clear()
        with pytest.raises(hf.InvalidState, match=r"was compensated \(charge:17.undo\).* before 'charge:17'$"):
            await handle.retry()
        with pytest.raises(hf.InvalidState, match=r"undoing, charge:17, which this fork would keep"):
            await handle.fork("o-2", before="ship#0")
    assert ran == {"charge a": 1, "ship lamp": 1, "refund a": 1}


async def test_a_fork_does_not_keep_what_is_being_undone(app, shop, ran, broken, reaches):
    """The undo waits for its next attempt."""

    @app.step
    async def book() -> str:
        return "booked"

    @book.undo(retry=hf.Retry(initial="1d"))
    async def unbook() -> None:
        ran["unbook"] += 1
        raise LookupError("closed")

    @app.workflow
    async def order() -> str:
        async with hf.saga():
            await book()
            return await shop.ship("lamp")

    broken.add("lamp")
    async with app.worker():
        handle = await order.start(id="o")
        await reaches(handle, "SUSPENDED")
        for before in ("ship#0", None):
            with pytest.raises(hf.InvalidState, match="has undone, or is undoing, book#0, which"):
                await handle.fork("o-2", before=before)
    assert ran["unbook"] == 1


async def test_a_step_whose_undo_gave_up_holds(app, shop, ran, broken):
    @app.workflow
    async def order() -> str:
        async with hf.saga():
            await shop.charge("a")
            return await shop.ship("lamp")

    broken |= {"lamp", "refund a"}
    async with app.worker():
        handle = await failed(await order.start(id="o"))
        broken.clear()
        assert await (await handle.fork("o-2", before="ship#0")).result("60s") == "lamp"
    assert ran["charge a"] == 1


async def test_code_that_no_longer_gets_so_far_is_asked_by_names(world):
    """The body that undid it has changed since, so that it does not replay to its undo."""
    ran = []

    def code(app, *, changed):
        @app.step
        async def charge() -> str:
            return "paid"

        @charge.undo
        async def refund() -> None:
            ran.append("refund")

        @app.step(retry=ONCE)
        async def ship() -> str:
            if not changed:
                raise LookupError("out of stock")
            ran.append("ship")
            return "shipped"

        @app.workflow
        async def order() -> str:
            if changed:
                await hf.sleep("1s")
            await charge()
            async with hf.saga():
                await charge()
                await charge()
                return await ship()

        return order

    first, second = world.app(), world.app()
    before, after = code(first, changed=False), code(second, changed=True)
    async with first.worker():
        await failed(await before.start(id="o"))
    async with second.worker():
        with pytest.raises(hf.InvalidState, match=r"undoing, charge#1, charge#2, which .* before 'charge#1'"):
            await after.handle("o").fork("o-2", before="ship#0")
    assert ran == ["refund", "refund"]
