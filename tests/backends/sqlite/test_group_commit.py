"""Group commit: what a write costs, who shares a commit, and where it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import apsw
import pytest

import holdfast as hf
from holdfast import persist
from holdfast.backends.memory import open_memory_home
from holdfast.backends.sqlite import SqliteStore, writer
from holdfast.backends.sqlite.batch import GUARDED_BATCHES, Call, Outcome
from holdfast.errors import InvalidInput, Refused, StoreUnavailable, StoreUnusable
from holdfast.items import (
    ABSENT,
    EXISTS,
    HEAD,
    AllOf,
    AnyOf,
    Delete,
    Item,
    LeaseLapsed,
    OwnerIs,
    Put,
    RevisionIs,
    Update,
    Write,
)

LOOP = threading.main_thread().name
THREAD = "holdfast-writer"


def record_threads(store: SqliteStore, commit_seconds: float | None = None) -> list[str]:
    """The thread of each batch from now on. Commits may be made to look as if they took so long."""
    threads: list[str] = []
    run = store.runner.run

    def recording(calls: Sequence[Call]) -> list[Outcome]:
        outcomes = run(calls)  # raises, and records nothing, while the file is locked
        threads.append(threading.current_thread().name)
        if commit_seconds is not None:
            store.runner.commit_seconds = commit_seconds
        return outcomes

    store.runner.run = recording
    return threads


async def handed_over(store: SqliteStore) -> None:
    """Until a batch is in the thread."""
    async with asyncio.timeout(60):
        while not store._writer._in_thread:
            await asyncio.sleep(0)


class Locked:
    """Another process in the middle of a transaction, as seen by us."""

    def __init__(self, path: Any) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.execute("BEGIN IMMEDIATE")

    def release(self) -> None:
        self.connection.execute("ROLLBACK")
        self.connection.close()


class TestCosts:
    @pytest.mark.parametrize(
        ("prepare", "write", "statements"),
        [
            pytest.param([], Put(Item("p"), ABSENT), 1, id="new head"),
            pytest.param([Put(Item("p"))], Put(Item("p"), RevisionIs(0)), 1, id="head in place"),
            pytest.param([Put(Item("p"))], Put(Item("p")), 1, id="head whatever is there"),
            pytest.param([Put(Item("p", "i/1"))], Put(Item("p"), ABSENT), 3, id="head after its entry"),
            pytest.param([Put(Item("p"))], Update(partition="p", add_revision=1), 1, id="update"),
            pytest.param([Put(Item("p"))], Update(partition="p", status="x", load=True), 1, id="update and load"),
            pytest.param(
                [Put(Item("p", owner="me", lease_until=1))],
                Update(
                    partition="p",
                    when=AllOf((AnyOf((OwnerIs("me", 0), LeaseLapsed(5))), RevisionIs(0))),
                    owner="you",
                    load=True,
                ),
                1,
                id="claim",
            ),
            pytest.param([Put(Item("p"))], Put(Item("p", "j/1"), ABSENT), 1, id="segment"),
            pytest.param([], Put(Item("p", "i/1"), ABSENT), 3, id="entry of a partition without a head"),
            pytest.param([Put(Item("p", "i/1"))], Put(Item("p", "i/2"), ABSENT), 1, id="second such entry"),
            pytest.param([Put(Item("p", "j/1"))], Update(partition="p", sort="j/1"), 1, id="update of an entry"),
            pytest.param([Put(Item("p"))], Delete("p", HEAD), 1, id="delete of a head"),
            pytest.param([Put(Item("p")), Put(Item("p", "j/1"))], Delete("p", HEAD), 2, id="delete of a head only"),
            pytest.param([Put(Item("p", "j/1"))], Delete("p", "j/1", EXISTS), 1, id="delete of an entry"),
        ],
    )
    async def test_statements_of_a_write(self, open_home, prepare: list[Write], write: Write, statements: int) -> None:
        async with open_home() as home:
            for each in prepare:
                await home.store.write(each)
            before = home.store.statements, home.store.commits
            await home.store.write(write)
            assert (home.store.statements - before[0], home.store.commits - before[1]) == (statements, 1)

    async def test_a_refusal_costs_one_read_more(self, open_home) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("p")))
            before = home.store.statements
            with pytest.raises(Refused):
                await home.store.write(Put(Item("p"), ABSENT))
            assert home.store.statements - before == 2

    async def test_several_items_cost_one_statement_each(self, open_home) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("p")))
            before = home.store.statements, home.store.commits
            await home.store.write(Put(Item("p", "j/1"), ABSENT), Update(partition="p", add_revision=1))
            assert (home.store.statements - before[0], home.store.commits - before[1]) == (2, 1)

    async def test_reads_are_one_statement_each_and_no_commit(self, open_home) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("p", due_at=1)), Put(Item("p", "j/1")))
            before = home.store.statements, home.store.commits
            await home.store.get("p")
            await home.store.get("p", "j/1")
            await home.store.query("p")
            await home.store.query("p", prefix="j/")
            await home.store.due(5)
            assert (home.store.statements - before[0], home.store.commits - before[1]) == (5, 0)
            await home.store.scan("")
            assert home.store.statements - before[0] == 7

    async def test_an_open_home_does_nothing_by_itself(self, open_home) -> None:
        async with open_home() as home:
            assert (home.store.statements, home.store.commits) == (1, 0)  # its salt was read
            assert threading.active_count() == len([t for t in threading.enumerate() if t.name != THREAD])


class TestSharing:
    async def test_one_after_another_they_commit_one_by_one(self, open_home) -> None:
        async with open_home() as home:
            for number in range(10):
                await home.store.write(Put(Item(f"p{number}"), ABSENT))
            assert home.store.commits == 10

    async def test_writes_of_one_tick_share_a_commit(self, open_home) -> None:
        async with open_home() as home:
            before = home.store.statements
            await asyncio.gather(*(home.store.write(Put(Item(f"p{number}"), ABSENT)) for number in range(64)))
            assert (home.store.commits, home.store.statements - before) == (1, 64)

    async def test_concurrent_tasks_share_commits_all_along(self, open_home) -> None:
        async def lane(name: int) -> None:
            for number in range(10):
                await home.store.write(Put(Item(f"p{name}/{number}"), ABSENT))

        async with open_home() as home:
            await asyncio.gather(*(lane(name) for name in range(64)))
            assert home.store.commits == 10

    async def test_batches_are_bounded(self, open_home) -> None:
        async with open_home() as home:
            calls = [home.store.write(Put(Item("p", f"{number:05}"), ABSENT)) for number in range(2500)]
            await calls[999]
            assert home.store.commits == 1
            assert not calls[1000].done()
            await asyncio.gather(*calls)
            assert home.store.commits == 3

    async def test_nobody_hears_of_a_write_before_its_commit(self, open_home) -> None:
        async with open_home() as one, open_home() as two:
            seen: list[bool] = []

            def look(_: Any) -> None:
                seen.append(bool(two.store.rows("SELECT 1 FROM holdfast_heads WHERE partition = 'p'", ())))

            answer = one.store.write(Put(Item("p"), ABSENT))
            answer.add_done_callback(look)
            await answer
            await asyncio.sleep(0)
            assert seen == [True]


class TestSavepoints:
    """Calls of several writes have none until one is refused half-way."""

    async def test_a_refusal_half_way_undoes_its_own_call_only_and_makes_the_next_batches_careful(
        self, open_home
    ) -> None:
        async with open_home() as home:
            calls = [
                home.store.write(Put(Item("a")), Put(Item("a", "1"))),
                home.store.write(Put(Item("b")), Put(Item("a"), ABSENT), Put(Item("c"))),
                home.store.write(Put(Item("d")), Put(Item("d", "1"))),
            ]
            first, refused, last = await asyncio.gather(*calls, return_exceptions=True)
            assert (first, last) == ([None, None], [None, None])
            assert isinstance(refused, Refused)
            assert (refused.index, refused.item) == (1, Item("a"))
            assert home.store.commits == 1
            assert [item.partition for item in (await home.store.scan("")).items] == ["d", "a"]
            costs = [await cost_of_two(home.store, number) for number in range(GUARDED_BATCHES + 2)]
            assert costs == [4] * GUARDED_BATCHES + [2, 2]

    async def test_a_refusal_of_the_first_write_runs_nothing_again(self, open_home) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("a")))
            before = home.store.statements
            with pytest.raises(Refused):
                await home.store.write(Put(Item("a"), ABSENT), Put(Item("b")))
            assert home.store.statements - before == 2  # the write, and a look at what is in its way
            assert await cost_of_two(home.store, 0) == 2

    async def test_a_job_runs_once_whatever_is_refused_in_its_batch(self, open_home) -> None:
        async with open_home() as home:
            ran: list[str] = []
            calls = [
                home.store._submit(lambda _: ran.append("job")),
                home.store.write(Put(Item("b")), Put(Item("c"), EXISTS)),
            ]
            _, refused = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(refused, Refused)
            assert ran == ["job"]
            assert (await home.store.scan("")).items == ()

    @pytest.mark.parametrize("seed", range(20))
    async def test_a_batch_does_what_its_calls_do_one_by_one(self, open_home, seed: int) -> None:
        random, model, undone = Random(seed), open_memory_home().store, 0
        async with open_home() as home:
            for _ in range(10):
                home.store.runner._guarded_batches = 0
                calls = [some_writes(random) for _ in range(8)]
                told = await asyncio.gather(*[home.store.write(*call) for call in calls], return_exceptions=True)
                for call, outcome in zip(calls, told, strict=True):
                    (expected,) = await asyncio.gather(model.write(*call), return_exceptions=True)
                    if isinstance(expected, Refused):
                        assert isinstance(outcome, Refused)
                        assert (outcome.index, outcome.item) == (expected.index, expected.item)
                        undone += expected.index > 0
                    else:
                        assert list(outcome) == list(expected)
            for partition in "abc":
                here, there = await home.store.query(partition), await model.query(partition)
                assert here.items == there.items
        assert undone


async def cost_of_two(store: SqliteStore, number: int) -> int:
    before = store.statements
    await store.write(Put(Item(f"p{number}")), Put(Item(f"q{number}")))
    return store.statements - before


def some_writes(random: Random) -> list[Write]:
    """One to three writes of different items, each of which may be refused."""
    places = random.sample([(partition, sort) for partition in "abc" for sort in (HEAD, "1")], random.randint(1, 3))
    return [some_write(random, *place) for place in places]


def some_write(random: Random, partition: str, sort: str) -> Write:
    when = random.choice([ABSENT, EXISTS, RevisionIs(random.randint(0, 3))])
    match random.randint(0, 3):
        case 0:
            return Delete(partition, sort, when)
        case 1:
            return Update(partition=partition, sort=sort, when=EXISTS if when == ABSENT else when, add_revision=1)
        case _:
            return Put(Item(partition, sort, revision=random.randint(0, 3)), when)


class TestFaultsOfOneCall:
    @pytest.mark.parametrize(
        "bad",
        [
            pytest.param(Put(Item("bad", status=b"7")), id="wrong type"),  # type: ignore[arg-type]
            pytest.param(Put(Item("bad", "j/1", body="text")), id="wrong type in an entry"),  # type: ignore[arg-type]
            pytest.param(Put(Item("bad\ud800")), id="lone surrogate"),
            pytest.param(Put(Item("bad", revision=2**63)), id="too large a number"),
            pytest.param(Put(Item("bad"), AllOf((EXISTS,) * 101)), id="too many conditions"),
            pytest.param(Update(partition="good/0", add_revision=2**63 - 1), id="overflow"),
        ],
    )
    async def test_a_bad_value_fails_its_own_call_only(self, open_home, bad: Write) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("good/0", revision=1)))
            calls = [
                home.store.write(Put(Item("good/1"))),
                home.store.write(bad),
                home.store.write(Put(Item("good/2")), bad),
                home.store.write(Put(Item("good/3"))),
            ]
            first, second, third, fourth = await asyncio.gather(*calls, return_exceptions=True)
            assert (first, fourth) == ((None,), (None,))
            assert isinstance(second, InvalidInput)
            assert isinstance(third, InvalidInput)
            assert home.store.commits == 2
            assert sorted(item.partition for item in (await home.store.scan("")).items) == [
                "good/0",
                "good/1",
                "good/3",
            ]

    async def test_a_commit_that_fails_fails_every_call_and_applies_none(self, open_home) -> None:
        async with open_home() as home:
            home.store.runner.connection.set_commit_hook(lambda: True)
            calls = [home.store.write(Put(Item(f"p{number}"))) for number in range(3)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in outcomes] == [StoreUnavailable] * 3
            assert len({id(each) for each in outcomes}) == 3
            home.store.runner.connection.set_commit_hook(None)
            assert (await home.store.scan("")).items == ()
            await home.store.write(Put(Item("p")))
            assert home.store.commits == 1

    @pytest.mark.parametrize("threaded", [False, True])
    async def test_an_interruption_leaves_nobody_waiting(self, open_home, threaded: bool) -> None:
        class Interrupted(BaseException):
            pass

        def interrupt(_: Any) -> None:
            raise Interrupted

        async with open_home() as home:
            if threaded:
                home.store._writer._thread_batches_left = 1
            reported: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
            calls = [
                home.store.write(Put(Item("p"))),
                home.store._submit(interrupt),
                home.store.write(Put(Item("q"))),
            ]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in outcomes] == [StoreUnavailable] * 3
            assert [type(each) for each in reported] == ([] if threaded else [Interrupted])
            assert (await home.store.scan("")).items == ()
            await home.store.write(Put(Item("p")))


class TestWhereItRuns:
    async def test_fast_commits_stay_on_the_loop(self, open_home) -> None:
        async with open_home() as home:
            threads = record_threads(home.store, commit_seconds=0.0002)
            for number in range(20):
                await home.store.write(Put(Item(f"p{number}")))
            assert threads == [LOOP] * 20

    async def test_slow_commits_move_to_a_thread_and_are_tried_on_the_loop_again(self, open_home) -> None:
        async with open_home() as home:
            threads = record_threads(home.store, commit_seconds=0.1)
            for number in range(2 * writer.BATCHES_IN_THREAD):
                await home.store.write(Put(Item(f"p{number}")))
            moves = [index for index in range(1, len(threads)) if threads[index] != threads[index - 1]]
            assert threads[0] == LOOP
            assert threads[moves[0] : moves[1]] == [THREAD] * writer.BATCHES_IN_THREAD
            assert moves[0] == moves[2] - moves[1] == 2
            home.store.runner.commit_seconds = 0.0

    async def test_a_single_slow_commit_moves_nothing(self, open_home) -> None:
        async with open_home() as home:
            threads = record_threads(home.store, commit_seconds=0.0002)
            for number in range(30):
                home.store.runner.run = _slow_every(10, number, home.store)
                await home.store.write(Put(Item(f"p{number}")))
            assert set(threads) == {LOOP}

    async def test_writes_made_while_a_batch_is_in_the_thread_make_the_next_batch(self, path, open_home) -> None:
        async with open_home() as home:
            threads = record_threads(home.store)
            locked = Locked(path)
            first = home.store.write(Put(Item("p", "0")))
            await handed_over(home.store)
            rest = [home.store.write(Put(Item("p", f"{number}"), ABSENT)) for number in range(1, 20)]
            # The loop is free, and readers do not wait.
            assert await home.store.get("p", "0") is None
            assert not first.done()
            locked.release()
            await asyncio.gather(first, *rest)
            assert threads == [THREAD, LOOP]
            assert home.store.commits == 2
            assert len((await home.store.query("p")).items) == 20

    async def test_a_lock_that_is_never_released(self, path, open_home, monkeypatch) -> None:
        monkeypatch.setattr(writer, "LOCK_WAIT_SECONDS", 0.02)
        async with open_home() as home:
            locked = Locked(path)
            with pytest.raises(StoreUnavailable, match="locked by another process"):
                await home.store.write(Put(Item("p")))
            locked.release()
            await home.store.write(Put(Item("p")))

    async def test_a_caller_hears_of_it_when_his_patience_is_over_and_nothing_was_applied(
        self, path, monkeypatch
    ) -> None:
        assert 2 * writer.LOCK_WAIT_SECONDS <= persist.CALLER_PATIENCE_SECONDS  # the real ones
        monkeypatch.setattr(writer, "LOCK_WAIT_SECONDS", 0.01)
        monkeypatch.setattr(persist, "CALLER_PATIENCE_SECONDS", 0.02)
        app = hf.App("shop", home=f"sqlite:///{path}")

        @app.workflow
        async def job() -> None:
            await hf.signal("go")

        async with app:
            handle = await job.start(id="j")
            locked = Locked(path)
            calls = [
                lambda: job.start(id="other"),
                lambda: handle.signal("go"),
                handle.cancel,
                handle.pause,
                handle.terminate,
                lambda: handle.fork("fork"),
            ]
            for call in calls:
                with pytest.raises(StoreUnavailable, match="locked by another process"):
                    await call()
            locked.release()
            assert [each.id for each in (await app.executions()).executions] == ["j"]
            assert (await handle.status()).status == "READY"
            assert not (await app.runtime().home.store.query("wf#job#j", prefix="i#")).items

    async def test_a_caller_who_goes_away_while_the_batch_is_in_the_thread(self, path, open_home) -> None:
        async with open_home() as home:
            locked = Locked(path)
            calls = [home.store.write(Put(Item(f"p{number}"))) for number in range(3)]
            await handed_over(home.store)
            calls[1].cancel()
            locked.release()
            await asyncio.gather(calls[0], calls[2])
            # Its outcome was unknown to the caller; applied is what it is.
            assert await home.store.get("p1") == Item("p1")

    async def test_closing_waits_for_the_thread(self, path, open_home) -> None:
        async with open_home() as home, open_home() as other:
            locked = Locked(path)
            first = home.store.write(Put(Item("p", "0")))
            await handed_over(home.store)
            second = home.store.write(Put(Item("p", "1")))
            closing = asyncio.create_task(home.store.close())
            await asyncio.sleep(0)
            with pytest.raises(StoreUnusable, match="closed"):
                await home.store.write(Put(Item("p", "2")))
            locked.release()
            await closing
            assert first.done()
            assert second.done()
            assert len((await other.store.query("p")).items) == 2
            assert THREAD not in {thread.name for thread in threading.enumerate()}

    def test_a_loop_that_ends_under_the_thread_is_no_error(self, path, recwarn) -> None:
        async def scenario() -> tuple[SqliteStore, Locked]:
            store = SqliteStore.open(str(path))
            locked = Locked(path)
            store.write(Put(Item("p"), ABSENT))
            await handed_over(store)
            return store, locked

        store, locked = asyncio.run(scenario())
        locked.release()
        thread = store._writer._thread
        assert thread is not None
        thread.join(10)
        assert not thread.is_alive()
        assert asyncio.run(read_again(path)) == Item("p")


async def read_again(path: Any) -> Item | None:
    store = SqliteStore.open(str(path))
    try:
        return await store.get("p")
    finally:
        await store.close()


def _slow_every(period: int, number: int, store: SqliteStore) -> Callable[[Sequence[Call]], list[Outcome]]:
    run = store.runner.run

    def slow(calls: Sequence[Call]) -> list[Outcome]:
        store.runner.run = run
        outcomes = run(calls)
        if number % period == period - 1:
            store.runner.commit_seconds = 0.5
        return outcomes

    return slow


class TestScan:
    async def test_a_scan_looks_at_a_bounded_number_of_heads_at_a_time(self, open_home, monkeypatch) -> None:
        from holdfast.backends.sqlite import store as module

        monkeypatch.setattr(module, "SCAN_ROWS", 4)
        async with open_home() as home:
            for number in range(20):
                await home.store.write(Put(Item(f"{'rare' if number in {0, 7} else 'common'}/{number}")))
            page = await home.store.scan("rare/")
            found, empty = list(page.items), 0
            while page.cursor is not None:
                page = await home.store.scan("rare/", after=page.cursor)
                found += page.items
                empty += not page.items
            assert [head.partition for head in found] == ["rare/7", "rare/0"]
            assert empty >= 1

    async def test_a_gap_in_the_numbers_is_jumped(self, open_home, monkeypatch) -> None:
        from holdfast.backends.sqlite import store as module

        monkeypatch.setattr(module, "SCAN_ROWS", 4)
        async with open_home() as home:
            await home.store.write(Put(Item("first")))
            await home.store.transact(lambda cursor: ([], cursor.execute("SELECT 1")))
            await home.store._submit(lambda runner: runner.change("UPDATE holdfast_heads SET number = 1000000", ()))
            await home.store.write(Put(Item("last")))
            await home.store._submit(
                lambda runner: runner.change("UPDATE holdfast_heads SET number = 1 WHERE partition = 'first'", ())
            )
            page = await home.store.scan("")
            assert [head.partition for head in page.items] == ["last"]
            page = await home.store.scan("", after=page.cursor)
            assert ([head.partition for head in page.items], page.cursor) == (["first"], None)

    @pytest.mark.parametrize("cursor", ["", "x", "1:2", "1:2:3"])
    async def test_a_cursor_of_another_store(self, open_home, cursor) -> None:
        async with open_home() as home:
            with pytest.raises(InvalidInput, match="cursor"):
                await home.store.scan("", after=cursor)
            if cursor != "1:2":
                with pytest.raises(InvalidInput, match="cursor"):
                    await home.store.due(1, after=cursor)

    async def test_a_page_of_large_bodies_is_short(self, open_home) -> None:
        async with open_home() as home:
            for number in range(6):
                await home.store.write(Put(Item("p", f"{number}", body=bytes(2**20 + 1))))
            page = await home.store.query("p")
            assert (len(page.items), page.cursor) == (4, "3")
            page = await home.store.query("p", after=page.cursor)
            assert (len(page.items), page.cursor) == (2, None)
