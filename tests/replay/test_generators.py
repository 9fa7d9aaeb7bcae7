"""Asynchronous generators that a body leaves unfinished are closed in that body, whatever the collector does when."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.replay.test_activation import Bench

from holdfast.errors import Evicted
from holdfast.replay.generators import FEW_GENERATORS
from holdfast.replay.requests import RUNNING, Raised, Returned

Numbers = Callable[[Bench, str], AsyncIterator[int]]


async def numbers(run: Bench, clean_up: str) -> AsyncIterator[int]:
    try:
        for number in range(5):
            yield number
    finally:
        await run.ask(clean_up)


class Cycle:
    """Holds itself, and something else: only the collector frees it."""

    def __init__(self, held: object) -> None:
        self.held = held
        self.own = self


async def leave(run: Bench, clean_up: str) -> None:
    """Take one number, and leave the rest."""
    async for _ in numbers(run, clean_up):
        break


async def leave_in_a_cycle(run: Bench, clean_up: str) -> None:
    """The same, but the generator is never freed by itself."""
    generator = numbers(run, clean_up)
    await anext(generator)
    Cycle(generator)


def answer_all(run: Bench, *, collecting: bool = False) -> list[str]:
    """Answer whatever it asks for, in the order in which it asks; answers the names."""
    answered = []
    while run.activation.requested:
        name = next(iter(run.activation.requested))
        answered.append(name)
        if collecting:
            gc.collect()
        run.answer(name, name)
    return answered


def test_one_that_is_left_by_break_is_closed_at_once_by_a_task_of_its_own(bench):
    async def body(run: Bench) -> str:
        await leave(run, "clean up")
        return await run.ask("next")

    run = bench(body)
    assert run.asked == ["next#0", "numbers.aclose#0/clean up#0"]
    run.answer("numbers.aclose#0/clean up#0")
    run.answer("next#0", "done")
    assert run.outcome == Returned("done")


def test_the_body_has_not_ended_before_it_is_closed(bench):
    async def body(run: Bench) -> str:
        await leave(run, "clean up")
        return "done"

    run = bench(body)
    assert run.outcome is RUNNING
    assert answer_all(run) == ["numbers.aclose#0/clean up#0"]
    assert run.outcome == Returned("done")


@pytest.mark.parametrize("collecting", [False, True])
def test_those_that_the_collector_would_find_are_closed_at_the_end_in_the_order_of_their_beginning(bench, collecting):
    async def body(run: Bench) -> str:
        kept = numbers(run, "kept")
        await leave_in_a_cycle(run, "first")
        await anext(kept)
        await leave_in_a_cycle(run, "third")
        run.activation.context = kept
        return str(await run.ask("a"))

    gc.disable()
    try:
        run = bench(body)
        assert answer_all(run, collecting=collecting) == ["a#0", "first#0", "kept#0", "third#0"]
        assert run.outcome == Returned("a#0")
    finally:
        gc.enable()


def test_a_replay_repeats_the_clean_up(bench):
    async def body(run: Bench) -> str:
        await leave(run, "clean up")
        await leave_in_a_cycle(run, "at the end")
        return str(await run.ask("next"))

    first = bench(body)
    names = answer_all(first, collecting=True)
    assert len(names) == 3
    for cut in range(len(first.journal) + 1):
        again = bench(body, first.journal[:cut])
        assert answer_all(again) == names[cut:] or cut == 0
        assert again.outcome == first.outcome
        assert again.activation.broken is None


def test_the_collector_brings_nothing_into_the_journal_of_another_body(bench):
    async def leaves(run: Bench) -> str:
        await leave_in_a_cycle(run, "mine")
        return str(await run.ask("a"))

    async def collects(run: Bench) -> str:
        gc.collect()
        await run.ask("b")
        gc.collect()
        return "done"

    gc.disable()
    try:
        one, other = bench(leaves), bench(collects)
        other.answer("b#0")
        assert other.asked == ["b#0"]
        assert other.outcome == Returned("done")
        assert one.asked == ["a#0"]
        assert answer_all(one) == ["a#0", "mine#0"]
    finally:
        gc.enable()


def test_the_collector_may_come_in_another_thread(bench):
    async def body(run: Bench) -> str:
        await leave_in_a_cycle(run, "clean up")
        return str(await run.ask("a"))

    gc.disable()
    try:
        run = bench(body)
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        assert answer_all(run) == ["a#0", "clean up#0"]
    finally:
        gc.enable()


def test_a_clean_up_that_waits_for_nothing_durable_is_cancelled_in_the_end(bench):
    async def stubborn() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.Event().wait()

    async def body(_: Bench) -> str:
        async for _number in stubborn():
            break
        return "done"

    assert bench(body).outcome == Returned("done")


def test_an_error_in_a_clean_up_is_told_and_changes_nothing(bench, caplog):
    async def failing() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("not clean")

    async def body(_: Bench) -> str:
        async for _number in failing():
            break
        return "done"

    assert bench(body).outcome == Returned("done")
    assert "not clean" in caplog.text


def test_a_body_that_fails_closes_what_its_error_still_holds(bench):
    async def body(run: Bench) -> None:
        generator = numbers(run, "clean up")
        async for _ in generator:
            raise KeyError("stop")

    run = bench(body)
    assert answer_all(run) == ["clean up#0"]
    assert isinstance(run.outcome, Raised)
    assert isinstance(run.outcome.error, KeyError)


@pytest.mark.parametrize("left", [leave, leave_in_a_cycle])
def test_eviction_runs_finally_blocks_and_refuses_what_they_ask_for(bench, left):
    seen: list[Any] = []

    async def watched(run: Bench) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            seen.append("finally")
            try:
                await run.ask("never")
            except Evicted:
                seen.append("refused")
                raise

    async def body(run: Bench) -> None:
        generator = watched(run)
        await anext(generator)
        if left is leave_in_a_cycle:
            Cycle(generator)
        await run.ask("a")
        await anext(generator)

    run = bench(body)
    run.close()
    gc.collect()
    assert seen == ["finally", "refused"]
    assert run.asked == ["a#0"]


def test_nothing_keeps_what_has_ended(bench):
    gone: list[weakref.ref[Any]] = []

    async def count() -> AsyncIterator[int]:
        for number in range(2):
            yield number

    async def body(run: Bench) -> None:
        for _ in range(20 * FEW_GENERATORS):
            generator = count()
            gone.append(weakref.ref(generator))
            assert [number async for number in generator] == [0, 1]
        del generator
        await run.ask("a")

    run = bench(body)
    assert all(each() is None for each in gone)
    begun = run.activation.loop._generators._begun
    assert len(begun) <= 2 * FEW_GENERATORS
