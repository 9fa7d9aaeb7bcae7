"""Retry and what is at most once: what may have happened does not happen a second time (G10)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf

MAY_HAVE_HAPPENED = (
    r"launch#0 of execution '[^']+' of workflow 'job' is at most once and may have happened; "
    r"find out, and fork\(before='launch#0'\) to do it again"
)


class Refused(Exception):
    """The other side has done nothing. No step registers it."""


class Closed(Exception):
    """The same, registered."""


def code(app, launch, *, raises=(), **options):
    app.step(name="launch", raises=raises, **options)(launch)

    @app.workflow
    async def job() -> str:
        return await app.registry.steps["launch"]()

    return job


def failing_once(ran, error, result="launched"):
    async def launch() -> str:
        ran["launch"] += 1
        if ran["launch"] == 1 and error is not None:
            raise error
        return result

    return launch


async def failed(handle):
    with pytest.raises(hf.ExecutionFailed):
        await handle.result("60s")
    return handle


async def refused(handle, ran):
    with pytest.raises(hf.InvalidState, match=MAY_HAVE_HAPPENED):
        await handle.retry()
    assert (await handle.status()).status == "FAILED"
    assert ran == {"launch": 1}


@pytest.mark.parametrize(
    "options", [{"at_most_once": True}, {"at_most_once": "attempt", "retry": hf.Retry(only=(hf.StepInterrupted,))}]
)
async def test_what_its_process_did_not_survive_is_not_retried(world, ran, options):
    started = asyncio.Event()

    async def launch() -> str:
        ran["launch"] += 1
        started.set()
        await asyncio.Event().wait()
        return ""

    first, second = world.app(), world.app()
    before, after = (code(app, launch, **options) for app in (first, second))
    async with first.worker(grace=0):
        await before.start(id="j")
        await started.wait()
    async with second.worker():
        handle = await failed(after.handle("j"))
        await refused(handle, ran)
        [page] = [page async for page in second.select("job").retry()]
        assert [(each.id, type(each.error).__mro__[1]) for each in page.changed] == [("j", hf.InvalidState)]
        assert ran == {"launch": 1}


async def test_what_failed_by_itself_may_have_happened_too(app, ran):
    job = code(app, failing_once(ran, LookupError("no answer")), at_most_once=True)
    async with app.worker():
        handle = await failed(await job.start(id="j"))
        await refused(handle, ran)
        assert await (await handle.fork("k", before="launch#0")).result("60s") == "launched"
    assert ran == {"launch": 2}


@pytest.mark.parametrize(
    ("error", "retry", "raises"),
    [
        (Refused("busy"), hf.Retry(max_attempts=1, only=(Refused,)), ()),
        (Closed("busy"), hf.Retry(max_attempts=1, only=(Closed,)), (Closed,)),
        (Closed("busy"), hf.Retry(max_attempts=1, when=lambda error: isinstance(error, Closed)), (Closed,)),
    ],
)
async def test_what_has_certainly_not_happened_is_retried(app, ran, error, retry, raises):
    launch = failing_once(ran, error)
    job = code(app, launch, at_most_once="attempt", retry=retry, raises=raises)
    async with app.worker():
        handle = await failed(await job.start(id="j"))
        await handle.retry()
        assert await handle.result("60s") == "launched"


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (LookupError("no answer"), hf.Retry(only=(Refused,))),
        (hf.StepTimeout("no answer"), hf.Retry(when=lambda _: True)),
        (Closed("of a class that is not registered"), hf.Retry(max_attempts=1, when=lambda _: True)),
    ],
)
async def test_an_attempt_that_may_have_happened_is_not_retried(app, ran, error, retry):
    job = code(app, failing_once(ran, error), at_most_once="attempt", retry=retry)
    async with app.worker():
        handle = await failed(await job.start(id="j"))
        await refused(handle, ran)


async def test_a_result_that_does_not_fit_has_happened(app, ran):
    launch = failing_once(ran, None, result=object())
    job = code(app, launch, at_most_once="attempt", retry=hf.Retry(only=(Exception,)))
    async with app.worker():
        handle = await failed(await job.start(id="j"))
        await refused(handle, ran)


async def test_a_parent_is_not_retried_where_its_child_may_have_happened(app, ran):
    job = code(app, failing_once(ran, LookupError("no answer")), at_most_once=True)

    @app.workflow
    async def parent() -> str:
        return await job()

    async with app.worker():
        handle = await failed(await parent.start(id="p"))
        with pytest.raises(hf.InvalidState, match=MAY_HAVE_HAPPENED):
            await asyncio.wait_for(handle.retry(), 5)
    assert ran == {"launch": 1}
