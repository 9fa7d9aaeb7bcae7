"""Starts by key: what counts, what is left out, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import holdfast as hf
from holdfast.patterns.starts.collected import MOST_BYTES
from holdfast.testing import VirtualClock, run_virtual

Story = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture
def app() -> hf.App:
    return hf.App("shop", home="memory://", clock=VirtualClock())


@pytest.fixture
def play(app: hf.App) -> Callable[[Story], Any]:
    """``play(story)``: run ``story()`` beside a worker, in virtual time."""

    def run(story: Story) -> Any:
        async def main() -> Any:
            async with app.worker():
                return await story()

        return run_virtual(main)

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
def noted(app: hf.App) -> Any:
    """A workflow that answers what it was given."""

    @app.workflow
    async def noted(text: str, number: int = 0) -> tuple[str, int]:
        return text, number

    return noted


# ── Debounce ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_of_several_requests_counts(app, noted, play):
    soon = app.debounce(noted, quiet="5s")

    async def story():
        handles = []
        for number in range(3):
            handles.append(await soon.at("k").start(f"text {number}", number=number))
            await asyncio.sleep(4)
        return [await each for each in handles], len({each.id for each in handles}), now()

    results, ids, at = play(story)
    assert results == [("text 2", 2)] * 3
    assert ids == 1
    assert 13 <= at < 14


def test_it_starts_although_requests_go_on(app, noted, play):
    soon = app.debounce(noted, quiet="5s", longest="12s")

    async def story():
        ids = []
        for number in range(8):
            ids.append((await soon.at("k").start(f"{number}")).id)
            await asyncio.sleep(3)
        return ids

    ids = play(story)
    assert ids[:4] == [ids[0]] * 4
    assert ids[4] != ids[0]


def test_keys_and_declarations_are_independent(app, noted, play):
    soon = app.debounce(noted, quiet="1s")
    other = app.debounce(noted, quiet="1s", name="other")

    async def story():
        handles = [await soon.at("a").start("a"), await soon.at("b").start("b"), await other.at("a").start("c")]
        return [await each for each in handles]

    assert play(story) == [("a", 0), ("b", 0), ("c", 0)]


def test_a_promised_execution_is_not_found_before_it_begins_and_waited_for(app, noted, play):
    soon = app.debounce(noted, quiet="1m")

    async def story():
        handle = await soon.at("a").start("a")
        with pytest.raises(hf.NotFound):
            await handle.status()
        with pytest.raises(hf.WaitTimeout, match="has not begun within 10s"):
            await handle.result("10s")
        return await handle.result("55s")

    assert play(story) == ("a", 0)


def test_a_request_from_a_workflow_is_recorded(app, noted, play):
    soon = app.debounce(noted, quiet="5s")

    @app.workflow
    async def edit() -> str:
        handle = await soon.at("k").start("from a body")
        await hf.sleep("10s")
        return (await handle)[0]

    assert play(edit) == "from a body"


# ── Collect ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def batches(app: hf.App) -> Any:
    @app.workflow
    async def batches(rows: list[str]) -> list[str]:
        return rows

    return batches


def test_a_batch_begins_when_there_are_enough_or_its_time_is_over(app, batches, play):
    rows = app.collect(batches, most=2, within="10s")

    async def story():
        handles = [await rows.at("t").start(each) for each in "abc"]
        return [await each for each in handles], now()

    results, at = play(story)
    assert results == [["a", "b"], ["a", "b"], ["c"]]
    assert 10 <= at < 11


def test_a_batch_that_would_be_too_large_begins_without_its_newest_element(app, batches, play):
    rows = app.collect(batches, within="10s")
    half = "x" * (MOST_BYTES // 2)

    async def story():
        handles = [await rows.at("t").start(each) for each in (half, half, "z")]
        return [await each for each in handles]

    assert [len(each) for each in play(story)] == [1, 2, 2]


def test_a_request_that_is_sent_twice_counts_once(app, batches, play):
    rows = app.collect(batches, within="5s")

    async def story():
        handles = [await rows.at("t", request_id="r").start("a") for _ in range(2)]
        return await handles[1]

    assert play(story) == ["a"]


def test_numbers_of_any_size_and_text_of_any_kind_come_as_they_are(app, play):
    @app.workflow
    async def exact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return rows

    rows = app.collect(exact, most=2, within="5s")
    given: list[dict[str, Any]] = [{"n": 2**60 + 1, "x": 0.1}, {"t": 'é\n"\\ \u2028', "z": None}]

    async def story():
        handles = [await rows.at("t").start(each) for each in given]
        return await handles[0]

    assert play(story) == given


def test_an_element_of_another_type_is_refused_at_once(app, batches, play):
    rows = app.collect(batches, within="5s")

    async def story():
        with pytest.raises(hf.InvalidInput):
            await rows.at("t").start(5)
        return await (await rows.at("t").start("a"))

    assert play(story) == ["a"]


# ── Single and throttle ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def slow(app: hf.App) -> Any:
    @app.workflow
    async def slow(number: int) -> int:
        await hf.sleep("30s")
        return number

    return slow


def test_what_comes_while_one_is_open_is_left_out(app, slow, play):
    starts = app.single(slow)

    async def story():
        at_once = await asyncio.gather(*(starts.at("k").start(number) for number in range(3)))
        (first,) = [each for each in at_once if each is not None]
        await first
        return await starts.at("k").start(9) is not None

    assert play(story)


def test_what_comes_while_one_is_open_joins_it(app, slow, play):
    starts = app.single(slow, mode="join")

    async def story():
        handles = await asyncio.gather(*(starts.at("k").start(number) for number in range(3)))
        later = await starts.at("k").start(7)
        return {await each for each in (*handles, later)}

    assert len(play(story)) == 1


def test_what_comes_while_one_is_open_replaces_it(app, slow, play):
    starts = app.single(slow, mode="replace")

    async def story():
        handles = [*await asyncio.gather(*(starts.at("k").start(number) for number in range(3)))]
        handles.append(await starts.at("k").start(3))
        await handles[-1]
        return [(await each.status()).status for each in handles]

    assert play(story) == ["CANCELLED", "CANCELLED", "CANCELLED", "COMPLETED"]


def test_what_comes_too_soon_is_left_out(app, noted, play):
    starts = app.throttle(noted, every="1m")

    async def story():
        answers = []
        for _ in range(5):
            answers.append(await starts.at("k").start("a") is not None)
            await asyncio.sleep(29)
        return answers

    assert play(story) == [True, False, False, True, False]


@pytest.mark.parametrize("pattern", ["debounce", "collect", "single", "throttle"])
def test_a_key_for_which_nothing_waits_is_forgotten(pattern, app, noted, batches, play):
    declared = {
        "debounce": lambda: app.debounce(noted, quiet="5s"),
        "collect": lambda: app.collect(batches, within="5s"),
        "single": lambda: app.single(noted),
        "throttle": lambda: app.throttle(noted, every="5s"),
    }[pattern]()

    async def story():
        await (await declared.at("k").start("a"))
        await asyncio.sleep(3_600)
        (actor,) = app.registry.actors
        head = await app.runtime().home.store.get(f"actor#{actor}#k")
        return head.due_at, head.expires_at

    due_at, expires_at = play(story)
    assert due_at is None
    assert expires_at is not None


# ── What is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda app, noted, _: app.debounce(noted, quiet=0), "quiet is longer than nothing"),
        (lambda app, noted, _: app.debounce(noted, quiet="5s", longest="1s"), "shorter than quiet"),
        (lambda app, noted, _: app.debounce(print, quiet="5s"), "starts a workflow, and was given"),
        (lambda app, noted, _: app.collect(noted, within="5s"), "one parameter, a list"),
        (lambda app, _, batches: app.collect(batches, within="5s", most=0), "1 to 1000"),
        (lambda app, _, batches: app.collect(batches, within="5s", most=2.5), "1 to 1000, not 2.5"),
        (lambda app, _, batches: app.collect(batches, within="5s", most=True), "1 to 1000, not True"),
        (lambda app, _, batches: app.collect(batches, within=0), "within is longer than nothing"),
        (lambda app, noted, _: app.single(noted, mode="wait"), "'skip', 'join' or 'replace'"),
        (lambda app, noted, _: app.throttle(noted, every=0), "every is longer than nothing"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_declared(declare, why, app, noted, batches):
    with pytest.raises(hf.ConfigurationError, match=why):
        declare(app, noted, batches)


def test_two_declarations_of_one_name_are_refused(app, noted):
    app.debounce(noted, quiet="5s")
    app.throttle(noted, every="5s")
    with pytest.raises(hf.DuplicateName, match="another name"):
        app.debounce(noted, quiet="1s")
