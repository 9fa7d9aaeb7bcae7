"""What has ended goes when its time is over: not before those who wait for it have heard, and all of it."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf


@pytest.fixture
def brief(app):
    @app.workflow(retention="10ms")
    async def brief(fails: bool = False) -> str:
        await hf.signal("go")
        if fails:
            raise ValueError("brief failed")
        return "brief"

    return brief


@pytest.fixture
def gone(app, eventually):
    """``await gone(handle)``: wait until its retention is over, and delete it."""

    async def wait(handle):
        await eventually(lambda: missing(handle))
        home = app.access().home
        if home.purges is not None:
            while await home.purges.purge(app.access().clock.now_ms(), 100):
                pass

    return wait


async def missing(handle):
    try:
        await handle.status()
    except hf.NotFound:
        return True
    return False


async def end(handle):
    """Let it end, however that is."""
    await handle.signal("go")
    while not await missing(handle):
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_child_that_has_gone_was_heard_by_its_paused_parent(app, brief, reaches, gone, fails):
    @app.workflow
    async def parent() -> str:
        try:
            return await brief(fails)
        except hf.ExecutionFailed as error:
            return error.error_message

    async with app.worker():
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        (child,) = (await app.executions(workflow="brief")).executions
        await handle.pause()
        await end(brief.handle(child.id))
        await gone(brief.handle(child.id))
        await handle.resume()
        assert await handle.result("5s") == ("brief failed" if fails else "brief")
        assert not (await app.executions(workflow="brief")).executions


@pytest.mark.parametrize("fails", [False, True])
async def test_what_was_awaited_by_handle_and_has_gone_was_heard(app, brief, reaches, gone, fails):
    @app.workflow
    async def waiting() -> list[str]:
        found = await asyncio.gather(brief.handle("b"), brief.handle("b"), return_exceptions=True)
        return [str(each) for each in found]

    async with app.worker():
        other = await brief.start(fails, id="b")
        handle = await waiting.start(id="w")
        await reaches(handle, "SUSPENDED")
        await handle.pause()
        await end(other)
        await gone(other)
        await handle.resume()
        expected = "brief 'b' ended as FAILED: ValueError: brief failed" if fails else "brief"
        assert await handle.result("5s") == [expected] * 2


async def test_a_child_ends_although_its_parent_has_ended(app, brief, reaches, gone):
    """Nobody is told, and it goes all the same."""

    @app.workflow
    async def parent() -> str:
        return await brief()

    async with app.worker():
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        (child,) = (await app.executions(workflow="brief")).executions
        await reaches(brief.handle(child.id), "SUSPENDED")
        await handle.terminate()
        await end(brief.handle(child.id))


async def test_a_terminated_execution_goes_like_any_other(app, brief, reaches, gone):
    async with app.worker():
        handle = await brief.start(id="b")
        await reaches(handle, "SUSPENDED")
        await handle.terminate()
        await gone(handle)
        again = await brief.start(True, id="b")
        await again.signal("go")
        with pytest.raises(hf.ExecutionFailed, match="brief failed"):
            await again
