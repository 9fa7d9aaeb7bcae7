"""Many executions at once: all that are chosen are retried, cancelled or terminated, each by itself."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest

import holdfast as hf
from holdfast.bulk import Verb


@pytest.fixture
def broken():
    """The words whose work fails now."""
    return set()


@pytest.fixture
def job(app, broken):
    @app.step(retry=hf.Retry(max_attempts=1))
    async def work(word: str) -> str:
        if word in broken:
            raise LookupError(f"{word} is broken")
        return word

    @app.workflow
    async def job(word: str) -> str:
        return await work(word)

    return job


@pytest.fixture
def waits(app):
    @app.workflow
    async def waits(word: str = "") -> str:
        return word + await hf.signal("go", str)

    return waits


async def all_of(pages):
    changed = []
    async for page in pages:
        changed += page.changed
    return changed


async def ended(handle):
    with contextlib.suppress(hf.ExecutionError):
        await handle
    return (await handle.status()).status


@pytest.fixture
def failed(job, broken):
    """``await failed(...)``: handles of executions that have failed, one for each word."""

    async def fail(*words):
        broken.update(words)
        handles = [await job.start(word, id=word, tags={"first": word[0]}) for word in words]
        for handle in handles:
            assert await ended(handle) == "FAILED"
        broken.clear()
        return handles

    return fail


async def test_those_that_failed_are_retried(app, job, failed):
    async with app.worker():
        handles = await failed("a", "b", "c")
        fine = await job.start("fine", id="fine")
        await fine
        changed = await all_of(app.select("job", status="FAILED").retry())
        assert {(each.workflow, each.id, each.error) for each in changed} == {("job", word, None) for word in "abc"}
        assert [await handle for handle in handles] == ["a", "b", "c"]
        assert await all_of(app.select("job", status="FAILED").retry()) == []


async def test_without_a_status_those_are_changed_that_can_be(app, job, waits, failed, reaches):
    async with app.worker():
        (handle,) = await failed("a")
        open_one = await waits.start(id="w")
        await reaches(open_one, "SUSPENDED")
        assert [each.id for each in await all_of(app.select().cancel("enough"))] == ["w"]
        with pytest.raises(hf.ExecutionCancelled, match="enough"):
            await open_one
        assert {each.id for each in await all_of(app.select().retry())} == {"a", "w"}
        assert await handle == "a"
        assert [each.id for each in await all_of(app.select().terminate("over"))] == ["w"]
        with pytest.raises(hf.ExecutionTerminated, match="over"):
            await open_one


async def test_those_that_have_ended_are_deleted(app, waits, failed, reaches):
    async with app.worker():
        await failed("a", "b", "c")
        open_one = await waits.start(id="w")
        await reaches(open_one, "SUSPENDED")
        with pytest.raises(hf.InvalidInput, match="what is SUSPENDED cannot be deleted"):
            await all_of(app.select(status="SUSPENDED").delete())
        assert {each.id for each in await all_of(app.select(status="FAILED", tags={"first": "b"}).delete())} == {"b"}
        assert {each.id for each in await all_of(app.select().delete())} == {"a", "c"}
        assert [each.id for each in (await app.executions()).executions] == ["w"]


async def test_they_are_chosen_as_listings_choose(app, failed, waits, reaches):
    @app.workflow
    async def parent() -> str:
        return await waits.options(id="child")()

    async with app.worker():
        await failed("apple", "avocado", "bean")

        async def ids(**selection):
            return [each.id async for page in app.select(**selection).pages() for each in page.executions]

        assert set(await ids(tags={"first": "a"})) == {"apple", "avocado"}
        assert await ids(older_than="1h") == []
        assert len(await ids(older_than=0)) == 3
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        assert await ids(parent=handle) == ["child"]
        assert set(await ids(root=handle)) == {"p", "child"}


async def test_what_fails_is_reported_and_the_others_go_on(app, world, failed):
    other = world.app()

    @other.workflow
    async def elsewhere() -> None:
        raise LookupError("no")

    async with other.worker():
        assert await ended(await elsewhere.start(id="e")) == "FAILED"
    async with app.worker():
        await failed("a", "b")
        changed = await all_of(app.select(status="FAILED").retry())
        told = {each.id: type(each.error) for each in changed}
        assert told == {"a": type(None), "b": type(None), "e": hf.UnknownName}


async def test_one_that_has_changed_by_its_turn_is_reported(app, waits):
    async def late(handle):
        await handle.terminate("first")
        await handle.terminate("second")

    async with app.worker():
        await waits.start(id="w")
        (changed,) = await all_of(app.select("waits").change(Verb("ended", ("RUNNING", "SUSPENDED", "READY"), late)))
        assert str(changed.error) == "execution 'w' of workflow 'waits' has ended as TERMINATED"


async def test_many_come_in_pages_and_a_cursor_goes_on_behind_them(app, waits):
    async with app:
        for number in range(230):
            await waits.start(id=str(number))
        seen = Counter()
        pages = app.select("waits").terminate()
        page = await anext(pages)
        assert len(page.changed) == 100
        assert page.cursor is not None
        seen.update(each.id for each in page.changed)
        await pages.aclose()  # whoever stops here goes on where he was
        changed = await all_of(app.select("waits").terminate(after=page.cursor))
        seen.update(each.id for each in changed)
        assert seen == Counter(map(str, range(230)))
        assert await all_of(app.select("waits").terminate()) == []


async def test_what_makes_no_sense_is_refused(app, job):
    async with app:
        with pytest.raises(hf.InvalidInput, match="what is COMPLETED cannot be retried; what can be is FAILED"):
            await anext(app.select(status="COMPLETED").retry())
        with pytest.raises(hf.InvalidInput, match="no status is called 'FINE'"):
            app.select(status="FINE")
        with pytest.raises(hf.InvalidInput, match="until and older_than say the same"):
            app.select(until=(await (await job.start("a")).status()).created_at, older_than="1h")


async def test_open_ones_are_paused_resumed_and_signalled(app, waits, reaches):
    async with app.worker():
        handles = [await waits.start(word, id=word) for word in "ab"]
        for handle in handles:
            await reaches(handle, "SUSPENDED")
        assert {each.id for each in await all_of(app.select("waits").pause())} == {"a", "b"}
        assert [(await handle.status()).status for handle in handles] == ["PAUSED", "PAUSED"]
        assert await all_of(app.select("waits").pause()) == [], "those that were changed are no longer chosen"
        assert {each.id for each in await all_of(app.select("waits").signal("other", 1, id="s"))} == {"a", "b"}
        assert {each.error for each in await all_of(app.select("waits").signal("other", 1, id="s"))} == {None}
        assert {each.id for each in await all_of(app.select("waits").resume())} == {"a", "b"}
        assert {each.error for each in await all_of(app.select("waits").signal("go", "!", id="t"))} == {None}
        assert [await handle for handle in handles] == ["a!", "b!"]
        kinds = [(event.kind, event.name) for event in await handles[0].history()]
        assert kinds.count(("signal", "other")) == 1, "each takes a signal with this id once"


async def test_steps_in_back_off_make_their_next_attempts_now(app, reaches):
    broken = {"is": True}

    @app.step(retry=hf.Retry(initial="1h", max_delay="1h"))
    async def ship() -> str:
        if broken["is"]:
            raise ConnectionError("no carrier")
        return "shipped"

    @app.workflow
    async def parcel() -> str:
        return await ship()

    async with app.worker():
        handles = [await parcel.start(id=id) for id in "ab"]
        for handle in handles:
            await reaches(handle, "SUSPENDED")
        broken["is"] = False
        assert {each.id for each in await all_of(app.select("parcel").retry_now())} == {"a", "b"}
        assert [await handle for handle in handles] == ["shipped", "shipped"]


async def test_all_are_forked_before_an_operation_once(app, waits, failed, reaches):
    async with app.worker():
        await failed("a", "b")
        await reaches(await waits.start(id="w"), "SUSPENDED")

        async def forked():
            return {each.id: each.error for each in await all_of(app.select().fork("-2", before="work#0"))}

        first = await forked()
        assert (first["a"], first["b"], type(first["w"])) == (None, None, hf.InvalidInput)
        assert [await app.handle("job", id).result() for id in ("a-2", "b-2")] == ["a", "b"]
        again = await forked()
        assert {id: type(error) for id, error in again.items() if id != "w"} == dict.fromkeys(
            ("a", "b", "a-2", "b-2"), hf.InvalidState
        )
        assert len((await app.executions()).executions) == 5, "a repeat makes no more"
        with pytest.raises(hf.InvalidInput, match="the suffix of forks"):
            app.select().fork("")


async def test_one_that_is_not_pinned_is_not_moved(app, waits, reaches):
    async with app.worker():
        await reaches(await waits.start(id="w"), "SUSPENDED")
        assert await all_of(app.select().move()) == [], "only blocked ones are chosen"
