"""Code that does not fit what is under way: it is noticed at once, whatever else the body waits for (G13)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.worlds import *  # noqa: F403 - its fixtures

import holdfast as hf

WAITS = ["signal", "timeout", "callback", "poll", "beside"]
RETRY = hf.Retry(initial="1d", jitter=hf.Jitter.NONE)


async def wait_long(kind: str, never: hf.Step[[], bool]) -> str:
    """Wait for a signal, and have a timer run beside it."""
    match kind:
        case "signal":
            return await hf.signal("paid", str, timeout="3d")
        case "timeout":
            async with asyncio.timeout(300_000):
                return await hf.signal("paid", str)
        case "callback":
            return await hf.callback(str, timeout="3d")
        case "poll":
            await hf.poll(every="1d", max_interval="1d")(never)
            return "polled"
        case _:
            async with asyncio.TaskGroup() as group:
                group.create_task(hf.sleep("3d"))
                return await hf.signal("paid", str)


def release(app: hf.App, kind: str, *, audits: bool) -> hf.Workflow[[], str]:
    @app.step
    async def audit() -> None: ...

    @app.step
    async def never() -> bool:
        return False

    @app.workflow(version="old" if audits else "new")
    async def order() -> str:
        if audits:
            await audit()
        return await wait_long(kind, never)

    return order


async def is_at(handle, status):
    return (await handle.status()).status == status


@pytest.mark.parametrize("kind", WAITS)
async def test_a_removed_step_blocks_at_once_although_a_timer_runs(world, eventually, kind):
    old, new = world.app(), world.app()
    before, after = release(old, kind, audits=True), release(new, kind, audits=False)
    async with old.worker():
        handle = await before.start(id="o")
        await eventually(lambda: is_at(handle, "SUSPENDED"))
    async with new.worker():
        await after.handle("o").signal("paid", "yes")
        await eventually(lambda: is_at(after.handle("o"), "BLOCKED"))
        assert "audit#0" in (await after.handle("o").status()).blocked


async def test_once_the_old_code_is_back_it_goes_on_with_what_came_meanwhile(world, eventually):
    old, new = world.app(), world.app()
    before, after = release(old, "signal", audits=True), release(new, "signal", audits=False)
    async with old.worker():
        handle = await before.start(id="o")
        await eventually(lambda: is_at(handle, "SUSPENDED"))
    async with new.worker():
        await after.handle("o").signal("paid", "yes")
        await eventually(lambda: is_at(after.handle("o"), "BLOCKED"))
    async with old.worker():
        assert await before.handle("o") == "yes"


def shop(app: hf.App, cents: list[int], made: list[tuple[str, int]]) -> hf.Workflow[[], str]:
    """The version says that nothing has changed, and the amount comes from elsewhere."""

    @app.step(retry=RETRY)
    async def charge(amount: int) -> str:
        made.append((hf.current().idempotency_key, amount))
        if len(made) == 1:
            raise ConnectionError("again")
        return f"charged {amount}"

    @app.workflow(version="1")
    async def order() -> str:
        return await charge(cents[0]) if cents else "nothing to charge"

    return order


async def begun(world, cents, made):
    app = world.app()
    order = shop(app, cents, made)
    async with app.worker():
        handle = await order.start(id="o")
        while not made or not await is_at(handle, "SUSPENDED"):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("now", [[6], []])
async def test_a_step_under_way_is_compared_although_the_version_is_the_same(world, eventually, now):
    made: list[tuple[str, int]] = []
    await begun(world, [5], made)
    other = world.app()
    order = shop(other, now, made)
    async with other.worker():
        await order.handle("o").retry_now()
        await eventually(lambda: is_at(order.handle("o"), "BLOCKED"))
        assert "charge#0" in (await order.handle("o").status()).blocked
    back = world.app()
    order = shop(back, [5], made)
    async with back.worker():
        await order.handle("o").retry_now()
        assert await order.handle("o") == "charged 5"
    assert [amount for _, amount in made] == [5, 5]
    assert len({key for key, _ in made}) == 1


@pytest.mark.parametrize(("first", "then"), [(None, "fee"), ("fee", None)])
async def test_a_call_that_gets_a_name_or_loses_it_does_not_run_again(world, eventually, first, then):
    made: list[int] = []

    def code(app: hf.App, name: str | None) -> hf.Workflow[[], str]:
        @app.step
        async def charge(amount: int) -> None:
            made.append(amount)

        @app.workflow(version=f"{name}")
        async def order() -> str:
            if name is None:
                await charge(5)
            else:
                await hf.step(charge, 5, name=name)
            return await hf.signal("go", str)

        return order

    old, new = world.app(), world.app()
    before, after = code(old, first), code(new, then)
    async with old.worker():
        handle = await before.start(id="o")
        await eventually(lambda: is_at(handle, "SUSPENDED"))
    async with new.worker():
        await after.handle("o").signal("go", "on")
        await eventually(lambda: is_at(after.handle("o"), "BLOCKED"))
    async with old.worker():
        assert await before.handle("o") == "on"
    assert made == [5]


class Paid(msgspec.Struct):
    cents: int


class PaidIn(msgspec.Struct):
    cents: int
    currency: str


@pytest.mark.parametrize("when", ["taken", "waiting"])
async def test_a_signal_of_another_type_blocks_what_began_under_other_code(world, eventually, when):
    def code(app: hf.App, kind: type) -> hf.Workflow[[], str]:
        @app.workflow(version=kind.__name__)
        async def order() -> str:
            paid = await hf.signal("paid", kind)
            await hf.signal("go")
            return f"paid {paid.cents}"

        return order

    old, new = world.app(), world.app()
    before, after = code(old, Paid), code(new, PaidIn)
    async with old.worker():
        handle = await before.start(id="o")
        if when == "taken":
            await handle.signal("paid", Paid(5))
            await eventually(lambda: has_received(handle))
        await eventually(lambda: is_at(handle, "SUSPENDED"))
    async with new.worker():
        await after.handle("o").signal("go" if when == "taken" else "paid", Paid(5))
        await eventually(lambda: is_at(after.handle("o"), "BLOCKED"))
        assert "currency" in (await after.handle("o").status()).blocked
    async with old.worker():
        await before.handle("o").signal("go")
        assert await before.handle("o") == "paid 5"


async def has_received(handle):
    return any(event.kind == "signal" for event in await handle.history())


async def test_a_signal_of_another_type_is_an_error_in_what_began_under_this_code(app):
    @app.workflow
    async def order() -> int:
        return (await hf.signal("paid", PaidIn)).cents

    async with app.worker():
        handle = await order.start(id="o")
        await handle.signal("paid", Paid(5))
        with pytest.raises(hf.ExecutionFailed, match="SerializationError"):
            await handle
