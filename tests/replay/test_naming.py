"""Places that a body names: identities that depend on nothing but what it says."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import InvalidInput
from holdfast.replay.naming import LONGEST_PATH_BYTES, escaped, place


async def visit(run, name, *steps):
    with place(name):
        return [await run.ask(step) for step in steps]


@pytest.fixture
def told(bench):
    """``told(body)``: what the body's error says."""

    def run(body):
        return str(bench(body).outcome.error)

    return run


def test_what_is_asked_for_in_a_place_is_named_by_it(bench):
    async def body(run):
        first = await visit(run, "Pay#0", "charge", "charge", "note")
        return first + await visit(run, "Pay#1", "charge")

    run = bench(body)
    for op in ("Pay#0/charge#0", "Pay#0/charge#1", "Pay#0/note#0", "Pay#1/charge#0"):
        run.answer(op, op)
    assert run.outcome.value == ["Pay#0/charge#0", "Pay#0/charge#1", "Pay#0/note#0", "Pay#1/charge#0"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_it_does_not_matter_which_task_asks_first(bench, order):
    async def body(run):
        tasks = {item: asyncio.create_task(visit(run, f"Map#0[{item}]/Ship#0", "ship")) for item in order}
        return [(await tasks[item])[0] for item in range(3)]

    run = bench(body)
    for item in range(3):
        run.answer(f"Map#0[{item}]/Ship#0/ship#0", item)
    assert run.outcome.value == [0, 1, 2]


def test_a_body_that_is_written_otherwise_replays_what_its_places_asked_for(bench):
    async def in_turn(run):
        return [*await visit(run, "A#0", "a"), *await visit(run, "B#0", "b")]

    async def beside(run):
        async with asyncio.timeout(None), asyncio.TaskGroup() as group:
            tasks = [group.create_task(visit(run, "A#0", "a")), group.create_task(visit(run, "B#0", "b"))]
        return [task.result()[0] for task in tasks]

    first = bench(in_turn)
    first.answer("A#0/a#0", 1)
    first.answer("B#0/b#0", 2)
    again = bench(beside, first.journal)
    assert again.outcome.value == [1, 2]
    assert again.asked == []


def test_timers_and_tasks_of_a_place_are_named_by_it(bench):
    async def body(run):
        with place("Wait#0"):
            await asyncio.sleep(1)
            await asyncio.create_task(run.ask("note"))

    run = bench(body)
    assert list(run.timers) == ["Wait#0/sleep#0"]
    run.answer("Wait#0/sleep#0", at=run.timers["Wait#0/sleep#0"])
    assert run.asked[-1] == "Wait#0/ask#0/note#0"


def test_behind_a_place_a_task_has_its_own_path_again(bench):
    async def body(run):
        async def inner():
            await visit(run, "Pay#0", "charge")
            await run.ask("note")

        with place("Outer#0"):
            await asyncio.create_task(inner())

    run = bench(body)
    run.answer("Pay#0/charge#0")
    assert run.asked[-1] == "Outer#0/inner#0/note#0"


def test_a_place_that_is_left_by_an_error_is_left(bench):
    async def body(run):
        with pytest.raises(LookupError), place("Outer#0"):
            raise LookupError
        with place("Pay#0"):
            await run.ask("charge")

    assert bench(body).asked == ["Pay#0/charge#0"]


# ── Two of one name ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_has_a_place_once(told):
    async def body(run):
        await visit(run, "Pay#0")
        await visit(run, "Pay#0")

    assert "'Pay#0' is a place, or a task, of this run already" in told(body)


def test_a_place_is_not_where_a_task_is(told):
    async def task(): ...

    async def body(run):
        await visit(run, "Pay#0")
        asyncio.create_task(task())  # noqa: RUF006 - the body ends before it
        await visit(run, "task#0")

    assert "'task#0' is a place, or a task, of this run already" in told(body)


def test_a_task_is_not_where_a_place_is(told):
    async def task(): ...

    async def body(run):
        await visit(run, "task#0")
        asyncio.create_task(task())  # noqa: RUF006 - it is refused

    assert "'task#0' is a place, or a task, of this run already" in told(body)


def test_the_first_place_is_named_before_anything_is_asked_for(bench):
    async def body(run):
        await run.ask("charge")
        await visit(run, "Pay#0")

    run = bench(body)
    run.answer("charge#0")
    assert "asked for something before it named its first place, 'Pay#0'" in str(run.outcome.error)


def test_a_place_is_one_of_a_workflow_body():
    async def outside():
        with place("Pay#0"):
            pass

    with pytest.raises(InvalidInput, match="'Pay#0' names a place in a workflow body, and is used outside of one"):
        asyncio.run(outside())


# ── Names of all kinds ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_cannot_look_like_a_place_inside_another():
    assert escaped("Map#0[1]/Ship!") == "Map%230%5B1%5D%2FShip%21"
    assert len({escaped(name) for name in ("a/b", "a%2Fb", "a", "a#0", "a[0]")}) == 5


def test_a_long_place_is_known_by_its_digest(bench):
    names = ["é" * LONGEST_PATH_BYTES, "é" * LONGEST_PATH_BYTES + "x"]

    async def body(run):
        await asyncio.gather(*(visit(run, name, "charge") for name in names))

    asked = bench(body).asked
    assert len(set(asked)) == 2
    assert all(op.startswith("~") and len(op.encode()) < LONGEST_PATH_BYTES for op in asked)
