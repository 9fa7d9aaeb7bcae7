"""What has ended goes when its time is over: not before those who wait for it have heard, and all of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.workflows.waiting_shop import Shop

import holdfast as hf
from holdfast.clock import SystemClock
from holdfast.coordination.lease import Fenced
from holdfast.items import ABSENT, HEAD
from holdfast.paging import items
from holdfast.replay.entries import Done, decode_entries
from holdfast.replay.journal import Journal
from holdfast.testing import run_virtual
from holdfast.workflows.deleting import delete
from holdfast.workflows.ended_outside import Teller, let_expire
from holdfast.workflows.launch import Launch, launch
from holdfast.workflows.messages import send
from holdfast.workflows.record import decode_record, partition_of
from holdfast.workflows.runs import count_of


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
        home = app.runtime().home
        if home.purges is not None:
            while await home.purges.purge(app.runtime().clock.now_ms(), 100):
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
        assert await handle.result("60s") == ("brief failed" if fails else "brief")
        assert not (await app.executions(workflow="brief")).executions


async def sent_late(app, workflow, handle, **changes):
    """The start of an execution once more, as its sender still has it under way; answers the head it finds."""
    runtime = app.runtime()
    record = decode_record((await runtime.home.store.get(partition_of(workflow.name, handle.id))).body)
    order = Launch(id=record.id, input=bytes(record.input), parent=record.parent)
    return await launch(runtime.home, None, workflow, replace(order, **changes), runtime.clock)


async def test_a_start_that_comes_late_does_not_begin_a_child_again_that_has_expired(app, brief, reaches):
    @app.workflow
    async def parent() -> list[str]:
        await brief.start()
        return list(await asyncio.gather(brief(), brief.options(id="named")()))

    async with app.worker():
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        children = (await app.executions(workflow="brief")).executions
        assert len(children) == 3
        for each in children:
            await end(brief.handle(each.id))
            assert (await sent_late(app, brief, each)).status == "COMPLETED"
        assert await handle.result("60s") == ["brief", "brief"]
        # Nobody else's start is late: the id has become free.
        assert (await sent_late(app, brief, brief.handle("named"), parent=None)).status == "READY"


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
        assert await handle.result("60s") == [expected] * 2


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


class JustBefore:
    """A store in which something happens just before each of the next writes that change what is there."""

    def __init__(self, store, *happens):
        self._store = store
        self._happens = [*reversed(happens)]

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def write(self, *writes):
        if writes[0].when is not ABSENT and self._happens:
            await self._happens.pop()()
        return await self._store.write(*writes)


async def test_each_that_begins_under_one_id_has_a_run_and_an_epoch_of_its_own(app, brief):
    """Also if two take it for free at the same time, and the first has ended when the second comes."""
    async with app.worker():
        home, clock = app.runtime().home, app.runtime().clock

        async def one_more():
            await end(await brief.start(id="b"))
            ended.append(await home.store.get(partition_of("brief", "b")))

        ended = []
        await one_more()
        store = JustBefore(home.store, one_more)
        order = Launch(id="b", input=bytes(decode_record(ended[0].body).input))
        last = await launch(replace(home, store=store), None, brief, order, clock)
        assert [count_of(decode_record(each.body).run) for each in (*ended, last)] == [0, 1, 2]
        assert ended[0].epoch < ended[1].epoch < last.epoch


# ── Deleting one ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lasting(app):
    @app.workflow
    async def lasting(word: str = "one") -> str:
        return word + await hf.signal("go", str)

    return lasting


async def test_what_is_deleted_leaves_no_content_and_its_id_is_free(app, lasting):
    async with app.worker():
        handle = await lasting.start("hidden", id="l", tags={"by": "hidden"})
        await handle.signal("go", " signal")
        assert await handle == "hidden signal"
        await handle.delete()
        assert await missing(handle)
        assert (await app.executions()).executions == ()
        partition, store = partition_of("lasting", "l"), app.runtime().home.store
        left = [item async for item in items(store, partition)]
        assert all(item.sort == HEAD or decode_entries(item.body) == [] for item in left)
        head = await store.get(partition)
        assert not any(word in head.body for word in (b"hidden", b"signal"))
        with pytest.raises(hf.NotFound):
            await handle.delete()
        again = await lasting.start("two", id="l")
        await again.signal("go", "?")
        assert await again == "two?"
        assert count_of(decode_record((await store.get(partition)).body).run) == 1


async def test_a_process_that_was_stopped_in_what_is_deleted_writes_nothing_there(app, lasting):
    async with app.worker():
        handle = await lasting.start(id="l")
        await handle.signal("go", "!")
        assert await handle == "one!"
        partition, store = partition_of("lasting", "l"), app.runtime().home.store
        stopped = Journal(store, partition, run=0, owner="stopped", epoch=1)
        await stopped.load()
        overtaken = Journal(store, partition, run=0, owner="overtaken", epoch=90)
        await overtaken.load()
        await overtaken.fence()
        await handle.delete()
        again = await lasting.start("two", id="l")
        stopped.record(Done("late#0", 1, "step"))
        with pytest.raises(Fenced):
            await stopped.commit()
        await again.signal("go", "?")
        assert await again == "two?"


async def test_a_process_that_was_stopped_while_it_deleted_leaves_alone_what_has_begun_there_since(app, lasting):
    async with app.worker():
        handle = await lasting.start(id="l")
        await handle.signal("go", "!")
        assert await handle == "one!"
        runtime, begun = app.runtime(), []

        async def nothing():
            pass

        async def begin_again():
            begun.append(await lasting.start("two", id="l"))

        partition, behind = partition_of("lasting", "l"), runtime.home.store
        slow = JustBefore(behind, nothing, begin_again)  # the status is written then, and nothing is emptied yet
        await delete(replace(runtime, home=replace(runtime.home, store=slow)), partition)
        assert count_of(decode_record((await behind.get(partition)).body).run) == 1
        (again,) = begun
        await again.signal("go", "?")
        assert await again == "two?"


async def test_what_is_open_or_awaited_by_its_open_parent_is_not_deleted(app, lasting, reaches):
    @app.workflow
    async def parent() -> str:
        word = await lasting()
        return word + await hf.signal("go", str)

    async with app.worker():
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        (found,) = (await app.executions(workflow="lasting")).executions
        child = lasting.handle(found.id)
        with pytest.raises(hf.InvalidState, match="only what has ended"):
            await child.delete()
        await handle.pause()
        await child.signal("go", "!")
        assert await child == "one!"
        with pytest.raises(hf.InvalidState, match="is awaited by its parent, execution 'p'"):
            await child.delete()
        await handle.resume()
        await reaches(handle, "SUSPENDED")
        await child.delete()
        await handle.signal("go", "?")
        assert await handle == "one!?"


async def test_those_who_wait_by_handle_hear_of_the_end_before_it_is_deleted(app, lasting, reaches):
    @app.workflow
    async def waiting() -> str:
        return await lasting.handle("l")

    async with app.worker():
        other = await lasting.start(id="l")
        handle = await waiting.start(id="w")
        await reaches(handle, "SUSPENDED")
        await handle.pause()
        await other.signal("go", "!")
        assert await other == "one!"
        await other.delete()
        await handle.resume()
        assert await handle.result("60s") == "one!"


async def test_what_was_deleted_cannot_be_retried(app, lasting):
    async with app.worker():
        handle = await lasting.start(id="l")
        await handle.cancel()
        with pytest.raises(hf.ExecutionCancelled):
            await handle
        await handle.delete()
        with pytest.raises(hf.NotFound):
            await handle.retry()


class SlowClock:
    """An hour behind."""

    def now_ms(self) -> int:
        return SystemClock().now_ms() - 3_600_000


async def test_what_is_deleted_is_gone_for_a_process_with_a_slow_clock_too(world):
    def shop(clock):
        app = world.app(clock=clock)

        @app.workflow
        async def echo(word: str) -> str:
            return word

        return app, echo

    (right, here), (slow, there) = shop(SystemClock()), shop(SlowClock())
    async with right.worker(), slow:
        handle = await here.start("one", id="l")
        assert await handle == "one"
        await handle.delete()
        late = there.handle("l")
        with pytest.raises(hf.NotFound):
            await late.status()
        with pytest.raises(hf.NotFound):
            await late.result()
        with pytest.raises(hf.NotFound):
            await late.history()
        assert (await slow.executions()).executions == ()
        again = await there.start("two", id="l")
        assert await again.result("60s") == "two"


async def test_an_execution_that_awaits_what_was_deleted_is_told_so(app, lasting):
    @app.workflow
    async def waiting() -> str:
        try:
            return await lasting.handle("l")
        except hf.NotFound as missing:
            return str(missing)

    async with app.worker():
        other = await lasting.start(id="l")
        await other.signal("go", "!")
        assert await other == "one!"
        await other.delete()
        assert (
            await (await waiting.start(id="w")).result("60s")
            == "there is no execution 'l' of workflow 'lasting': it was deleted"
        )


async def test_a_terminated_parent_is_not_deleted_before_its_children_are_released(app, lasting, reaches, monkeypatch):
    @app.workflow
    async def calls() -> str:
        return await lasting()

    async def never(*_):
        pass

    monkeypatch.setattr("holdfast.workflows.unclaimed._part_from_children", never)
    async with app.worker():
        parent = await calls.start(id="p")
        await reaches(parent, "SUSPENDED")
        await parent.terminate()
        with pytest.raises(hf.InvalidState, match="no worker has released its children"):
            await parent.delete()
        monkeypatch.undo()
    async with app.worker():
        while (await parent.status()).due_at is not None:
            await asyncio.sleep(0.01)
        await parent.delete()
        with pytest.raises(hf.NotFound):
            await parent.status()


# ── What changes while something is deleted, or let go ──────────────────────────────────────────────────────────────


async def ended_as(lasting, word, *, id="l"):
    """Start it, and let it complete."""
    handle = await lasting.start(word, id=id)
    await handle.signal("go", "!")
    assert await handle == f"{word}!"
    return handle


def seen_just_before(app, *happens):
    """The runtime of a process that is stopped before its writes."""
    runtime = app.runtime()
    return replace(runtime, home=replace(runtime.home, store=JustBefore(runtime.home.store, *happens)))


async def test_what_has_begun_and_ended_again_meanwhile_is_not_deleted_for_what_was_there_before(app, lasting):
    """Its status is the same: only the revision and the epoch tell it from the one that was looked at."""
    async with app.worker():
        handle = await ended_as(lasting, "one")

        async def another():
            await handle.delete()
            await ended_as(lasting, "two")

        with pytest.raises(hf.InvalidState, match="changed by another process"):
            await delete(seen_just_before(app, another), partition_of("lasting", "l"))
        assert await lasting.handle("l") == "two!"


async def test_a_slow_deletion_does_not_set_back_the_run_of_one_that_was_deleted_since(app, lasting):
    async with app.worker():
        await ended_as(lasting, "one")

        async def nothing():
            pass

        async def another():
            await (await ended_as(lasting, "two")).delete()

        await delete(seen_just_before(app, nothing, another), partition_of("lasting", "l"))
        await ended_as(lasting, "three")
        head = await app.runtime().home.store.get(partition_of("lasting", "l"))
        assert count_of(decode_record(head.body).run) == 2


async def test_those_who_wait_are_told_while_it_is_there(app, lasting, reaches, monkeypatch):
    """A process that dies after the deletion has told them: nothing else knows them any more."""

    @app.workflow
    async def waiting() -> str:
        return await lasting.handle("l")

    seen = []

    async def noting(by, *rest):
        seen.append((await lasting.handle("l").status()).status)
        await send(by, *rest)

    async with app.worker():
        other = await lasting.start(id="l")
        handle = await waiting.start(id="w")
        await reaches(handle, "SUSPENDED")
        await other.signal("go", "!")
        assert await handle == "one!"
        monkeypatch.setattr("holdfast.workflows.deleting.send", noting)
        await other.delete()
    assert seen == ["COMPLETED"]


async def test_a_child_of_an_earlier_run_of_its_parent_can_be_deleted(app, lasting, reaches):
    """That run has heard, and its journal is gone: the present one never waited for it."""

    @app.workflow
    async def parent(again: bool = False) -> str:
        if not again:
            await lasting()
            hf.continue_as_new(True)
        return await hf.signal("go", str)

    async with app.worker():
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        (found,) = (await app.executions(workflow="lasting")).executions
        child = lasting.handle(found.id)
        await child.signal("go", "!")
        while (await handle.status()).run == 0:
            await asyncio.sleep(0.01)
        await child.delete()
        assert await missing(child)
        await handle.signal("go", "?")
        assert await handle == "?"


HOUR_MS = 3_600_000


@pytest.fixture
def hourly(app):
    @app.workflow(retention="1h")
    async def hourly() -> str:
        return await hf.signal("go", str)

    return hourly


async def terminated(app, hourly, reaches):
    handle = await hourly.start(id="h")
    await reaches(handle, "SUSPENDED")
    await handle.terminate()
    while (await handle.status()).due_at is not None:  # a worker looks for children once more
        await asyncio.sleep(0.01)
    return handle, await app.runtime().home.store.get(partition_of("hourly", "h"))


async def test_the_retention_of_what_is_terminated_counts_from_its_end(app, hourly, reaches):
    async with app.worker():
        _, head = await terminated(app, hourly, reaches)
        assert head.expires_at == decode_record(head.body).ended_at + HOUR_MS


async def test_it_counts_and_those_who_wait_are_told_if_a_worker_has_let_the_children_go_by_then(
    app, hourly, reaches, monkeypatch
):
    tell = Teller.tell

    async def late(teller, ended, *rest):
        while (await hourly.handle("h").status()).due_at is not None:
            await asyncio.sleep(0.01)
        await tell(teller, ended, *rest)
        told.append(await app.runtime().home.store.get(ended.partition))

    @app.workflow
    async def waiting() -> str:
        try:
            return await hourly.handle("h")
        except hf.ExecutionTerminated:
            return "heard"

    told = []
    monkeypatch.setattr(Teller, "tell", late)
    async with app.worker():
        handle = await waiting.start(id="w")
        other = await hourly.start(id="h")
        await reaches(other, "SUSPENDED")
        await reaches(handle, "SUSPENDED")
        await other.terminate()
        assert await handle.result("30s") == "heard", "not when it looks by itself, after a minute"
        head = await app.runtime().home.store.get(partition_of("hourly", "h"))
        assert head.epoch == told[0].epoch
        assert head.expires_at == decode_record(head.body).ended_at + HOUR_MS


async def test_it_does_not_run_before_those_who_wait_were_told(app, hourly, reaches, monkeypatch):
    @app.workflow
    async def waiting() -> str:
        try:
            return await hourly.handle("h")
        except hf.ExecutionTerminated:
            return "heard"

    seen = []

    async def noting(by, *rest):
        seen.append((await app.runtime().home.store.get(partition_of("hourly", "h"))).expires_at)
        await send(by, *rest)

    monkeypatch.setattr("holdfast.workflows.ended_outside.send", noting)
    async with app.worker():
        other = await hourly.start(id="h")
        handle = await waiting.start(id="w")
        await reaches(other, "SUSPENDED")
        await reaches(handle, "SUSPENDED")
        await other.terminate()
        assert await handle == "heard"
    assert seen
    assert set(seen) == {None}


async def test_a_termination_that_goes_on_late_lets_nothing_else_expire(app, hourly, reaches):
    """Not what was deleted since, and not what was terminated there later, whose hour has begun later."""
    async with app.worker():
        handle, closed = await terminated(app, hourly, reaches)
        ended, store = decode_record(closed.body), app.runtime().home.store
        await handle.delete()
        for begin in (None, terminated):
            if begin is not None:
                await begin(app, hourly, reaches)
            there = await store.get(closed.partition)
            await let_expire(closed, replace(ended, ended_at=1), app.registry, store)
            assert await store.get(closed.partition) == there


def test_what_is_retried_does_not_expire_while_it_runs():
    shop, tried = Shop(), []

    @shop.app.step(retry=hf.Retry(max_attempts=1))
    async def fails_once() -> None:
        tried.append(1)
        if len(tried) == 1:
            raise ValueError("not yet")

    @shop.app.workflow(retention="1h")
    async def lasts() -> str:
        await fails_once()
        return await hf.signal("go", str)

    async def main():
        async with shop.app.worker():
            handle = await lasts.start(id="1")
            with pytest.raises(hf.ExecutionFailed):
                await handle
            await asyncio.sleep(HOUR_MS / 2_000)
            await handle.retry()
            await asyncio.sleep(HOUR_MS / 500)
            await handle.signal("go", "on")
            assert await handle == "on"

    run_virtual(main)


def test_what_began_long_ago_and_ended_just_now_did_not_end_long_ago():
    shop = Shop()

    @shop.app.workflow
    async def lasts() -> None:
        await hf.sleep("2h")

    async def main():
        async with shop.app.worker():
            handle = await lasts.start(id="1")
            await handle
            ended = (await handle.status()).ended_at
            for before, expected in ((ended, []), (ended + timedelta(seconds=1), ["1"])):
                pages = [page async for page in shop.app.select(ended_before=before).delete()]
                assert [each.id for page in pages for each in page.changed] == expected

    run_virtual(main)


def test_who_awaits_a_child_hears_at_once_that_it_has_ended_although_its_parent_has_ended_before():
    shop = Shop()

    @shop.app.workflow(retention="1h")
    async def child() -> str:
        return await hf.signal("go", str)

    @shop.app.workflow
    async def parent() -> None:
        await child.start(id="c")

    @shop.app.workflow
    async def other() -> str:
        return await child.handle("c")

    async def main() -> float:
        async with shop.app.worker():
            await parent()
            waiting = await other.start(id="o")
            await asyncio.sleep(20)
            began = asyncio.get_running_loop().time()
            await child.handle("c").signal("go", "on")
            assert await waiting.result() == "on"
            return asyncio.get_running_loop().time() - began

    assert run_virtual(main) < 1
