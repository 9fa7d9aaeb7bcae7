"""Idempotent handlers: once for each key, the same outcome for every repeat, and a clear error for everything else."""

from __future__ import annotations

import asyncio
import enum
import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from msgspec import Raw

import holdfast as hf
from holdfast import ids
from holdfast.coordination import idempotency
from holdfast.coordination.idempotency import Terms, place_of

if TYPE_CHECKING:
    from nowhere import LambdaContext  # a name for type checkers alone


@dataclass
class Order:
    id: str
    cents: int = 100
    lines: list[str] = field(default_factory=list)


@dataclass
class Receipt:
    order: str
    paid: Decimal


class CardDeclined(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Gone(hf.Terminal):
    pass


class Size(enum.Enum):
    SMALL = "s"


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def pass_(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shop(world, clock):
    return world.app(clock=clock)


# ── Once ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_repeat_gets_the_result_of_the_first(shop):
    runs = []

    @shop.idempotent(key="order.id")
    async def charge(order: Order, *, note: str = "") -> Receipt:
        runs.append(order.id)
        return Receipt(order.id, Decimal("1.10"))

    async with shop:
        first = await charge(Order("17"))
        assert await charge(Order("17")) == first == Receipt("17", Decimal("1.10"))
        assert await charge(order=Order("17"), note="") == first  # the same call, spelled otherwise
        assert await charge(Order("18")) == Receipt("18", Decimal("1.10"))
    async with shop:  # another process, as it were
        if shop.home_url.startswith("sqlite"):
            assert await charge(Order("17")) == first
    assert runs == ["17", "18"]


async def test_another_payload_under_the_same_key_is_refused(shop):
    @shop.idempotent(key="order.id")
    async def charge(order: Order) -> int:
        return order.cents

    async with shop:
        await charge(Order("17", 100))
        with pytest.raises(hf.IdempotencyMismatch, match=r"Use another key"):
            await charge(Order("17", 200))


async def test_another_payload_is_refused_while_the_first_runs_and_after_it_failed(shop):
    running, go = asyncio.Event(), asyncio.Event()

    @shop.idempotent(key="id")
    async def charge(id: str, cents: int) -> int:
        running.set()
        await go.wait()
        raise OSError("the line is dead")

    async with shop:
        first = asyncio.create_task(charge("17", 100))
        await running.wait()
        with pytest.raises(hf.IdempotencyMismatch):
            await charge("17", 200)
        go.set()
        with pytest.raises(OSError, match="dead"):
            await first
        with pytest.raises(hf.IdempotencyMismatch):
            await charge("17", 200)


async def test_what_counts_as_the_payload_can_be_said(shop):
    runs = []

    @shop.idempotent(key="id", payload=("cents", lambda id, cents, sent_at: id[0]))
    async def charge(id: str, cents: int, sent_at: object) -> int:
        runs.append(cents)
        return cents

    @shop.idempotent(key="id", payload=())
    async def anything(id: str, cents: int) -> int:
        return cents

    async with shop:
        assert [await charge("17", 1, object()), await charge("17", 1, object())] == [1, 1]
        with pytest.raises(hf.IdempotencyMismatch):
            await charge("17", 2, object())
        assert [await anything("17", 1), await anything("17", 2)] == [1, 1]
    assert runs == [1]


async def test_two_handlers_do_not_share_keys(shop):
    @shop.idempotent(key="id")
    async def charge(id: str) -> str:
        return f"charged {id}"

    @shop.idempotent(key="id")
    async def refund(id: str) -> str:
        return f"refunded {id}"

    async with shop:
        assert (await charge("17"), await refund("17")) == ("charged 17", "refunded 17")


async def test_after_the_window_a_key_is_new(shop, clock):
    runs = []

    @shop.idempotent(key="id", window="1h")
    async def charge(id: str, cents: int) -> int:
        runs.append(cents)
        return len(runs)

    async with shop:
        assert await charge("17", 1) == 1
        clock.pass_(3599)
        assert await charge("17", 1) == 1
        clock.pass_(2)
        assert await charge("17", 2) == 2  # another payload, too
        found = await shop.idempotency("charge").get("17")
        assert found is not None and (found.attempts_started, found.attempts_finished) == (1, 1)


VALUES = [None, 0, 1, "", "x", False, True, [], [0], {}, {"a": None}, 0.5]


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_falsy_and_other_plain_results_replay_exactly(memory_world, value):
    app = memory_world.app()

    @app.idempotent(key="id")
    async def answer(id: str):
        return value

    async with app:
        first, again = await answer("17"), await answer("17")
    assert first == again == value and type(first) is type(again) is type(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (bytes, b"\x00\xff" * 100),
        (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (Receipt | None, None),
        (Receipt | None, Receipt("17", Decimal("0.10"))),
        (list[Order], [Order("1", 2, ["a"])]),
        (dict[str, UUID], {"a": UUID(int=7)}),
        (str, "x" * 1_000_000),
    ],
    ids=lambda each: str(each)[:40],
)
async def test_typed_and_large_results_replay_exactly(world, hint, value):
    app = world.app()

    async def answer(id: str):
        return value

    answer.__annotations__["return"] = hint
    guarded = app.idempotent(key="id")(answer)
    async with app:
        first, again = await guarded("17"), await guarded("17")
    assert first == again == value and type(again) is type(value)


# ── Keys ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Holder:
    class Inner:
        id = "17"

    inner = Inner()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("event", "17"),
        ("event", 17),
        ("event", UUID(int=17)),
        ("event", date(2026, 1, 1)),
        ("event", Size.SMALL),
        ("event.id", {"id": "17"}),
        ("event.order.id", {"order": {"id": "17"}}),
        ("event.order-line.id", {"order-line": {"id": "17"}}),
        ("event.Records[0].messageId", {"Records": [{"messageId": "17"}]}),
        ("event[1]", ["a", "17"]),
        ("event[-1]", ["a", "17"]),
        ("event.inner.id", Holder()),
        ("event.id", Order("17")),
        (lambda event: event["id"], {"id": "17"}),
        (lambda event: (event["tenant"], event["id"]), {"tenant": "a", "id": "17"}),
        (("event.tenant", "event.id"), {"tenant": "a", "id": "17"}),
        (("event.tenant", lambda event: event["id"]), {"tenant": "a", "id": 17}),
    ],
)
async def test_keys_are_read_from_the_call(memory_world, path, value):
    app = memory_world.app()
    runs = []

    @app.idempotent(key=path, payload=())
    async def handle(event):
        runs.append(event)

    async with app:
        await handle(value)
        await handle(value)
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("event", None, "is missing"),
        ("event", "", "is empty"),
        ("event", "  \n", "is empty"),
        ("event", True, "got bool"),
        ("event", 1.5, "got float"),
        ("event", b"17", "got bytes"),
        ("event", {"a": 1}, "got dict"),
        ("event", ["17"], "got list"),
        ("event", "x" * 1001, "at most 1000 bytes"),
        ("event", "é" * 501, "at most 1000 bytes"),
        ("event", "\ud800", "not valid text"),
        ("event.id", {}, "KeyError"),
        ("event.id", {"id": None}, "is missing"),
        ("event.id", "text", "AttributeError"),
        ("event.id", None, "AttributeError"),
        ("event[0]", "text", "text has no parts"),
        ("event[3]", [1], "IndexError"),
        ("event.__class__", {"a": 1}, "KeyError"),
        ("event.__class__", Holder(), "private"),
        (("event.tenant", "event.id"), {"id": "17"}, "KeyError"),
        (("event.tenant", "event.id"), {"tenant": "", "id": "17"}, "is empty"),
        (("event.tenant", "event.id"), {"tenant": None, "id": "17"}, "is missing"),
        (lambda event: (), {}, "is missing"),
        (lambda event: event["id"], {}, "KeyError"),
        (lambda event: (None, "17"), {}, "is missing"),
    ],
)
async def test_a_key_that_is_none_is_refused_before_anything_happens(memory_world, path, value, told):
    app = memory_world.app()

    @app.idempotent(key=path, payload=())
    async def handle(event):
        raise AssertionError("ran without a key")

    async with app:
        with pytest.raises(hf.InvalidInput, match=told):
            await handle(value)
    assert not memory_world.data.partitions


async def test_parts_of_a_key_do_not_run_into_each_other(memory_world):
    app = memory_world.app()
    runs = []

    @app.idempotent(key=("a", "b"), payload=())
    async def handle(a, b):
        runs.append((a, b))

    calls = [("x", "y z"), ("x y", "z"), ('x","y', "z"), ("1", "2"), (1, 2), (12, "3"), (1, "23")]
    async with app:
        for call in calls:
            await handle(*call)
    assert runs == calls


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"key": "nothing"}, hf.ConfigurationError),
        ({"key": "order..id"}, hf.ConfigurationError),
        ({"key": "order["}, hf.ConfigurationError),
        ({"key": "order[x]"}, hf.ConfigurationError),
        ({"key": ""}, hf.ConfigurationError),
        ({"key": 17}, hf.ConfigurationError),
        ({"key": ()}, hf.ConfigurationError),
        ({"key": ("order", "")}, hf.ConfigurationError),
        ({"key": "order", "payload": "nothing"}, hf.ConfigurationError),
        ({"key": "order", "window": 0}, hf.InvalidInput),
        ({"key": "order", "window": "soon"}, hf.InvalidInput),
        ({"key": "order", "lease": "1ms"}, hf.InvalidInput),
        ({"key": "order", "wait": -1}, hf.InvalidInput),
        ({"key": "order", "cache": -1}, hf.InvalidInput),
        ({"key": "order", "cache": True}, hf.InvalidInput),
        ({"key": "order", "max_crashes": 0}, hf.InvalidInput),
        ({"key": "order", "name": "a/b"}, hf.InvalidInput),
        ({"key": "order", "final": (KeyboardInterrupt,)}, hf.ConfigurationError),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused_at_once(memory_world, options, error):
    async def handle(order): ...

    with pytest.raises(error):
        memory_world.app().idempotent(**options)(handle)


def test_what_cannot_be_a_handler_is_refused_at_once(memory_world):
    app = memory_world.app()

    def numbers(id):
        yield id

    async def letters(id):
        yield id

    async def unresolved(id) -> Missing: ...  # noqa: F821

    def unkept(id) -> object | threading.Thread: ...

    class Thing:
        def __call__(self, id): ...

    for function in (numbers, letters, Thing(), print, unresolved):
        with pytest.raises(hf.ConfigurationError):
            app.idempotent(key="id", name="x")(function)
    with pytest.raises(hf.SerializationError):
        app.idempotent(key="id")(unkept)

    @app.workflow
    async def checkout(id: str) -> str:
        return id

    with pytest.raises(hf.ConfigurationError, match="start it with"):
        app.idempotent(key="id", name="y")(checkout)

    @app.idempotent(key="id")
    def charge(id): ...

    with pytest.raises(hf.DuplicateName, match="'charge'"):
        app.idempotent(key="id", name="charge")(letters_not := lambda id: id)  # noqa: F841
    with pytest.raises(hf.UnknownName, match="there are: charge"):
        app.idempotency("refund")


async def test_a_call_that_does_not_fit_fails_as_the_function_itself_would(memory_world):
    app = memory_world.app()

    @app.idempotent(key="id")
    async def charge(id: str) -> None: ...

    async with app:
        with pytest.raises(TypeError, match="too many"):
            await charge("17", 2)
        with pytest.raises(TypeError, match="missing"):
            await charge()


async def test_a_payload_without_a_json_form_is_refused_with_advice(memory_world):
    app = memory_world.app()

    @app.idempotent(key="id")
    async def charge(id: str, socket: object) -> None: ...

    async with app:
        with pytest.raises(hf.SerializationError, match=r"payload=\.\.\."):
            await charge("17", object())
    assert not memory_world.data.partitions


@dataclass
class Bill:
    total: float
    parts: list[float]


@pytest.mark.parametrize("payload", [None, "bill", ("bill.total", "bill.parts")])
async def test_one_number_is_one_payload_however_it_is_written(shop, payload):
    @shop.idempotent(key="id", payload=payload)
    async def charge(id: str, bill: Bill, tip: float = 1.0) -> str:
        return "done"

    async with shop:
        assert await charge("17", Bill(1, [2, 0.5]), 1) == "done"
        assert await charge("17", Bill(1.0, [2.0, 0.5])) == "done"
        with pytest.raises(hf.IdempotencyMismatch):
            await charge("17", Bill(1.5, [2, 0.5]))
        with pytest.raises(hf.IdempotencyMismatch):
            await charge("17", Bill(True, [2, 0.5]))


async def test_what_an_older_version_has_recorded_still_stands_for_its_payload(memory_world):
    app = memory_world.app()

    @app.idempotent(key="id")
    async def charge(id: str, amount: float) -> str:
        return "done"

    async with app:
        old = place_of("charge", '["17"]', ids.fingerprint(b'{"amount":2.0,"id":"17"}'))
        ticket = await idempotency.acquire(app.runtime(), old, Terms(60_000, 5), owner="old", lease_ms=1_000)
        await idempotency.complete(app.runtime(), ticket, result=Raw(b'"before"'))
        assert await charge("17", 2.0) == "before"
        with pytest.raises(hf.IdempotencyMismatch):
            await charge("17", 3.0)


async def test_an_optional_parameter_that_is_new_changes_no_fingerprint(memory_world):
    old, new = memory_world.app(), memory_world.app()

    @old.idempotent(key="id", name="charge")
    async def charge(id: str) -> str:
        return "old"

    @new.idempotent(key="id", name="charge")
    async def charge_in(id: str, currency: str = "EUR", *rest: int, **more: int) -> str:
        return "new"

    async with old, new:
        await charge("17")
        assert await charge_in("17") == "old"
        assert await charge_in("17", "EUR") == "old"
        with pytest.raises(hf.IdempotencyMismatch):
            await charge_in("17", "USD")


async def test_an_app_that_is_not_open_says_so(memory_world):
    app = memory_world.app()

    @app.idempotent(key="id")
    async def charge(id: str) -> None: ...

    @app.idempotent(key="id")
    def charge_now(id: str) -> None: ...

    with pytest.raises(hf.ConfigurationError, match="not open"):
        await charge("17")
    with pytest.raises(hf.ConfigurationError, match="not open"):
        charge_now("17")


# ── Failing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_after_a_failure_the_key_may_be_used_again_at_once(shop):
    runs = []

    @shop.idempotent(key="id")
    async def charge(id: str) -> int:
        runs.append(id)
        if len(runs) < 3:
            raise OSError("the line is dead")
        return len(runs)

    async with shop:
        for _ in range(2):
            with pytest.raises(OSError, match="dead"):
                await charge("17")
        released = await shop.idempotency("charge").get("17")
        assert released is not None and released.status == "FREE"
        assert (released.attempts_started, released.attempts_finished) == (2, 2)
        assert [await charge("17"), await charge("17")] == [3, 3]


async def test_final_errors_are_recorded_and_come_back_as_they_were(shop):
    runs = []

    @shop.idempotent(key="id", final=(CardDeclined,))
    async def charge(id: str) -> int:
        runs.append(id)
        raise (CardDeclined("no funds") if id == "17" else Gone("the shop is closed"))

    async with shop:
        for _ in range(2):
            with pytest.raises(CardDeclined, match="no funds") as caught:
                await charge("17")
            assert caught.value.reason == "no funds"
        with pytest.raises(Gone):
            await charge("18")
        with pytest.raises(hf.CallFailed, match="Gone: the shop is closed"):  # a class that is not registered
            await charge("18")
        record = await shop.idempotency("charge").get("17")
        assert record is not None and record.status == "FAILED" and "CardDeclined: no funds" in record.error
    assert runs == ["17", "18"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [(asyncio.CancelledError, hf.CallFailed), (KeyboardInterrupt, KeyboardInterrupt), (SystemExit, hf.CallFailed)],
    ids=["CancelledError", "KeyboardInterrupt", "SystemExit"],
)
async def test_what_is_no_exception_releases_the_key_too(memory_world, error, expected):
    app = memory_world.app()
    stories = iter([error("enough"), None])

    @app.idempotent(key="id")
    async def charge(id: str) -> str:
        if (story := next(stories)) is not None:
            raise story
        return "done"

    async with app:
        coroutine = charge("17")
        with pytest.raises(expected):
            await _driven(coroutine)
        record = await app.idempotency("charge").get("17")
        assert record is not None and record.status == "FREE"
        assert await charge("17") == "done"


async def _driven(coroutine):
    """Await by hand: a task that a KeyboardInterrupt ends takes the loop with it."""
    steps = coroutine.__await__()
    while True:
        try:
            waiting = steps.send(None)
        except StopIteration as done:
            return done.value
        while not waiting.done():
            await asyncio.sleep(0)


async def test_a_caller_who_is_cancelled_releases_the_key(shop):
    running = asyncio.Event()

    @shop.idempotent(key="id")
    async def charge(id: str) -> str:
        if not running.is_set():
            running.set()
            await asyncio.Event().wait()
        return "done"

    async with shop:
        task = asyncio.create_task(charge("17"))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await charge("17") == "done"


async def test_a_coroutine_that_is_thrown_away_leaves_its_key_to_the_lease(memory_world, clock):
    app = memory_world.app(clock=clock)
    waits = asyncio.get_running_loop().create_future()

    @app.idempotent(key="id")
    async def charge(id: str) -> str:
        if not waits.done():
            await waits
        return "done"

    async with app:
        coroutine = charge("17")
        steps = coroutine.__await__()
        while (waiting := steps.send(None)) is not waits:
            while not waiting.done():
                await asyncio.sleep(0)
        coroutine.close()
        waits.set_result(None)
        with pytest.raises(hf.Busy):
            await charge("17")
        clock.pass_(33)
        assert await charge("17") == "done"


# ── In flight ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_caller_is_told_that_the_first_is_at_work(shop, clock):
    running, go = asyncio.Event(), asyncio.Event()

    @shop.idempotent(key="id", lease="30s")
    async def charge(id: str) -> str:
        running.set()
        await go.wait()
        return "done"

    async with shop:
        first = asyncio.create_task(charge("17"))
        await running.wait()
        clock.pass_(7)
        with pytest.raises(hf.Busy, match="another attempt runs under key") as caught:
            await charge("17")
        assert caught.value.retry_after_seconds == 7 and caught.value.retryable
        go.set()
        assert await first == await charge("17") == "done"


async def test_a_second_caller_may_wait_for_the_result(shop):
    runs, go = [], asyncio.Event()

    @shop.idempotent(key="id", wait="20s")
    async def charge(id: str) -> int:
        runs.append(id)
        await go.wait()
        return len(runs)

    async with shop:
        callers = [asyncio.create_task(charge("17")) for _ in range(5)]
        while not runs:
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, go.set)
        assert await asyncio.gather(*callers) == [1] * 5
    assert runs == ["17"]


async def test_who_waits_for_one_that_fails_runs_next(shop):
    runs, go = [], asyncio.Event()

    @shop.idempotent(key="id", wait="20s")
    async def charge(id: str) -> int:
        runs.append(id)
        await go.wait()
        if len(runs) == 1:
            raise OSError("the line is dead")
        return len(runs)

    async with shop:
        first = asyncio.create_task(charge("17"))
        while not runs:
            await asyncio.sleep(0)
        second = asyncio.create_task(charge("17"))
        await asyncio.sleep(0.01)
        go.set()
        with pytest.raises(OSError, match="dead"):
            await first
        assert await second == 2


# ── Operators ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_record_can_be_looked_at_and_forgotten(shop, clock):
    running, go = asyncio.Event(), asyncio.Event()

    @shop.idempotent(key=("tenant", "id"), window="1h")
    async def charge(tenant: str, id: int) -> str:
        running.set()
        await go.wait()
        return "done"

    async with shop:
        records = shop.idempotency("charge")
        assert await records.get("eu", 17) is None
        assert not await records.forget("eu", 17)
        first = asyncio.create_task(charge("eu", 17))
        await running.wait()
        found = await records.get("eu", 17)
        assert found is not None and found.status == "RUNNING" and found.key == '["eu",17]'
        with pytest.raises(hf.InvalidState, match="an attempt runs"):
            await records.forget("eu", 17)
        go.set()
        await first
        found = await records.get("eu", 17)
        assert found is not None and found.status == "COMPLETED"
        assert (found.expires_at - found.started_at).total_seconds() == 3600
        running.clear()
        assert await records.forget("eu", 17)
        assert await records.get("eu", 17) is None
        assert await charge("eu", 17) == "done" and running.is_set()
        with pytest.raises(hf.InvalidInput, match="missing"):
            await records.get()


# ── Replays ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_hook_may_change_what_a_repeat_gets(shop):
    @shop.idempotent(key="id", on_replay=lambda result, record: {**result, "repeat_of": record.key})
    async def charge(id: str) -> dict[str, Any]:
        return {"paid": id}

    async with shop:
        assert await charge("17") == {"paid": "17"}
        assert await charge("17") == {"paid": "17", "repeat_of": '["17"]'}
        assert shop.telemetry.counts["replayed"] == 1


async def test_a_result_that_no_longer_fits_its_annotation_is_told(memory_world):
    old, new = memory_world.app(), memory_world.app()

    @old.idempotent(key="id", name="charge")
    async def charge(id: str) -> str:
        return "text"

    @new.idempotent(key="id", name="charge")
    async def charge_now(id: str) -> int:
        raise AssertionError("ran again")

    async with old, new:
        await charge("17")
        with pytest.raises(hf.SerializationError, match="recorded result"):
            await charge_now("17")


# ── What cannot be kept ─────────────────────────────────────────────────────────────────────────────────────────────


class Opaque:
    pass


@pytest.mark.parametrize("value", [Opaque(), (1, 2), "x" * 2_000, float("nan"), {1: 2}], ids=lambda v: repr(v)[:20])
async def test_a_result_that_cannot_be_kept_reaches_its_caller_and_the_handler_never_runs_again(memory_world, value):
    app = memory_world.app(limit_bytes=1_000)
    runs = []

    @app.idempotent(key="id")
    async def charge(id: str):
        runs.append(id)
        return value

    async with app:
        with pytest.raises(hf.ResultNotStored, match="has run, and repeats will not run it again") as caught:
            await charge("17")
        assert caught.value.value is value
        with pytest.raises(hf.ResultNotStored, match="has run before") as caught:
            await charge("17")
        assert caught.value.value is None
    assert runs == ["17"]


# ── Lambda ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Context:
    """The part of AWS Lambda's context that matters here."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def get_remaining_time_in_millis(self) -> int:
        return self.ms


async def test_on_lambda_the_lease_is_the_rest_of_the_functions_time(memory_world, clock):
    app = memory_world.app(clock=clock)
    waits, runs = asyncio.Event(), []

    @app.idempotent(key="event.id", lease="2s")
    async def handler(event: dict[str, str], context: LambdaContext) -> int:
        runs.append(event)
        if len(runs) == 1:
            await waits.wait()
        return len(runs)

    async with app:
        first = asyncio.create_task(handler({"id": "17"}, Context(60_000)))
        while not runs:
            await asyncio.sleep(0)
        (item,) = (item for entity in memory_world.data.partitions.values() for item in entity.values())
        assert item.lease_until == clock.ms + 61_000
        clock.pass_(62)  # within the skew
        with pytest.raises(hf.Busy):
            await handler({"id": "17"}, Context(50_000))
        clock.pass_(2)
        assert await handler({"id": "17"}, Context(40_000)) == 2  # another context is the same payload
        assert await handler({"id": "17"}, None) == 2  # none at all, too
        waits.set()
        with pytest.raises(hf.LeaseLost) as caught:
            await first
        assert caught.value.value == 2


# ── Functions that are not async ────────────────────────────────────────────────────────────────────────────────────


def test_a_sync_handler_works_beside_the_bridge(world):
    app = world.app()
    runs = []

    @app.idempotent(key="id", final=(CardDeclined,))
    def charge(id: str) -> Receipt:
        runs.append(threading.current_thread())
        if id == "bad":
            raise CardDeclined("no funds")
        if id == "dead" and len(runs) < 4:
            raise OSError("the line is dead")
        return Receipt(id, Decimal(1))

    with app.sync() as run:
        assert charge("17") == charge("17") == Receipt("17", Decimal(1))
        assert runs == [threading.main_thread()]
        for _ in range(2):
            with pytest.raises(CardDeclined):
                charge("bad")
        with pytest.raises(OSError, match="dead"):
            charge("dead")
        assert charge("dead") == Receipt("dead", Decimal(1))
        record = run(app.idempotency("charge").get("dead"))
        assert record is not None and record.status == "COMPLETED"
    assert len(runs) == 4


def test_sync_handlers_of_several_threads_run_once(world):
    app = world.app()
    runs = []

    @app.idempotent(key="id", wait="20s")
    def charge(id: str) -> int:
        runs.append(id)
        return len(runs)

    results = []
    with app.sync():
        threads = [threading.Thread(target=lambda: results.append(charge("17"))) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert (results, runs) == ([1] * 4, ["17"])


async def test_a_sync_handler_on_the_loops_own_thread_is_refused_instead_of_hanging(world):
    app = world.app()
    runs = []

    @app.idempotent(key="id")
    def charge(id: str) -> None:
        runs.append(id)

    async with app:
        with pytest.raises(hf.InvalidState, match="would block the event loop"):
            charge("17")
        assert not runs
        await asyncio.get_running_loop().run_in_executor(None, charge, "17")
        await asyncio.get_running_loop().run_in_executor(None, charge, "17")
    assert runs == ["17"]


async def test_a_workflow_body_calls_handlers_in_steps_only(world):
    app = world.app()
    runs = []

    @app.idempotent(key="id")
    async def charge(id: str) -> str:
        runs.append(id)
        return "paid"

    @app.step
    async def pay(id: str) -> str:
        return await charge(id)

    @app.step
    def pay_in_thread(id: str) -> str:
        return charge_now(id)

    @app.idempotent(key="id")
    def charge_now(id: str) -> str:
        runs.append(id)
        return "paid now"

    @app.workflow
    async def checkout(id: str) -> list[str]:
        with pytest.raises(hf.IOOutsideStep):
            await charge(id)
        return [await pay(id), await pay_in_thread(id)]

    async with app.worker():
        assert await checkout.start("17", id="a") is not None
        assert await checkout.handle("a") == ["paid", "paid now"]
        assert await checkout.start("17", id="b") is not None
        assert await checkout.handle("b") == ["paid", "paid now"]
    assert runs == ["17", "17"]


async def test_a_handler_keeps_its_name_and_its_signature(memory_world):
    app = memory_world.app()

    @app.idempotent(key="id")
    async def charge(id: str, *, cents: int = 1) -> str:
        """Take the money."""
        return id

    assert (charge.__name__, charge.__doc__) == ("charge", "Take the money.")


async def test_methods_may_be_handlers(memory_world):
    app = memory_world.app()

    class Desk:
        runs = 0

        @app.idempotent(key="id")
        async def charge(self, id: str) -> int:
            self.runs += 1
            return self.runs

    desk = Desk()
    async with app:
        assert [await desk.charge("17"), await desk.charge("17")] == [1, 1]
