"""Children with options: an id, tags, a timeout, a delay, and what becomes of them when their parent ends."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf


@pytest.fixture
def ship(app, ran):
    @app.step(name="pack")
    async def pack(order: str) -> str:
        ran[order] += 1
        return order

    @app.workflow
    async def ship(order: str, express: bool = False) -> str:
        info = hf.current()
        await pack(order)
        return f"{info.id} {sorted(info.tags.items())} {express}"

    return ship


@pytest.fixture
def waits(app):
    @app.workflow
    async def waits(word: str) -> str:
        return word + await hf.signal("go", str)

    return waits


async def test_a_child_has_the_id_and_the_tags_it_was_given(app, ship):
    @app.workflow
    async def order() -> str:
        return await ship.options(id="s-1", tags={"by": "train"})("lamp", express=True)

    async with app.worker():
        assert await (await order.start(tags={"of": "order"})) == "s-1 [('by', 'train')] True"
        assert (await ship.handle("s-1").status()).status == "COMPLETED"


async def test_without_tags_of_its_own_it_has_those_of_its_parent(app, ship):
    @app.workflow
    async def order() -> str:
        return await ship.options(id="s-1")("lamp")

    async with app.worker():
        assert await (await order.start(tags={"of": "order"})) == "s-1 [('of', 'order')] False"


async def test_its_timeout_is_its_own(app, waits):
    @app.workflow
    async def order() -> str:
        try:
            return await waits.options(timeout="50ms")("a")
        except hf.ExecutionTimedOut:
            return "too late"

    async with app.worker():
        assert await order() == "too late"


async def test_it_can_be_delayed(app, ship, ran, eventually):
    @app.workflow
    async def order() -> str:
        return await ship.options(id="s-1", delay="300ms")("lamp")

    async with app.worker():
        handle = await order.start()
        await eventually(lambda: exists(ship.handle("s-1")))
        status = await ship.handle("s-1").status()
        assert 0 < (status.due_at - status.created_at).total_seconds() <= 0.3  # from when it was asked for
        assert ran == {}
        assert await handle == "s-1 [] False"


async def exists(handle):
    try:
        return await handle.status()
    except hf.NotFound:
        return None


async def test_the_same_id_twice_is_one_execution_and_both_hear_of_its_end(app, ship, ran):
    @app.workflow
    async def order() -> list[str]:
        return await asyncio.gather(*(ship.options(id="s-1")("lamp") for _ in range(3)))

    async with app.worker():
        assert await order() == ["s-1 [] False"] * 3
    assert ran == {"lamp": 1}


async def test_one_that_was_started_elsewhere_is_awaited(app, waits, reaches):
    @app.workflow
    async def order() -> str:
        return await waits.options(id="w")("a")

    async with app.worker():
        started = await waits.start("a", id="w")
        handle = await order.start()
        await reaches(handle, "SUSPENDED")
        await started.signal("go", "!")
        assert await handle == "a!"
        assert await order() == "a!"  # it has ended by now


async def test_one_that_was_started_elsewhere_is_left_alone(app, waits, reaches, eventually):
    @app.workflow
    async def order() -> str:
        return await waits.options(id="w")("a")

    async with app.worker():
        started = await waits.start("a", id="w")
        handle = await order.start()
        await reaches(handle, "SUSPENDED")
        await handle.cancel()
        with pytest.raises(hf.ExecutionCancelled):
            await handle
        await started.signal("go", "!")
        assert await started == "a!"
        assert not any(event.kind == "cancel" for event in await started.history())


async def test_the_same_id_with_another_input_is_refused(app, ship):
    @app.workflow
    async def order() -> str:
        try:
            return await ship.options(id="s-1")("chair")
        except hf.IdempotencyMismatch as error:
            return str(error)

    async with app.worker():
        await (await ship.start("lamp", id="s-1"))
        assert "ship 's-1' was already started with another input" in await order()


@pytest.mark.parametrize("verb", ["cancel", "terminate"])
@pytest.mark.parametrize(("policy", "ending"), [("cancel", "CANCELLED"), ("leave", "COMPLETED"), (None, "CANCELLED")])
async def test_what_becomes_of_it_when_its_parent_ends(app, waits, reaches, eventually, verb, policy, ending):
    @app.workflow
    async def order() -> str:
        return await waits.options(id="w", on_parent_end=policy)("a")

    async with app.worker():
        handle = await order.start()
        await reaches(handle, "SUSPENDED")
        await getattr(handle, verb)("over")
        with pytest.raises(hf.ExecutionError, match="over"):
            await handle

        async def has_parted():
            return (await handle.status()).due_at is None

        await eventually(has_parted)
        if policy == "leave":
            await waits.handle("w").signal("go", "!")
        await reaches(waits.handle("w"), ending)


async def test_outside_of_workflows_it_is_a_start(app, ship):
    async with app.worker():
        assert await ship.options(id="s-1", tags={"a": "b"})("lamp") == "s-1 [('a', 'b')] False"
        handle = await ship.options(id="s-1").start("lamp", express=False)
        assert (handle.id, (await handle.status()).tags) == ("s-1", {"a": "b"})


async def test_options_of_a_detached_start_in_a_body(app, ship):
    @app.workflow
    async def order() -> str:
        return (await ship.options(id="s-1", delay="50ms").start(order="lamp", express=True)).id

    async with app.worker():
        assert await ship.handle(await order()) == "s-1 [] True"


async def test_map_over_a_workflow_with_options(app, ship):
    @app.workflow
    async def order() -> list[str]:
        batch = await hf.map(ship.options(tags={"by": "train"}), ["lamp", "chair"])
        return [each.partition(" ")[2] for each in batch.succeeded]

    async with app.worker():
        assert await order() == ["[('by', 'train')] False"] * 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"id": ""}, "an execution's id"),
        ({"tags": {"a": 1}}, "tag 'a' is text"),
        ({"delay": "1m", "at": "2030"}, "not both"),
        ({"on_parent_end": "stop"}, "on_parent_end is 'cancel' or 'leave', not 'stop'"),
    ],
)
async def test_what_makes_no_sense_is_refused(ship, options, complaint):
    with pytest.raises(hf.InvalidInput, match=complaint):
        ship.options(**options)


async def test_what_is_started_has_no_parent_to_end(app, ship):
    async with app:
        with pytest.raises(hf.InvalidInput, match="on_parent_end is for children, which are called"):
            await ship.options(on_parent_end="leave").start("lamp")
