"""What becomes of children when their parent ends, however that ends and whoever works on it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import holdfast as hf

ENDS = ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT", "TERMINATED"]


def family(app, *, gate=None):
    """A parent that awaits one child and has started another one; and ends as it is told to."""
    begun = asyncio.Event()

    @app.step
    async def hold() -> None:
        begun.set()
        if gate is not None:
            await gate.wait()

    @app.workflow
    async def awaited() -> str:
        return await hf.signal("go", str)

    @app.workflow
    async def detached() -> str:
        return await hf.signal("go", str)

    @app.workflow
    async def parent(how: str) -> str:
        child = asyncio.create_task(awaited())
        await detached.start(id="d")
        await hold()
        match how:
            case "COMPLETED":
                return f"left {child.done()}"
            case "FAILED":
                raise LookupError("no")
            case _:
                return await child

    return parent, awaited, detached, begun


async def the_only(app, workflow, eventually):
    """The one execution of this workflow, once it waits."""

    async def found():
        return [each.id for each in (await app.executions(workflow, status="SUSPENDED")).executions]

    (id,) = await eventually(found)
    return app.handle(workflow, id)


async def end(handle, how):
    match how:
        case "CANCELLED":
            await handle.cancel("enough")
        case "TERMINATED":
            await handle.terminate("enough")
        case _:
            pass
    with contextlib.suppress(hf.ExecutionError):
        await handle
    assert (await handle.status()).status == how


@pytest.mark.parametrize("how", ENDS)
async def test_an_awaited_child_is_cancelled_and_a_detached_one_goes_on(app, eventually, reaches, how):
    parent, _, detached, _ = family(app)
    async with app.worker():
        handle = await parent.start(how, id="p", timeout="1s" if how == "TIMED_OUT" else None)
        if how not in ("COMPLETED", "FAILED"):
            child = await the_only(app, "awaited", eventually)
            await reaches(handle, "SUSPENDED")
        await end(handle, how)
        if how in ("COMPLETED", "FAILED"):

            async def gone():
                page = await app.executions("awaited", status="CANCELLED")
                return len(page.executions) == 1

            await eventually(gone)
        else:
            with pytest.raises(hf.ExecutionCancelled, match="its parent no longer waits for it"):
                await child
        await detached.handle("d").signal("go", "on")
        assert await detached.handle("d") == "on"


@pytest.mark.parametrize("how", ["COMPLETED", "FAILED"])
async def test_so_it_is_although_the_worker_stops_just_then(world, eventually, how):
    """The parent ends while its worker waits for a step and starts nothing new any more: the next worker does it."""
    gate, late = asyncio.Event(), []
    first, second = world.app(), world.app()
    parent, _, _, begun = family(first, gate=gate)
    parent_there, *_ = family(second)

    async def open_late(host):
        await eventually(lambda: host.draining)
        late.append("draining")
        gate.set()

    async with first.worker(grace="10s"):
        await parent.start(how, id="p")
        await the_only(first, "awaited", eventually)
        await begun.wait()
        opening = asyncio.create_task(open_late(first.runtime().host))
    await opening
    assert late == ["draining"]
    async with second.worker():
        with contextlib.suppress(hf.ExecutionError):
            await parent_there.handle("p")
        assert (await parent_there.handle("p").status()).status == how

        async def cancelled():
            page = await second.executions("awaited", status="CANCELLED")
            return len(page.executions) == 1

        await eventually(cancelled)


@pytest.mark.parametrize("worker", ["at the time", "later"])
async def test_a_terminated_parent_lets_go_of_all_its_families(world, reaches, eventually, worker):
    """Of children and their children, whether a worker is there to see it or comes later."""
    apps = world.app(), world.app()

    def code(app):
        @app.workflow
        async def leaf(n: int) -> None:
            await hf.signal("never")

        @app.workflow
        async def branch(n: int) -> None:
            await asyncio.gather(leaf(1), leaf(2))

        @app.workflow
        async def root() -> None:
            await asyncio.gather(branch(1), branch(2))

        return root

    async def all_in(app, status, count):
        async def found():
            pages = [await app.executions(name, status=status) for name in ("branch", "leaf")]
            return sum(len(page.executions) for page in pages) == count

        await eventually(found)

    first, second = (code(app) for app in apps)
    async with apps[0].worker():
        handle = await first.start(id="r")
        await all_in(apps[0], "SUSPENDED", 6)
        await reaches(handle, "SUSPENDED")
        if worker == "at the time":
            await handle.terminate("enough")
            await all_in(apps[0], "CANCELLED", 6)
    if worker == "later":
        async with apps[1]:
            await second.handle("r").terminate("enough")
    async with apps[1].worker():
        await all_in(apps[1], "CANCELLED", 6)
        await eventually(lambda: at_rest(second.handle("r")))


async def at_rest(handle):
    """Whether nothing is due for it any more."""
    return (await handle.status()).due_at is None


async def test_terminating_what_never_began_starts_nothing(app, reaches):
    @app.workflow
    async def child() -> None:
        await hf.signal("never")

    @app.workflow
    async def parent() -> None:
        await child()

    async with app:
        handle = await parent.start(id="p")
        await handle.terminate("enough")
        assert (await handle.status()).due_at is None
    async with app.worker():
        assert (await app.executions("child")).executions == ()


async def test_a_terminated_execution_whose_code_has_gone_is_left_alone_in_the_end(memory_world, reaches, eventually):
    """Nobody can tell any more which children it had."""
    first, second = memory_world.app(), memory_world.app()

    @first.workflow(name="parent")
    async def before() -> None:
        await hf.sleep("1ms")
        await hf.signal("never")

    @second.workflow(name="parent")
    async def after() -> None:
        raise LookupError("other code")

    async with first.worker():
        handle = await before.start(id="p")
        await reaches(handle, "SUSPENDED")
    async with second:
        await after.handle("p").terminate("enough")
    async with second.worker():
        await eventually(lambda: at_rest(after.handle("p")))
        assert (await after.handle("p").status()).status == "TERMINATED"


# ── Paused ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def job_of(app, done):
    @app.step
    async def note(what: str) -> None:
        done.append(what)

    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("go")
            await note("went on")
        finally:
            await note("cleaned up")

    return job


@pytest.mark.parametrize("worker", ["at the time", "later"])
async def test_a_paused_execution_that_is_cancelled_cleans_up(world, reaches, worker):
    done, apps = [], (world.app(), world.app())
    first, second = (job_of(app, done) for app in apps)
    async with apps[0].worker():
        handle = await first.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.pause()
        await handle.signal("go")
        if worker == "at the time":
            await handle.cancel("enough")
            with pytest.raises(hf.ExecutionCancelled):
                await handle
    async with apps[1]:
        if worker == "later":
            await second.handle("j").cancel("enough")
    async with apps[1].worker():
        with pytest.raises(hf.ExecutionCancelled):
            await second.handle("j")
    assert "cleaned up" in done


@pytest.mark.parametrize("worker", ["at the time", "later"])
async def test_a_paused_execution_runs_out_of_time(world, reaches, worker):
    done, apps = [], (world.app(), world.app())
    first, second = (job_of(app, done) for app in apps)
    async with apps[0].worker():
        handle = await first.start(id="j", timeout="500ms")
        await reaches(handle, "SUSPENDED")
        await handle.pause()
        if worker == "at the time":
            with pytest.raises(hf.ExecutionTimedOut):
                await handle
    async with apps[1].worker():
        with pytest.raises(hf.ExecutionTimedOut):
            await second.handle("j")
    assert done == ["cleaned up"]


async def test_a_paused_execution_with_a_step_under_way_runs_out_of_time(app, eventually):
    """Its worker has it in hand when its time runs out."""
    gate, done = asyncio.Event(), []

    @app.step
    async def slow() -> None:
        done.append("began")
        await gate.wait()

    @app.step
    async def note(what: str) -> None:
        done.append(what)

    @app.workflow
    async def job() -> None:
        try:
            await slow()
            await hf.signal("go")
        finally:
            await note("cleaned up")

    async with app.worker():
        handle = await job.start(id="j", timeout="500ms")
        await eventually(lambda: done)
        await handle.pause()
        with pytest.raises(hf.ExecutionTimedOut):
            await handle
    assert done == ["began", "cleaned up"]


async def test_a_paused_execution_is_not_due_before_its_time_runs_out(memory_world, reaches, eventually):
    """So many as one likes cost nothing while they are paused, whatever they are sent."""
    done, app = [], memory_world.app()
    job = job_of(app, done)
    async with app.worker():
        for timeout in (None, "1h"):
            handle = await job.start(id=f"j-{timeout}", timeout=timeout)
            await reaches(handle, "SUSPENDED")
            await handle.pause()
            await handle.signal("go")
            if timeout is None:
                await eventually(lambda handle=handle: at_rest(handle))
            else:
                await eventually(lambda handle=handle: due_late(handle))
            assert (await handle.status()).status == "PAUSED"
            await handle.resume()
            await handle
    assert done == ["went on", "cleaned up"] * 2


async def due_late(handle):
    """Whether it is due when its time runs out."""
    status = await handle.status()
    return status.due_at is not None and (status.due_at - status.created_at).total_seconds() > 3_000
