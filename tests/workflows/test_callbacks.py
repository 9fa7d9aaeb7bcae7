"""Callbacks: one answer from outside, by whoever holds the token."""

from __future__ import annotations

import asyncio
import base64
from contextlib import nullcontext
from dataclasses import dataclass

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.testing import FaultsAt, faulty_home
from holdfast.testing.faults import LoseAnswer
from holdfast.workflows.callback_tokens import LONGEST_TOKEN_CHARACTERS, token_scope


@dataclass
class Shipment:
    parcel: str
    weight_grams: int


@pytest.fixture
def tokens():
    """Where the steps of these tests leave the tokens they were to hand out."""
    return []


@pytest.fixture
def ship(app, tokens):
    @app.step(name="ask")
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def ship(timeout: str | None = None, heartbeat: str | None = None) -> str:
        answer = hf.callback(Shipment, name="shipped", timeout=timeout, heartbeat=heartbeat)
        await ask(answer.token)
        try:
            shipment = await answer
        except hf.StepTimeout:
            return "timed out"
        except hf.StepFailed as error:
            return f"failed: {error}"
        assert isinstance(shipment, Shipment)
        return shipment.parcel

    return ship


async def test_the_answer_reaches_the_body_as_its_type(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete(Shipment("p-1", 200))
        assert await handle == "p-1"


async def test_a_plain_dict_of_the_right_shape_will_do(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete({"parcel": "p-2", "weight_grams": 1})
        assert await handle == "p-2"


async def test_a_failure_reaches_the_body(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).fail("out of stock", error_type="OutOfStock")
        assert await handle == "failed: OutOfStock: out of stock"


async def test_an_answer_may_come_before_anybody_waits(app, tokens):
    @app.step
    async def ask(token: str) -> None:
        await app.callback(token).complete(17)
        tokens.append(token)

    @app.workflow
    async def job() -> int:
        answer = hf.callback(int)
        await ask(answer.token)
        await hf.sleep("5ms")
        return await answer

    async with app.worker():
        assert await job() == 17


async def test_the_answer_may_be_nothing(app, tokens, eventually):
    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> str:
        answer = hf.callback(type(None))
        await ask(answer.token)
        return repr(await answer)

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete()
        assert await handle == "None"


async def test_the_token_is_the_same_on_every_replay(app, eventually):
    tokens = []

    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> str:
        answer = hf.callback(str)
        await ask(answer.token)
        await hf.sleep("1ms")
        await ask(answer.token)
        return await answer

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: len(tokens) == 2)
        await app.callback(tokens[0]).complete("done")
        assert await handle == "done"
    assert tokens[0] == tokens[1]


async def test_two_callbacks_are_told_apart(app, eventually):
    tokens: dict[str, str] = {}

    @app.step
    async def ask(which: str, token: str) -> None:
        tokens[which] = token

    @app.workflow
    async def job() -> list[str]:
        first, second = hf.callback(str), hf.callback(str)
        await asyncio.gather(ask("first", first.token), ask("second", second.token))
        return list(await asyncio.gather(first, second))

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: len(tokens) == 2)
        await app.callback(tokens["second"]).complete("2")
        await app.callback(tokens["first"]).complete("1")
        assert await handle == ["1", "2"]


async def test_awaiting_it_again_answers_the_same(app, tokens, eventually):
    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> list[int]:
        answer = hf.callback(int)
        await ask(answer.token)
        return [await answer, await answer]

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete(5)
        assert await handle == [5, 5]


async def test_whoever_gave_up_waiting_may_wait_again(app, tokens, eventually):
    reminders = []

    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.step
    async def remind() -> None:
        reminders.append(1)

    @app.workflow
    async def job() -> str:
        answer = hf.callback(str)
        await ask(answer.token)
        while True:
            try:
                async with asyncio.timeout(0.005):
                    return await answer
            except TimeoutError:
                await remind()

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: len(reminders) == 2)
        await app.callback(tokens[0]).complete("at last")
        assert await handle == "at last"


async def test_two_may_wait_for_one_callback(app, tokens, eventually):
    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> list[str]:
        answer = hf.callback(str)
        await ask(answer.token)
        return list(await asyncio.gather(answer, answer))

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete("both")
        assert await handle == ["both", "both"]


# ── Tokens that are not valid ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_answer_is_refused_whether_or_not_the_first_was_taken(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        callback = app.callback(tokens[0])
        await callback.complete(Shipment("p-1", 1))
        with pytest.raises(hf.InvalidToken):
            await callback.complete(Shipment("p-2", 2))
        assert await handle == "p-1"
        with pytest.raises(hf.InvalidToken):
            await callback.complete(Shipment("p-3", 3))
        with pytest.raises(hf.InvalidToken):
            await callback.fail("late")
        with pytest.raises(hf.InvalidToken):
            await callback.heartbeat()


async def test_the_same_answer_again_is_taken_as_the_first_was(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        callback = app.callback(tokens[0])
        for _ in range(3):
            await callback.complete(Shipment("p-1", 1))
        assert await handle == "p-1"
        await callback.complete({"weight_grams": 1, "parcel": "p-1"})
        for another in (Shipment("p-2", 1), None):
            with pytest.raises(hf.InvalidToken):
                await callback.complete(another)
        with pytest.raises(hf.InvalidToken):
            await callback.fail("p-1")


async def test_the_same_failure_again_is_taken_as_the_first_was(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        callback = app.callback(tokens[0])
        await callback.fail("lost", error_type="Post")
        await callback.fail("lost", error_type="Post")
        assert await handle == "failed: Post: lost"
        await callback.fail("lost", error_type="Post")
        with pytest.raises(hf.InvalidToken):
            await callback.fail("lost", error_type="Mail")
        with pytest.raises(hf.InvalidToken):
            await callback.complete(None)


async def test_an_answer_that_nobody_has_taken_yet_may_be_repeated(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
    async with app:
        callback = app.callback(tokens[0])
        await callback.complete(Shipment("p-1", 1))
        await callback.complete(Shipment("p-1", 1))
        with pytest.raises(hf.InvalidToken):
            await callback.complete(Shipment("p-2", 1))
    async with app.worker():
        assert await handle == "p-1"


async def test_a_second_answer_is_refused_while_the_body_goes_on(app, tokens, eventually):
    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> str:
        answer = hf.callback(str)
        await ask(answer.token)
        first = await answer
        await ask("asked")
        return first + await hf.signal("go", str)

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete("first ")
        await eventually(lambda: len(tokens) == 2)
        with pytest.raises(hf.InvalidToken):
            await app.callback(tokens[0]).complete("second")
        await handle.signal("go", "went")
        assert await handle == "first went"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: "",
        lambda token: "x",
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1],
        lambda token: token.replace("hf1", "hf2"),
        lambda token: "a.b.c",
        lambda token: "hf1.é.é",
        lambda token: "hf1..",
        lambda token: token.rsplit(".", 1)[0] + ".",
        lambda token: "x" * 100_000,
        lambda token: "hf1.WyJ3ZiNqb2IjMSIsMCwiY2FsbGJhY2sjMCJd." + token.rsplit(".", 1)[1],
    ],
)
async def test_a_forged_or_damaged_token_is_refused_with_one_text(app, ship, tokens, eventually, spoil):
    async with app.worker():
        await ship.start()
        await eventually(lambda: tokens)
        with pytest.raises(hf.InvalidToken, match=r"^this callback token is not valid, or its callback has been"):
            await app.callback(spoil(tokens[0])).complete("x")


async def test_a_token_must_be_text(app):
    async with app:
        with pytest.raises(hf.InvalidToken):
            await app.callback(None).complete("x")  # type: ignore[arg-type]


def test_a_token_that_is_too_long_is_not_decoded():
    scope = b'["wf#ship#a",0,"shipped"]'
    for padding, is_long in ((0, False), (LONGEST_TOKEN_CHARACTERS, True)):
        token = f"hf1.{base64.urlsafe_b64encode(scope + b' ' * padding).decode().rstrip('=')}.x"
        with pytest.raises(hf.InvalidToken) if is_long else nullcontext():
            assert token_scope(token).partition == "wf#ship#a"


async def test_a_token_dies_with_its_execution(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        await handle.cancel()
        with pytest.raises(hf.ExecutionCancelled):
            await handle
        with pytest.raises(hf.InvalidToken):
            await app.callback(tokens[0]).complete(Shipment("p", 1))


async def test_a_token_of_an_earlier_run_is_refused(app, tokens, eventually):
    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job(again: bool) -> str:
        answer = hf.callback(str)
        await ask(answer.token)
        if again:
            hf.continue_as_new(False)
        return await answer

    async with app.worker():
        handle = await job.start(True)
        await eventually(lambda: len(tokens) == 2)
        assert tokens[0] != tokens[1]
        with pytest.raises(hf.InvalidToken):
            await app.callback(tokens[0]).complete("old")
        await app.callback(tokens[1]).complete("new")
        assert await handle == "new"


async def test_an_answer_json_cannot_carry_is_refused_and_the_token_stays_good(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        with pytest.raises(hf.SerializationError, match="the callback's value"):
            await app.callback(tokens[0]).complete(object())
        await app.callback(tokens[0]).complete(Shipment("p-1", 1))
        assert await handle == "p-1"


async def test_an_answer_of_another_type_is_an_error_in_the_body(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete({"parcel": 7})
        with pytest.raises(hf.ExecutionFailed, match="Shipment") as caught:
            await handle
    assert isinstance(caught.value.__cause__, hf.SerializationError)


# ── Time ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_callback_times_out_and_its_token_with_it(app, ship, tokens):
    async with app.worker():
        assert await ship("10ms") == "timed out"
        with pytest.raises(hf.InvalidToken):
            await app.callback(tokens[0]).complete(Shipment("p", 1))


async def test_the_time_out_counts_from_the_opening(app, tokens):
    @app.workflow
    async def job() -> str:
        answer = hf.callback(timeout="2ms")
        await hf.sleep("10ms")
        try:
            await answer
        except TimeoutError as error:
            return str(error)
        return ""

    async with app.worker():
        assert await job() == "callback callback#0 had no answer within 0.002 s"


async def test_a_late_answer_is_refused_while_the_body_goes_on(app, tokens, eventually):
    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> str:
        answer = hf.callback(str, timeout="5ms")
        await ask(answer.token)
        try:
            return await answer
        except hf.StepTimeout:
            await ask("timed out")
            return await hf.signal("go", str)

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: len(tokens) == 2)
        with pytest.raises(hf.InvalidToken):
            await app.callback(tokens[0]).complete("late")
        await handle.signal("go", "went")
        assert await handle == "went"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"timeout": "10ms"}, "callback callback#0 had no answer within 0.01 s"),
        ({"heartbeat": "10ms"}, "callback callback#0 gave no sign of life for 0.01 s"),
        ({"timeout": "10ms", "heartbeat": "1h"}, "callback callback#0 had no answer within 0.01 s"),
    ],
)
async def test_it_is_late_or_silent_also_while_the_body_waits_elsewhere(app, tokens, eventually, options, told):
    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> str:
        answer = hf.callback(str, **options)
        await ask(answer.token)
        await hf.signal("go")
        try:
            return await answer
        except hf.StepTimeout as error:
            return str(error)

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: tokens)

        async def at_rest() -> bool:
            status = await handle.status()
            return status.status == "SUSPENDED" and status.due_at is None

        await eventually(at_rest)
        with pytest.raises(hf.InvalidToken):
            await app.callback(tokens[0]).complete("late")
        await handle.signal("go")
        assert await handle == told


async def test_an_answer_in_time_ends_the_watch_although_the_body_waits_elsewhere(app, tokens, eventually):
    @app.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def job() -> str:
        answer = hf.callback(str, timeout="1h", heartbeat="1h")
        await ask(answer.token)
        await hf.signal("go")
        return await answer

    async with app.worker():
        handle = await job.start()
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete("in time")

        async def at_rest() -> bool:
            status = await handle.status()
            return status.status == "SUSPENDED" and status.due_at is None

        await eventually(at_rest)
        await handle.signal("go")
        assert await handle == "in time"


async def test_silence_ends_the_wait(app, ship):
    async with app.worker():
        assert await ship(None, "10ms") == "timed out"


async def test_heartbeats_keep_it_open(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start(None, "800ms")
        await eventually(lambda: tokens)
        for _ in range(5):
            await asyncio.sleep(0.2)
            await app.callback(tokens[0]).heartbeat()
        await app.callback(tokens[0]).complete(Shipment("p-1", 1))
        assert await handle == "p-1"


async def test_heartbeats_before_anybody_waits_do_no_harm(app, tokens, eventually):
    @app.step
    async def ask(token: str) -> None:
        for _ in range(3):
            await app.callback(token).heartbeat()
        await app.callback(token).complete("ok")

    @app.workflow
    async def job() -> str:
        answer = hf.callback(str, heartbeat="5s")
        await ask(answer.token)
        return await answer

    async with app.worker():
        assert await job() == "ok"


# ── Other processes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_another_app_on_the_same_home_may_answer(world, app, ship, tokens, eventually):
    async with app.worker(), world.app("web") as web:
        handle = await ship.start()
        await eventually(lambda: tokens)
        await web.callback(tokens[0]).complete(Shipment("p-1", 1))
        assert await handle == "p-1"


async def test_an_answer_given_while_no_worker_runs_waits_for_one(app, ship, tokens, eventually):
    async with app.worker():
        handle = await ship.start(id="s")
        await eventually(lambda: tokens)
    async with app:
        await app.callback(tokens[0]).complete(Shipment("p-1", 1))
    async with app.worker():
        assert await handle == "p-1"


@pytest.mark.parametrize("at_work", [False, True])
async def test_an_answer_to_which_the_store_says_nothing_is_recognised_or_not_denied(at_work, eventually):
    data = MemoryData()
    tokens = []

    async def sound():
        return open_memory_home(data=data)

    async def forgetful():
        return faulty_home(open_memory_home(data=data), FaultsAt({1: LoseAnswer()}))

    working, client = hf.App("shop", home=sound), hf.App("shop", home=forgetful)

    @working.step
    async def ask(token: str) -> None:
        tokens.append(token)

    @working.workflow
    async def ship() -> str:
        answer = hf.callback(str)
        await ask(answer.token)
        return await answer

    async with working.worker():
        handle = await ship.start(id="s")
        await eventually(lambda: tokens)
        if at_work:
            async with client:
                answering = asyncio.create_task(client.callback(tokens[0]).complete("sent"))
                await eventually(lambda: data.find("wf#ship#s", "@").revision)
                working.runtime().host.check("wf#ship#s")  # it finds the answer before its sender asks again
                assert await handle == "sent"
                with pytest.raises(hf.StoreError, match="did not say whether it took this answer"):
                    await answering
    if not at_work:
        async with client:
            await client.callback(tokens[0]).complete("sent")
        async with working.worker():
            assert await ship.handle("s") == "sent"
