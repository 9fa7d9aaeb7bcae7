"""Answering a callback by its operation: what the holder of the token may, once, without the token."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.commands import IN_HOME, Context, perform_for
from holdfast.commands.callback import AnswerCallback
from holdfast.errors import UnknownName
from holdfast.testing import FaultsAt, faulty_home
from holdfast.testing.faults import LoseAnswer


@pytest.fixture
def tokens():
    return []


@pytest.fixture
def parcel(app, tokens):
    @app.step(name="ask")
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def parcel(timeout: str | None = None, rounds: int = 0) -> str:
        answer = hf.callback(str, name="shipped", timeout=timeout)
        await ask(answer.token)
        try:
            got = await answer
        except hf.StepTimeout:
            await hf.signal("later")
            return "timed out"
        except hf.StepFailed as error:
            return f"failed: {error}"
        if rounds:
            hf.continue_as_new(timeout, rounds - 1)
        await hf.signal("later")
        return got

    return parcel


async def answer(app, id, operation="shipped#0", **how):
    command = AnswerCallback("parcel", id, operation, **how)
    await perform_for("ann", command, Context(app, IN_HOME))


async def waiting(app, parcel, reaches, id="p", **options):
    handle = await parcel.start(id=id, **options)
    await reaches(handle, "SUSPENDED")
    return handle


async def test_a_value_reaches_the_body_once_and_a_repeat_is_taken(app, parcel, tokens, reaches, eventually):
    async with app.worker():
        handle = await waiting(app, parcel, reaches)
        await answer(app, "p", value="lost and found")
        await answer(app, "p", value="lost and found")
        with pytest.raises(hf.InvalidState, match="has been answered or has timed out"):
            await answer(app, "p", value="another")
        await reaches(handle, "SUSPENDED")
        await answer(app, "p", value="lost and found")
        with pytest.raises(hf.InvalidToken):
            await app.callback(tokens[0]).complete("another")
        await handle.signal("later")
        assert await handle == "lost and found"
        await answer(app, "p", value="lost and found")
        with pytest.raises(hf.InvalidState, match="has ended as COMPLETED"):
            await answer(app, "p", value="another")


async def test_an_error_reaches_the_body_as_that_of_a_step(app, parcel, reaches):
    async with app.worker():
        handle = await waiting(app, parcel, reaches)
        with pytest.raises(hf.InvalidInput, match="not with both"):
            await answer(app, "p", value=1, error="lost")
        await answer(app, "p", error="the parcel is lost")
        assert await handle == "failed: CallbackFailed: the parcel is lost"


async def test_an_unknown_operation_is_refused_by_the_names_of_the_awaited_ones(app, parcel, reaches):
    async with app.worker():
        await waiting(app, parcel, reaches)
        for wrong in ("shipped", "shipped#1", "ask#0"):
            with pytest.raises(UnknownName, match="it waits for: 'shipped#0'"):
                await answer(app, "p", wrong, value="x")
        with pytest.raises(hf.NotFound):
            await answer(app, "q", value="x")


async def test_one_that_has_timed_out_is_refused(app, parcel, eventually, reaches):
    async with app.worker():
        handle = await parcel.start("10ms", id="p")

        async def timed_out():
            return any(event.kind == "timer" for event in await handle.history())

        await reaches(handle, "SUSPENDED")
        await eventually(timed_out)
        with pytest.raises((hf.InvalidState, UnknownName)):
            await answer(app, "p", value="x")
        await handle.signal("later")
        assert await handle == "timed out"


async def test_it_is_for_the_current_run_alone(app, parcel, tokens, eventually, reaches):
    async with app.worker():
        handle = await waiting(app, parcel, reaches, rounds=1)
        await answer(app, "p", value="first")
        await eventually(lambda: len(tokens) == 2)
        with pytest.raises(hf.InvalidToken):
            await app.callback(tokens[0]).complete("late")
        await reaches(handle, "SUSPENDED")
        await answer(app, "p", value="second")
        await handle.signal("later")
        assert await handle == "second"


async def test_what_the_head_does_not_name_is_found_by_the_code(app, reaches):
    @app.workflow
    async def many(count: int) -> int:
        callbacks = [hf.callback(int, name="part") for _ in range(count)]
        return sum(await asyncio.gather(*callbacks))

    async with app.worker():
        handle = await many.start(15, id="m")
        await reaches(handle, "SUSPENDED")
        for number in range(15):
            await perform_for("ann", AnswerCallback("many", "m", f"part#{number}", number), Context(app))
        assert await handle == sum(range(15))


class Counting(FaultsAt):
    """Counts the faults that have hit a write."""

    hit = 0

    def on_write(self, number):
        found = super().on_write(number)
        self.hit += found is not None
        return found


@pytest.mark.parametrize("lost", range(1, 6))
async def test_an_answer_whose_outcome_is_unknown_is_taken_once(lost):
    """The writes are: the row in the audit, the answer, the outcome in the row; and the two of the repeat."""
    data, seen, faults = MemoryData(), [], Counting({lost: LoseAnswer()})

    async def open_faulty():
        return faulty_home(open_memory_home(data=data), faults)

    async def open_plain():
        return open_memory_home(data=data)

    worker, client = (hf.App("shop", home=home) for home in (open_plain, open_faulty))

    @worker.workflow
    async def parcel() -> str:
        seen.append(await hf.callback(str, name="shipped"))
        return seen[-1]

    async with worker.worker():
        handle = await parcel.start(id="p")
        while (await handle.status()).status != "SUSPENDED":
            await asyncio.sleep(0.01)
        async with client:
            await answer(client, "p", value="x")
            await answer(client, "p", value="x")
        assert await handle == "x"
    assert set(seen) == {"x"} and faults.hit == 1
