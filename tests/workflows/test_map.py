"""``hf.map``: bounded concurrency, rules for when enough is enough, results in input order."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import holdfast as hf
from holdfast.replay.activation import Activation
from holdfast.workflows.operations.batch import Completion

ONCE = hf.Retry(max_attempts=1)


@pytest.fixture
def work(app, ran):
    @app.step(name="work", retry=ONCE)
    async def work(n: int) -> int:
        ran["running"] += 1
        ran["most"] = max(ran["most"], ran["running"])
        try:
            await asyncio.sleep(abs(n) % 5 / 1000)
        finally:
            ran["running"] -= 1
        ran["finished"] += 1
        if n < 0:
            raise LookupError(str(n))
        return 10 * n

    return work


async def run(app, body, *args):
    workflow = app.workflow(name="body")(body)
    async with app.worker():
        return await workflow(*args)


async def test_results_come_in_input_order(app, work):
    async def body() -> list[int | None]:
        batch = await hf.map(work, [4, 1, 3, 2])
        assert batch.completion is Completion.ALL_COMPLETED
        assert batch.finished == (True,) * 4
        assert batch.succeeded == list(batch.results)
        assert batch.failures == []
        return list(batch.results)

    assert await run(app, body) == [40, 10, 30, 20]


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_no_more_run_at_once_than_asked_for(app, work, ran, concurrency):
    async def body() -> int:
        return len((await hf.map(work, range(12), concurrency=concurrency)).succeeded)

    assert await run(app, body) == 12
    assert ran["most"] == concurrency


async def test_nothing_to_do(app, work):
    async def body() -> str:
        return (await hf.map(work, [])).completion.value

    assert await run(app, body) == "all completed"


async def test_a_generator_of_items_is_read_once(app, work):
    async def body() -> list[int]:
        return (await hf.map(work, (n for n in range(3)))).succeeded

    assert await run(app, body) == [0, 10, 20]


async def test_children_and_body_code_can_be_mapped_too(app, work):
    @app.workflow
    async def child(n: int) -> int:
        return await work(n) + 1

    async def body() -> list[int]:
        async def twice(n: int) -> int:
            await hf.sleep("1ms")
            return await work(await work(n))

        return (await hf.map(child, [1, 2])).succeeded + (await hf.map(twice, [1, 2])).succeeded

    assert await run(app, body) == [11, 21, 100, 200]


async def test_without_a_tolerance_the_first_failure_is_raised(app, work):
    async def body() -> str:
        try:
            await hf.map(work, [1, -2, 3])
        except LookupError as error:
            return str(error)
        return ""

    assert await run(app, body) == "-2"


async def test_a_failure_stops_what_still_runs_and_starts_no_more(app, work, ran):
    async def body() -> None:
        await hf.map(work, [-1, *range(100)], concurrency=2)

    with pytest.raises(hf.ExecutionFailed, match="LookupError"):
        await run(app, body)
    assert ran["finished"] < 10


async def test_so_many_failures_are_tolerated(app, work):
    async def body() -> list[str]:
        batch = await hf.map(work, [1, -2, 3, -4], tolerated_failures=2)
        return [
            batch.completion.value,
            *map(str, batch.succeeded),
            *map(str, batch.failures),
            *[type(error).__name__ for error in batch.errors],
        ]

    assert await run(app, body) == [
        "all completed", "10", "30", "-2", "-4", "NoneType", "LookupError", "NoneType", "LookupError",
    ]  # fmt: skip


async def test_one_more_is_too_many(app, work):
    async def body() -> list[str | int]:
        with pytest.raises(
            hf.BatchFailed, match="2 of 6 items of a map failed, where 1 may. The first: LookupError: -1"
        ) as told:
            await hf.map(work, [-1, -2, -3, 4, 1, 2], tolerated_failures=1, concurrency=1)
        batch = told.value.batch
        assert isinstance(told.value.__cause__, LookupError)
        return [batch.completion.value, len(batch.failures), sum(batch.finished)]

    assert await run(app, body) == ["failure tolerance exceeded", 2, 2]


@pytest.mark.parametrize(("percent", "completion"), [(50, "all completed"), (49, "failure tolerance exceeded")])
async def test_failures_are_tolerated_by_percentage(app, work, percent, completion):
    async def body() -> str:
        batch = await hf.map(work, [1, -2, 3, -4], tolerated_failure_percent=percent, partial=True)
        return batch.completion.value

    assert await run(app, body) == completion


async def test_enough_successes_are_enough(app, work, ran):
    async def body() -> list[int | str]:
        batch = await hf.map(work, [0, 0, 4, 4, 4, 4], min_successful=2, concurrency=2)
        return [batch.completion.value, len(batch.succeeded), sum(batch.finished)]

    completion, succeeded, finished = await run(app, body)
    assert completion == "min successful reached"
    assert succeeded == finished == 2


async def test_no_success_at_all_may_be_enough(app, work, ran):
    async def body() -> str:
        return (await hf.map(work, [1, 2], min_successful=0)).completion.value

    assert await run(app, body) == "min successful reached"
    assert not ran["finished"]


async def test_a_map_is_resumed_after_a_crash_without_repeating_items(world, ran, eventually):
    stop = asyncio.Event()

    def code(app, *, stuck):
        @app.step
        async def work(n: int) -> int:
            ran[n] += 1
            if stuck and n == 7:
                stop.set()
                await asyncio.Event().wait()
            return n

        @app.workflow
        async def job() -> list[int]:
            return (await hf.map(work, range(20), concurrency=4)).succeeded

        return job

    first, second = world.app(), world.app()
    before, after = code(first, stuck=True), code(second, stuck=False)
    async with first.worker(grace=0):
        await before.start(id="j")
        await stop.wait()
        await eventually(lambda: ran[19])
    async with second.worker():
        assert await after.handle("j") == list(range(20))
    assert ran.pop(7) == 2
    assert sum(ran.values()) <= 19 + 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency is at least 1, not 0"),
        ({"min_successful": 4}, "min_successful lies between 0 and 3"),
        ({"min_successful": -1}, "min_successful lies between 0 and 3"),
        ({"tolerated_failures": -1}, "tolerated_failures"),
        ({"tolerated_failure_percent": -1}, "tolerated_failure_percent"),
        ({"tolerated_failure_percent": 101}, "tolerated_failure_percent"),
        ({"concurrency": "3"}, "the rules of a map are numbers"),
    ],
)
async def test_rules_that_make_no_sense_are_refused(app, work, options, message):
    async def body() -> None:
        with pytest.raises(hf.InvalidInput, match=message):
            await hf.map(work, [1, 2, 3], **options)

    await run(app, body)


async def test_outside_a_body_it_is_refused(app, work):
    with pytest.raises(hf.InvalidInput, match="hf.map works inside a workflow body only"):
        await hf.map(work, [1])


async def test_cancelling_ends_the_items(app, reaches):
    async def body() -> None:
        async def item(n: int) -> None:
            await hf.signal("never")

        await hf.map(item, range(10), concurrency=3)

    workflow = app.workflow(name="body")(body)
    async with app.worker():
        handle = await workflow.start(id="w")
        await reaches(handle, "SUSPENDED")
        await handle.cancel()
        with pytest.raises(hf.ExecutionCancelled):
            await handle


async def test_a_tolerance_of_none_is_given_and_not_the_default(app, work):
    async def body() -> list[str]:
        with pytest.raises(hf.BatchFailed, match="1 of 2 items of a map failed, where 0 may") as told:
            await hf.map(work, [1, -2], tolerated_failures=0, concurrency=1)
        return [told.value.batch.completion.value, *map(str, told.value.batch.succeeded)]

    assert await run(app, body) == ["failure tolerance exceeded", "10"]


async def test_who_wants_the_batch_is_answered_it_whatever_failed(app, work):
    async def body() -> list[str]:
        batch = await hf.map(work, [1, -2, 3], concurrency=1, partial=True)
        return [batch.completion.value, *map(str, batch.succeeded), *map(str, batch.failures)]

    assert await run(app, body) == ["failure tolerance exceeded", "10", "-2"]


async def test_failures_are_tolerated_while_enough_can_still_end_well(app, work):
    async def body() -> tuple[str, int]:
        batch = await hf.map(work, [-1, -2, 3, 4, 5], min_successful=2, concurrency=1)
        return batch.completion.value, len(batch.failures)

    assert await run(app, body) == ("min successful reached", 2)


@pytest.mark.parametrize("tolerated", [None, 4])
async def test_a_map_ends_as_soon_as_enough_cannot_be_reached_any_more(app, work, ran, tolerated):
    async def body() -> int:
        with pytest.raises(hf.BatchFailed, match="3 of 4 items of a map failed, where 2 may") as told:
            await hf.map(work, [-1, -2, -3, 4], min_successful=2, tolerated_failures=tolerated, concurrency=1)
        return sum(told.value.batch.finished)

    assert await run(app, body) == 3
    assert ran["finished"] == 3


async def test_a_batch_that_failed_tells_an_awaiting_parent(app, work):
    @app.workflow
    async def child() -> None:
        await hf.map(work, [-1], tolerated_failures=0)

    async def body() -> str:
        try:
            await child()
        except hf.ExecutionFailed as failed:
            return f"{failed.error_type}: {failed.error_message}"
        return ""

    assert "BatchFailed: 1 of 1 items of a map failed" in await run(app, body)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda n: n, "hf.map awaits what the function answers for each item, and it answered int"),
        (None, "hf.map calls a step, a workflow or an async def for each item, not None"),
    ],
)
async def test_what_cannot_be_awaited_is_named(app, function, message):
    async def body() -> str:
        try:
            await hf.map(function, [1])
        except hf.InvalidInput as error:
            return str(error)
        return ""

    assert message in await run(app, body)


async def test_operations_are_named_by_the_place_of_their_item(app, work):
    @app.workflow
    async def child(n: int) -> int:
        return n

    async def body() -> None:
        async def item(n: int) -> None:
            await hf.sleep("1ms")
            await hf.map(child, [n])

        await hf.map(work, [7, 8], concurrency=1)
        await hf.map(item, [1], concurrency=1)

    workflow = app.workflow(name="body")(body)
    async with app.worker():
        handle = await workflow.start(id="w")
        await handle
        told = [each.name for each in await handle.history()]
    assert told == ["map#0/0/work#0", "map#0/1/work#0", "map#1/0/sleep#0", "map#1/0/map#0/0/child#0"]


FINISHED = {1: 0, 2: 8, 3: 12, 8: 12}
"""How many steps are recorded when everything waits for items 0 and 5, by concurrency."""


@pytest.mark.parametrize(("was", "now"), [(was, now) for was in FINISHED for now in FINISHED if was != now])
async def test_concurrency_may_change_while_a_map_runs(sqlite_world, was, now):
    """Whatever is recorded is taken over, and nothing runs twice but what was under way."""
    calls = Counter()

    def code(app, concurrency, *, first):
        @app.step
        async def work(place: int, part: str) -> str:
            if first and place in (0, 5):
                await asyncio.Event().wait()
            calls[place, part] += 1
            return f"{part}{place}"

        @app.workflow(version="same")
        async def job() -> list[str]:
            async def item(place: int) -> str:
                return await work(place, "a") + await work(place, "b")

            return (await hf.map(item, range(8), concurrency=concurrency)).succeeded

        return job

    one, two = sqlite_world.app(), sqlite_world.app()
    before, after = code(one, was, first=True), code(two, now, first=False)
    async with one.worker(grace=0):
        handle = await before.start(id="j")
        while len(told := await handle.history()) < FINISHED[was]:
            await asyncio.sleep(0.01)
    async with two.worker():
        assert await after.handle("j") == [f"a{place}b{place}" for place in range(8)]
        names = [each.name for each in await after.handle("j").history()]
    assert {each.name for each in told} <= set(names)
    assert len(names) == len(set(names)) == 16
    assert set(calls.values()) == {1}


async def test_a_map_of_ten_thousand_items_holds_as_many_tasks_as_may_run(app):
    alive = []

    async def body() -> int:
        async def item(n: int) -> int:
            if n == 5_000:
                alive.append(len(asyncio.current_task().get_loop().live_tasks()))
            return n

        return sum((await hf.map(item, range(10_000), concurrency=16)).succeeded)

    assert await run(app, body) == sum(range(10_000))
    assert alive[0] <= 16 + 1


async def test_executions_of_the_old_format_keep_their_lanes(app, work, monkeypatch):
    """Their operations are named by lane, and an exceeded tolerance answers the batch, as it did when they began."""
    begin = Activation.begin

    def begin_as_of_old(self, *now: int) -> None:
        self.names_by_item = False
        begin(self, *now)

    monkeypatch.setattr(Activation, "begin", begin_as_of_old)

    async def body() -> str:
        return (await hf.map(work, [1, -2, 3, -4, 5], tolerated_failures=1, concurrency=2)).completion.value

    workflow = app.workflow(name="body")(body)
    async with app.worker():
        handle = await workflow.start(id="w")
        assert await handle == "failure tolerance exceeded"
        names = {each.name.split("/")[0] for each in await handle.history()}
    assert names == {"_lane#0", "_lane#1"}
