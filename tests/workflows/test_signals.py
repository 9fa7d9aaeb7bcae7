"""Signals: named values sent to an execution, first in, first out, before or after somebody waits for them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import pytest

import holdfast as hf


@dataclass
class Approval:
    by: str
    limit: Decimal


async def test_a_signal_reaches_whoever_waits(app, reaches):
    @app.workflow
    async def job() -> str:
        approval = await hf.signal("approval", Approval)
        assert isinstance(approval, Approval)
        return f"{approval.by} {approval.limit}"

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.signal("approval", Approval("ann", Decimal("9.50")))
        assert await handle == "ann 9.50"


async def test_signals_sent_before_the_start_of_the_wait_are_kept_in_order(app):
    @app.workflow
    async def job() -> list[int]:
        await hf.sleep("5ms")
        return [await hf.signal("n", int) for _ in range(5)]

    async with app:
        handle = await job.start(id="j")
        for n in range(3):
            await handle.signal("n", n)
        async with app.worker():
            for n in range(3, 5):
                await handle.signal("n", n)
            assert await handle == [0, 1, 2, 3, 4]


async def test_signals_of_different_names_do_not_disturb_each_other(app):
    @app.workflow
    async def job() -> list[str]:
        return [await hf.signal("b", str), await hf.signal("a", str), await hf.signal("b", str)]

    async with app.worker():
        handle = await job.start(id="j")
        for name, value in [("a", "a1"), ("b", "b1"), ("b", "b2")]:
            await handle.signal(name, value)
        assert await handle == ["b1", "a1", "b2"]


async def test_many_signals_sent_at_once_all_arrive_once(app):
    @app.workflow
    async def job(count: int) -> list[int]:
        return sorted([await hf.signal("n", int) for _ in range(count)])

    async with app.worker():
        handle = await job.start(100, id="j")
        await asyncio.gather(*[handle.signal("n", n) for n in range(100)])
        assert await handle == list(range(100))


async def test_a_repeat_with_the_same_id_is_dropped(app):
    @app.workflow
    async def job() -> list[int]:
        seen = [await hf.signal("n", int)]
        await hf.sleep("2ms")
        return [*seen, await hf.signal("n", int)]

    async with app.worker():
        handle = await job.start(id="j")
        await handle.signal("n", 1, id="one")
        await handle.signal("n", 1, id="one")
        await asyncio.sleep(0.01)
        await handle.signal("n", 1, id="one")
        await handle.signal("n", 2, id="two")
        assert await handle == [1, 2]


async def test_a_repeat_is_dropped_in_the_next_run_too(app, eventually):
    runs = []

    @app.step
    async def note(left: int) -> None:
        runs.append(left)

    @app.workflow
    async def job(left: int) -> list[int]:
        await note(left)
        n = await hf.signal("n", int)
        if left:
            hf.continue_as_new(left - 1)
        return [n]

    async with app.worker():
        handle = await job.start(1, id="j")
        await handle.signal("n", 1, id="one")
        await eventually(lambda: len(runs) == 2)
        await handle.signal("n", 1, id="one")
        await handle.signal("n", 2, id="two")
        assert await handle == [2]


async def test_a_value_of_another_type_is_an_error_where_it_is_awaited_and_is_used_up(app):
    @app.workflow
    async def job() -> list[str]:
        try:
            await hf.signal("n", int)
        except hf.SerializationError as error:
            return [str(error), str(await hf.signal("n", int))]
        return []

    async with app.worker():
        handle = await job.start(id="j")
        await handle.signal("n", "three")
        await handle.signal("n", 3)
        told, next_value = await handle
    assert "int" in told
    assert next_value == "3"


async def test_without_a_type_it_is_plain_json(app):
    @app.workflow
    async def job() -> list[object]:
        return [await hf.signal("x"), await hf.signal("x")]

    async with app.worker():
        handle = await job.start(id="j")
        await handle.signal("x", {"a": [1, None, "b"]})
        await handle.signal("x")
        assert await handle == [{"a": [1, None, "b"]}, None]


async def test_waiting_can_be_limited(app, eventually):
    noted = []

    @app.step
    async def note() -> None:
        noted.append("too late")

    @app.workflow
    async def job() -> list[str]:
        seen = []
        try:
            await hf.signal("go", timeout="5ms")
        except TimeoutError:
            seen.append("too late")
            await note()
        seen.append(await hf.signal("go", str, timeout="1h"))
        return seen

    async with app.worker():
        handle = await job.start(id="j")
        await eventually(lambda: noted)
        await handle.signal("go", "went")
        assert await handle == ["too late", "went"]


async def test_no_signal_is_lost_between_a_time_out_and_the_next_wait(app):
    @app.workflow
    async def job() -> list[int]:
        seen: list[int] = []
        while len(seen) < 20:
            try:
                seen.append(await hf.signal("n", int, timeout="1ms"))
            except TimeoutError:
                await asyncio.sleep(0)
        return seen

    async with app.worker():
        handle = await job.start(id="j")
        for n in range(20):
            await handle.signal("n", n)
            await asyncio.sleep(0.001)
        assert await handle == list(range(20))


async def test_two_waiters_take_turns(app):
    @app.workflow
    async def job() -> list[str]:
        async def taker(name: str) -> str:
            return name + await hf.signal("x", str)

        return sorted(await asyncio.gather(taker("a"), taker("b")))

    async with app.worker():
        handle = await job.start(id="j")
        await handle.signal("x", "1")
        await handle.signal("x", "2")
        assert await handle == ["a1", "b2"]


async def test_a_race_between_signals(app):
    @app.workflow
    async def job() -> str:
        yes, no = asyncio.create_task(hf.signal("yes", str)), asyncio.create_task(hf.signal("no", str))
        done, pending = await asyncio.wait([yes, no], return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return done.pop().result()

    async with app.worker():
        handle = await job.start(id="j")
        await handle.signal("no", "never")
        assert await handle == "never"


async def test_one_execution_signals_another(app):
    @app.workflow
    async def receiver() -> list[int]:
        return [await hf.signal("n", int) for _ in range(3)]

    @app.workflow
    async def sender(id: str) -> None:
        handle = receiver.handle(id)
        for n in range(3):
            await handle.signal("n", n)
            await hf.sleep("1ms")

    async with app.worker():
        handle = await receiver.start(id="r")
        await sender("r")
        assert await handle == [0, 1, 2]


async def test_what_a_body_recorded_by_any_name_goes_on(app):
    """Senders outside are told that such a name is none (tests/http)."""

    @app.workflow
    async def receiver() -> int:
        return await hf.signal("a\nb", int)

    @app.workflow
    async def sender() -> None:
        await receiver.handle("r").signal("a\nb", 7)

    async with app.worker():
        handle = await receiver.start(id="r")
        with pytest.raises(hf.InvalidInput, match="cannot be printed"):
            await handle.signal("a\nb", 8)
        await sender()
        assert await handle == 7


async def test_signals_from_a_body_keep_the_id_they_are_given(app):
    @app.workflow
    async def receiver() -> list[int]:
        return [await hf.signal("n", int), await hf.signal("n", int)]

    @app.workflow
    async def sender() -> None:
        handle = receiver.handle("r")
        await handle.signal("n", 1, id="one")
        await handle.signal("n", 1, id="one")
        await handle.signal("n", 2, id="two")

    async with app.worker():
        handle = await receiver.start(id="r")
        await sender()
        assert await handle == [1, 2]


# ── What is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_signalling_what_has_ended_or_never_was(app):
    @app.workflow
    async def job() -> None: ...

    async with app.worker():
        handle = await job.start(id="j")
        await handle
        with pytest.raises(hf.InvalidState, match="execution 'j' of workflow 'job' has ended as COMPLETED"):
            await handle.signal("x")
        with pytest.raises(hf.NotFound, match="there is no execution 'nobody' of workflow 'job'"):
            await job.handle("nobody").signal("x")


@pytest.mark.parametrize("send", [lambda handle: handle.signal("n", 1), lambda handle: handle.cancel()])
async def test_a_body_that_sends_to_nobody_is_told(app, send):
    @app.workflow
    async def receiver() -> None: ...

    @app.workflow
    async def sender(id: str) -> str:
        try:
            await send(receiver.handle(id))
        except hf.HoldfastError as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async with app.worker():
        assert await sender("nobody") == "NotFound: there is no execution 'nobody' of workflow 'receiver'"
        await (await receiver.start(id="r"))
        assert await sender("r") == "InvalidState: execution 'r' of workflow 'receiver' has ended as COMPLETED"


@pytest.mark.parametrize("value", [object(), {1, object()}, float("nan"), [object()]])
async def test_a_value_json_cannot_carry_is_refused_by_name(app, value):
    @app.workflow
    async def job() -> None:
        await hf.signal("x")

    async with app:
        handle = await job.start(id="j")
        with pytest.raises(hf.SerializationError, match="the value of signal 'x'"):
            await handle.signal("x", value)


async def test_a_value_over_the_limit_is_refused(world):
    app = world.app(limit_bytes=1_000)

    @app.workflow
    async def job() -> None:
        await hf.signal("x")

    async with app:
        handle = await job.start(id="j")
        with pytest.raises(hf.PayloadTooLarge, match="the value of signal 'x'"):
            await handle.signal("x", "x" * 2_000)


@pytest.mark.parametrize(("name", "options"), [(7, {}), (None, {}), ("x", {"id": 7})])
async def test_names_and_ids_are_text(app, name, options):
    """One that was not would sit in the inbox and could never be read again."""

    @app.workflow
    async def job() -> None:
        await hf.signal("x")

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.InvalidInput, match="is text, not"):
            await handle.signal(name, 1, **options)
        await handle.signal("x")
        await handle


async def test_waiting_for_a_signal_outside_a_body_is_refused(app):
    with pytest.raises(hf.InvalidInput, match="hf.signal works inside a workflow body only"):
        await hf.signal("x")


async def test_a_time_out_says_what_was_waited_for_and_how_long(app):
    @app.workflow
    async def other() -> None:
        await hf.signal("never")

    @app.workflow
    async def job() -> list[str]:
        told = []
        for wait in (partial(hf.signal, "go"), other.handle("o").result):
            with pytest.raises(hf.WaitTimeout) as caught:
                await wait(timeout="5ms")
            told.append(str(caught.value))
        return told

    async with app.worker():
        await other.start(id="o")
        assert await job() == [
            "no signal 'go' came within 0.005 s",
            "execution 'o' of workflow 'other' has not ended within 5ms; it goes on",
        ]
