"""Steps: what they are given, how they fail, how they are tried again (G2, G10)."""

from __future__ import annotations

import asyncio
import functools
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest

import holdfast as hf
from holdfast import paging
from holdfast.replay.entries import Tried
from holdfast.testing import VirtualClock, run_virtual
from holdfast.workflows.history import load
from holdfast.workflows.record import partition_of


@dataclass
class Order:
    id: str
    items: list[str] = field(default_factory=list)
    total: Decimal = Decimal(0)


class CardDeclined(Exception):
    pass


class Refusal(hf.Terminal):
    pass


class Odd(Exception):
    """Needs two arguments and hands one on, as many libraries' errors do."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class Shutdown(BaseException):
    pass


# ── Calling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_arguments_and_results_of_every_shape(app):
    @app.step
    async def price(order: Order, *extra: int, rate: Decimal = Decimal("1.5"), **notes: str) -> Order:
        return Order(order.id, [*order.items, *map(str, extra), *notes.values()], order.total * rate)

    @app.workflow
    async def checkout(order: Order) -> Order:
        priced = await price(order, 1, 2, rate=Decimal(2), note="gift")
        assert isinstance(priced.total, Decimal)
        return priced

    async with app.worker():
        found = await checkout(Order("o-1", ["book"], Decimal("10.10")))
    assert found == Order("o-1", ["book", "1", "2", "gift"], Decimal("20.20"))


async def test_a_step_can_be_called_by_keyword(app):
    @app.step
    async def charge(card: str, cents: int) -> str:
        return f"{card}:{cents}"

    @app.workflow
    async def checkout() -> list[str]:
        return [await charge(cents=3, card="c"), await charge("c", cents=4)]

    async with app.worker():
        assert await checkout() == ["c:3", "c:4"]


async def test_a_plain_def_runs_in_a_thread_and_knows_where_it_is(app):
    threads = set()

    @app.step
    def blocking(n: int) -> str:
        threads.add(threading.current_thread())
        info = hf.current()
        assert isinstance(info, hf.StepInfo)
        return f"{info.workflow}/{info.id}/{info.attempt}/{n}"

    @app.workflow
    async def job() -> list[str]:
        return list(await asyncio.gather(*[blocking(n) for n in range(4)]))

    async with app.worker():
        assert await (await job.start(id="j")) == ["job/j/1/0", "job/j/1/1", "job/j/1/2", "job/j/1/3"]
    assert threading.main_thread() not in threads


async def test_outside_a_workflow_a_step_is_the_plain_function(app):
    @app.step
    async def double(n: int) -> int:
        return 2 * n

    @app.step
    def triple(n: int) -> int:
        return 3 * n

    assert await double(4) == 8
    assert await triple(4) == 12
    assert triple.function(1) == 3


async def test_steps_of_one_body_share_no_state_with_their_results(app):
    """The body gets what a replay would get: a copy of the result, never the step's own object (G2)."""
    kept = []

    @app.step
    async def make() -> list[int]:
        kept.append([1])
        return kept[-1]

    @app.workflow
    async def job() -> list[int]:
        mine = await make()
        mine.append(2)
        return mine

    async with app.worker():
        assert await job() == [1, 2]
    assert kept == [[1]]


async def test_a_step_cannot_change_what_the_body_holds(app):
    """On replay the step does not run, so what it did to its argument would be missing."""

    @app.step
    async def append(items: list[int]) -> int:
        items.append(len(items))
        return len(items)

    @app.workflow
    async def job() -> list[int]:
        items = [7]
        await append(items)
        await append(items)
        return items

    async with app.worker():
        assert await job() == [7]


async def test_a_step_sees_its_arguments_as_they_were_when_it_was_called(app):
    @app.step
    async def total(items: list[int]) -> int:
        return sum(items)

    @app.workflow
    async def job() -> list[int]:
        items = [1]
        first = asyncio.create_task(total(items))
        await asyncio.sleep(0)
        items.append(10)
        return [await first, await total(items)]

    async with app.worker():
        assert await job() == [1, 11]


async def test_a_one_off_step_needs_no_decorator(app):
    def read(n: int) -> int:
        return n + 1

    async def fetch(n: int) -> int:
        return n + 2

    @app.workflow
    async def job() -> list[int]:
        return [await hf.step("read", read, 1), await hf.step("fetch", fetch, n=1), await hf.step("l", lambda: 9)]

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == [2, 3, 9]
        assert [event.name for event in await handle.history()] == ["read#0", "fetch#0", "l#0"]


async def test_a_step_is_identified_by_the_name_its_caller_gives(app):
    @app.step
    async def charge(cents: int) -> int:
        return cents

    @app.workflow
    async def job() -> list[int]:
        first = await hf.step(charge, 17, name="charge:17")
        others = await asyncio.gather(hf.step(charge, 18, name="charge:18"), hf.step(lambda: 9, name="nine"))
        return [first, *others]

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == [17, 18, 9]
        assert sorted(event.name for event in await handle.history()) == ["charge:17", "charge:18", "nine"]


async def test_named_steps_may_move_while_an_execution_is_open(world, reaches):
    ran = []

    def code(app, *, moved):
        @app.step
        async def charge(cents: int) -> int:
            ran.append(cents)
            return cents

        async def one(cents: int) -> int:
            return await hf.step(charge, cents, name=f"charge:{cents}")

        async def as_it_was() -> list[int]:
            return [await one(17), await one(18)]

        async def as_it_is() -> list[int]:
            async with asyncio.timeout(3600):
                second, first = await asyncio.gather(one(18), one(17))
            return [first, second]

        @app.workflow(version="moved" if moved else "old")
        async def job() -> list[int]:
            got = await (as_it_is() if moved else as_it_was())
            await hf.signal("go")
            return got

        return job

    old, new = world.app(), world.app()
    before, after = code(old, moved=False), code(new, moved=True)
    async with old.worker(grace=0):
        await reaches(await before.start(id="j"), "SUSPENDED")
    async with new.worker():
        handle = after.handle("j")
        await handle.signal("go")
        assert await handle == [17, 18]
    assert ran == [17, 18]


async def test_a_name_is_asked_for_once_in_a_run(app):
    @app.step
    async def charge(cents: int) -> int:
        return cents

    @app.step
    async def refund(cents: int) -> int:
        return -cents

    @app.workflow
    async def job() -> str:
        await hf.step(charge, 17, name="17")
        with pytest.raises(hf.InvalidInput) as told:
            await hf.step(refund, 17, name="17")
        return str(told.value)

    async with app.worker():
        told = await job()
    assert "'17' names one operation of a run, and two ask for it: step 'charge', and now step 'refund'" in told


async def test_the_undo_of_a_named_step_is_named_after_it(app):
    @app.step
    async def charge(cents: int) -> int:
        return cents

    @charge.undo
    async def refund(cents: int) -> None: ...

    @app.workflow
    async def job() -> None:
        async with hf.saga():
            await hf.step(charge, 17, name="charge:17")
            raise LookupError

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match="LookupError"):
            await handle
        assert [event.name for event in await handle.history()] == ["charge:17", "charge:17.undo"]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((len, "abc"), {}, "hf.step takes a name"),
        (("length",), {}, r"hf.step\('length', function, ...\) calls a function, and none was given"),
        ((len, "abc"), {"name": "a/b"}, "a step's name must have 1 to 100 printable characters"),
        ((len, "abc"), {"name": 7}, "a step's name must have 1 to 100 printable characters"),
    ],
)
async def test_a_one_off_step_without_a_proper_name_is_refused(app, args, kwargs, message):
    @app.workflow
    async def job() -> None:
        with pytest.raises(hf.InvalidInput, match=message):
            await hf.step(*args, **kwargs)

    async with app.worker():
        await job()


async def test_the_idempotency_key_is_the_same_for_every_attempt_and_another_for_every_step(app, fast):
    keys: dict[str, set[str]] = {"a": set(), "b": set()}

    @app.step(retry=fast)
    async def charge(which: str) -> None:
        info = hf.current()
        assert isinstance(info, hf.StepInfo)
        keys[which].add(info.idempotency_key)
        if info.attempt < 3:
            raise ConnectionError("again")

    @app.workflow
    async def job() -> None:
        await charge("a")
        await charge("b")

    async with app.worker():
        await job()
        await job()
    assert [len(found) for found in keys.values()] == [2, 2]
    assert not keys["a"] & keys["b"]


async def test_a_thousand_steps_at_once(app):
    @app.step
    async def one(n: int) -> int:
        return n

    @app.workflow
    async def job() -> int:
        return sum(await asyncio.gather(*[one(n) for n in range(1000)]))

    async with app.worker():
        assert await job() == 499_500


async def test_a_plain_def_around_an_async_one_is_awaited(app):
    """As decorators and lambdas make them."""

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @app.step(retry=hf.Retry(max_attempts=1))
    @logged
    async def wrapped(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def fetch(n: int) -> int:
        return n + 1

    @app.workflow
    async def job() -> list[int]:
        return [await wrapped(1), await hf.step("l", lambda: fetch(1))]

    assert await wrapped(3) == 3
    async with app.worker():
        assert await job() == [1, 2]


# ── Failing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_registered_error_is_caught_by_class_live_and_on_replay(app, is_async):
    def refuse(n: int) -> str:
        raise CardDeclined("no funds", n)

    async def refuse_async(n: int) -> str:
        raise CardDeclined("no funds", n)

    decline = app.step(name="decline", raises=(CardDeclined,), retry=hf.Retry(max_attempts=1))(
        refuse_async if is_async else refuse
    )

    @app.workflow
    async def job() -> list[str]:
        seen = []
        try:
            await decline(7)
        except CardDeclined as error:
            seen += [str(error.args[0]), str(error.args[1])]
        await hf.sleep("1ms")  # where everything is forgotten, the rest runs after a replay
        try:
            await decline(8)
        except CardDeclined as error:
            seen += [str(error.args[1])]
        return seen

    async with app.worker():
        assert await job() == ["no funds", "7", "8"]


async def test_an_error_whose_constructor_is_unlike_its_arguments_comes_back_whole(app):
    @app.step(raises=(Odd,), retry=hf.Retry(max_attempts=1))
    async def fail() -> None:
        raise Odd(404, "gone")

    @app.workflow
    async def job() -> list[str | int]:
        try:
            await fail()
        except Odd as error:
            return [str(error), error.code, error.detail]
        return []

    async with app.worker():
        assert await job() == ["404: gone", 404, "gone"]


async def test_an_unknown_error_arrives_as_step_failed_with_its_name_and_message(app):
    @app.step(retry=hf.Retry(max_attempts=1))
    async def fail() -> None:
        raise CardDeclined("no funds")

    @app.workflow
    async def job() -> list[str]:
        try:
            await fail()
        except hf.StepFailed as error:
            return [error.error_type, error.error_message, str(error)]
        return []

    async with app.worker():
        name, message, told = await job()
    assert name.endswith("CardDeclined")
    assert message == "no funds"
    assert "CardDeclined: no funds" in told


async def test_builtin_errors_are_known_to_everybody(app, fast):
    @app.step(retry=hf.Retry(max_attempts=1))
    async def fail() -> None:
        {}["sku-9"]

    @app.workflow
    async def job() -> str:
        try:
            await fail()
        except KeyError as error:
            return str(error.args[0])
        return ""

    async with app.worker():
        assert await job() == "sku-9"


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    "error",
    [SystemExit(3), asyncio.CancelledError("mine"), Shutdown("mine"), StopIteration(4), StopAsyncIteration()],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_step_raises_is_its_outcome(app, error, is_async):
    """No exception of a step stops the worker, or leaves the body waiting for ever."""

    async def fail_async() -> None:
        raise error

    def fail_sync() -> None:
        raise error

    fail = app.step(name="fail", retry=hf.Retry(max_attempts=1))(fail_async if is_async else fail_sync)

    @app.step
    async def fine() -> str:
        return "fine"

    @app.workflow
    async def job() -> str:
        try:
            await fail()
        except Exception as error:
            return f"{error!r} {await fine()}"
        return "nothing was raised"

    async with app.worker():
        told = await job()
    assert told.endswith(" fine")


async def test_an_error_in_the_body_fails_the_execution_with_its_cause(app):
    @app.workflow
    async def job() -> None:
        raise ValueError("wrong")

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match=r"job 'j' ended as FAILED: ValueError: wrong") as caught:
            await handle
        assert isinstance(caught.value.__cause__, ValueError)
        assert caught.value.error_type == "ValueError"
        assert caught.value.error_message == "wrong"
        assert (await handle.status()).error == "ValueError: wrong"


async def test_a_chain_of_errors_keeps_its_causes(app):
    @app.workflow
    async def job() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed) as caught:
            await job()
    assert isinstance(caught.value.__cause__, ValueError)
    assert isinstance(caught.value.__cause__.__cause__, KeyError)


@pytest.mark.parametrize(
    "error", [SystemExit(3), Shutdown("x"), GeneratorExit()], ids=lambda error: type(error).__name__
)
async def test_no_error_of_a_body_stops_the_worker(app, error):
    @app.workflow
    async def job() -> None:
        raise error

    @app.workflow
    async def fine() -> str:
        return "fine"

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match=type(error).__name__):
            await job()
        assert await fine() == "fine"


# ── Trying again ────────────────────────────────────────────────────────────────────────────────────────────────────


def counting(app, *, failures, error=ConnectionError, **options):
    """A step that fails so many times before it works; and the attempts it has made."""
    attempts: list[int] = []

    @app.step(name="flaky", **options)
    async def flaky() -> int:
        info = hf.current()
        assert isinstance(info, hf.StepInfo)
        attempts.append(info.attempt)
        if len(attempts) <= failures:
            raise error("again")
        return len(attempts)

    @app.workflow
    async def job() -> int:
        return await flaky()

    return job, attempts


async def test_a_step_is_tried_again_until_it_works(app, fast):
    job, attempts = counting(app, failures=2, retry=fast)
    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == 3
        history = await handle.history()
    assert attempts == [1, 2, 3]
    assert [(event.outcome, event.attempts) for event in history] == [("retrying", 1), ("retrying", 2), ("done", 3)]


async def test_a_step_gives_up_after_its_last_attempt(app, fast):
    job, attempts = counting(app, failures=9, retry=fast)
    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="ConnectionError: again"):
            await job()
    assert attempts == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"only": (OSError,)}, ConnectionError, 3),
        ({"only": (KeyError,)}, ConnectionError, 1),
        ({"only": (TypeError,)}, TypeError, 3),
        ({"never": (OSError,)}, ConnectionError, 1),
        ({"never": (KeyError,)}, ConnectionError, 3),
        ({}, TypeError, 1),
        ({}, AssertionError, 1),
        ({}, Refusal, 1),
        ({}, hf.Terminal, 1),
        ({}, SystemExit, 1),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_which_errors_are_tried_again(app, options, error, expected):
    retry = hf.Retry(max_attempts=3, initial="1ms", backoff=1, **options)
    job, attempts = counting(app, failures=9, error=error, retry=retry, raises=(Refusal,))
    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await job()
    assert len(attempts) == expected


class Throttled(Exception):
    def __init__(self, status: int, after: object = None) -> None:
        super().__init__(status, after)
        self.status, self.after = status, after


def throttled(app, answers, **options):
    """A step that is refused by these statuses, one after another; and the attempts it has made."""
    attempts: list[int] = []

    @app.step(name="fetch", retry=hf.Retry(max_attempts=9, initial="1ms", **options))
    async def fetch() -> int:
        attempts.append(hf.current().attempt)
        if len(attempts) <= len(answers):
            raise answers[len(attempts) - 1]
        return 200

    @app.workflow
    async def job() -> int:
        return await fetch()

    return job, attempts


async def test_an_error_is_tried_again_if_the_predicate_says_so(app):
    answers = [Throttled(429), Throttled(503), Throttled(400)]
    job, attempts = throttled(app, answers, when=lambda error: error.status in (429, 503), only=(Throttled,))
    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="Throttled: \\(400, None\\)"):
            await job()
    assert attempts == [1, 2, 3]


async def test_what_is_never_tried_again_is_not_shown_to_the_predicate(app):
    shown = []
    job, attempts = throttled(app, [hf.Terminal("no")], when=lambda error: not shown.append(error))
    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="Terminal"):
            await job()
    assert (attempts, shown) == ([1], [])


@pytest.mark.parametrize(
    ("when", "logged"),
    [(lambda error: error.nothing_such, "nothing_such"), (lambda error: "yes", "answered str, not a bool")],
)
async def test_a_broken_predicate_is_logged_and_means_no(app, errors_expected, when, logged):
    job, attempts = throttled(app, [OSError("down")], when=when)
    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="OSError: down"):
            await job()
    assert attempts == [1]
    assert logged in errors_expected.text


async def test_the_error_chooses_the_delay(world, eventually):
    """And so it is durable: an hour is recorded, whatever the policy's own limit."""
    app = world.app()
    job, _ = throttled(app, [Throttled(429, "1h")], delay=lambda error, attempt: error.after, max_delay="1s")
    async with app.worker(grace=0):
        handle = await job.start(id="j")

        async def tried() -> bool:
            return bool(await handle.history())

        await eventually(tried)
        entries = (await load(app.runtime().home.store, partition_of("job", "j"))).entries
    tried_once = next(entry for entry in entries if isinstance(entry, Tried))
    assert tried_once.again_at - tried_once.at == 3_600_000


@pytest.mark.parametrize("chosen", [None, "soon", -1, "broken"])
async def test_a_delay_that_is_none_leaves_it_to_the_policy(app, chosen, errors_expected):
    def delay(error: Throttled, attempt: int) -> object:
        if error.after == "broken":
            raise LookupError(attempt)
        return error.after

    job, attempts = throttled(app, [Throttled(429, chosen)], delay=delay)
    async with app.worker():
        assert await job() == 200
    assert attempts == [1, 2]
    assert ("retry's `delay` failed" in errors_expected.text) == (chosen is not None)


def test_what_a_rule_of_retries_raises_is_logged_by_type_and_frames(errors_expected):
    """It may quote the error, which may quote what was worked on."""
    card = "-".join(["4111"] * 4)

    def quoting(error: Exception, *_: object) -> object:
        raise LookupError(f"{error}\nERROR all is well")

    assert not hf.Retry(when=quoting).retries(ValueError(card), 1)
    assert hf.Retry(delay=quoting).next_delay_ms(ValueError(card), 1, Random(1)) is not None
    assert errors_expected.text.count("LookupError at\n") == 2
    assert card not in errors_expected.text and "all is well\n" not in errors_expected.text


@pytest.mark.parametrize("name", ["when", "delay"])
def test_what_is_no_plain_function_is_no_rule_of_retries(name):
    async def ask(*_: object) -> None: ...

    for wrong in (ask, "yes"):
        with pytest.raises(hf.InvalidInput, match=f"{name} must be a plain function of the error"):
            hf.Retry(**{name: wrong})


async def test_a_terminal_error_is_caught_as_terminal(app):
    @app.step(raises=(Refusal,))
    async def refuse() -> None:
        raise Refusal("never")

    @app.workflow
    async def job() -> str:
        try:
            await refuse()
        except hf.Terminal as error:
            return f"{type(error).__name__} {error}"
        return ""

    async with app.worker():
        assert await job() == "Refusal never"


async def test_a_result_that_does_not_fit_is_final_as_its_effect_has_happened(app, fast):
    ran = []

    @app.step(retry=fast)
    async def charge() -> int:
        ran.append(1)
        return "pay-1"  # type: ignore[return-value]

    @app.workflow
    async def job() -> int:
        return await charge()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="result of step 'charge'") as caught:
            await job()
    assert isinstance(caught.value.__cause__, hf.SerializationError)
    assert len(ran) == 1


# ── Time ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_step_that_takes_too_long_is_stopped_and_can_clean_up(app):
    cleaned = []

    @app.step(timeout="10ms", retry=hf.Retry(max_attempts=1))
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    @app.workflow
    async def job() -> str:
        try:
            await slow()
        except hf.StepTimeout as error:
            return str(error)
        return ""

    async with app.worker():
        assert "'slow' took more than 0.01 s" in await job()
    assert cleaned == ["up"]


async def test_a_blocking_step_that_takes_too_long_is_left_behind(app):
    release = threading.Event()

    @app.step(timeout="10ms", retry=hf.Retry(max_attempts=1))
    def slow() -> None:
        release.wait(5)

    @app.workflow
    async def job() -> None:
        await slow()

    try:
        async with app.worker():
            with pytest.raises(hf.ExecutionFailed, match="StepTimeout"):
                await job()
    finally:
        release.set()


def test_a_time_out_is_tried_again_like_other_failures(fast):
    app = hf.App("shop", home="memory://", clock=VirtualClock())
    attempts = []

    @app.step(timeout="10s", retry=fast)
    async def slow_at_first() -> int:
        attempts.append(1)
        if len(attempts) < 2:
            await asyncio.Event().wait()
        return len(attempts)

    @app.workflow
    async def job() -> int:
        return await slow_at_first()

    async def main() -> int:
        async with app.worker():
            return await job()

    assert run_virtual(main) == 2


async def test_a_time_out_of_the_steps_own_making_is_not_mistaken_for_ours(app):
    @app.step(timeout="10s", heartbeat="10s", retry=hf.Retry(max_attempts=1))
    async def own() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    @app.workflow
    async def job() -> str:
        try:
            await own()
        except TimeoutError as error:
            return type(error).__name__
        return ""

    async with app.worker():
        assert await job() == "TimeoutError"


def test_silence_is_a_failure_and_a_heartbeat_breaks_it():
    app = hf.App("shop", home="memory://", clock=VirtualClock())

    @app.step(heartbeat="40s", retry=hf.Retry(max_attempts=1))
    async def beating(beats: int) -> str:
        info = hf.current()
        assert isinstance(info, hf.StepInfo)
        for beat in range(beats):
            await asyncio.sleep(39)
            info.heartbeat(beat)
        if not beats:
            await asyncio.sleep(3600)
        return "alive"

    @app.workflow
    async def job(beats: int) -> str:
        return await beating(beats)

    async def main() -> None:
        async with app.worker():
            assert await job(4) == "alive"
            with pytest.raises(hf.ExecutionFailed, match="'beating' gave no heartbeat for 40.0 s"):
                await job(0)

    run_virtual(main)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_later_attempt_finds_what_the_last_heartbeat_said(app, fast, is_async):
    seen = []

    def work() -> int:
        info = hf.current()
        assert isinstance(info, hf.StepInfo)
        seen.append(info.last_heartbeat)
        done = info.last_heartbeat or {"row": 0}
        info.heartbeat({"row": done["row"] + 10})
        if info.attempt < 3:
            raise ConnectionError("again")
        return done["row"]

    async def work_async() -> int:
        answer = 0
        try:
            answer = work()
        finally:
            await asyncio.sleep(0)
        return answer

    step = app.step(name="copy", retry=fast)(work_async if is_async else work)

    @app.workflow
    async def job() -> int:
        return await step()

    async with app.worker():
        assert await job() == 20
    assert seen == [None, {"row": 10}, {"row": 20}]


async def test_a_heartbeat_that_json_cannot_carry_is_refused_in_the_step(app):
    @app.step(retry=hf.Retry(max_attempts=1))
    async def work() -> None:
        info = hf.current()
        assert isinstance(info, hf.StepInfo)
        info.heartbeat(object())

    @app.workflow
    async def job() -> None:
        await work()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="the heartbeat of step 'work'"):
            await job()


async def test_another_process_finds_what_the_last_heartbeat_said(world, eventually):
    seen, beaten = [], asyncio.Event()

    def code(app, *, stuck):
        @app.step
        async def work() -> int:
            info = hf.current()
            assert isinstance(info, hf.StepInfo)
            seen.append((info.attempt, info.last_heartbeat))
            if stuck:
                info.heartbeat({"row": 5})
                beaten.set()
                await asyncio.Event().wait()
            return 1

        @app.workflow
        async def job() -> int:
            return await work()

        return job

    first, second = world.app(), world.app()
    before, after = code(first, stuck=True), code(second, stuck=False)

    async def is_noted() -> bool:
        there = paging.items(first.runtime().home.store, partition_of("job", "j"))
        return any([b'"row":5' in item.body async for item in there])

    async with first.worker(grace=0):
        await before.start(id="j")
        await beaten.wait()
        await eventually(is_noted)
    async with second.worker():
        assert await after.handle("j").result("60s") == 1
    assert seen == [(1, None), (2, {"row": 5})]


async def test_another_process_goes_on_counting_attempts_and_waits_as_long(world, eventually):
    seen = []

    def code(app):
        @app.step(retry=hf.Retry(max_attempts=3, initial="2s", backoff=1, jitter=hf.Jitter.NONE))
        async def work() -> int:
            info = hf.current()
            assert isinstance(info, hf.StepInfo)
            seen.append(info.attempt)
            if info.attempt < 3:
                raise ConnectionError("again")
            return 1

        @app.workflow
        async def job() -> int:
            return await work()

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker(grace=0):
        handle = await before.start(id="j")

        async def tried() -> bool:
            return [event.outcome for event in await handle.history()] == ["retrying"]

        await eventually(tried)
    async with second.worker():
        assert await after.handle("j").result("60s") == 1
        times = [event.at for event in await after.handle("j").history()]
    assert seen == [1, 2, 3]
    assert times[1] - times[0] >= timedelta(seconds=2)


# ── At most once ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_at_most_once_is_never_tried_again(app, fast):
    job, attempts = counting(app, failures=1, retry=fast, at_most_once=True)
    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match="ConnectionError"):
            await handle
        assert [event.outcome for event in await handle.history()] == ["intended", "failed"]
    assert attempts == [1]


async def test_at_most_once_per_attempt_is_tried_again_after_what_did_nothing(app):
    retry = hf.Retry(max_attempts=3, initial="1ms", only=(ConnectionError,))
    job, attempts = counting(app, failures=2, retry=retry, at_most_once="attempt")
    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == 3
        told = [(event.outcome, event.attempts) for event in await handle.history()]
    assert attempts == [1, 2, 3]
    assert [outcome for outcome, _ in told] == ["intended", "retrying", "intended", "retrying", "intended", "done"]


async def test_at_most_once_per_attempt_is_not_tried_again_after_other_errors(app):
    retry = hf.Retry(max_attempts=3, initial="1ms", only=(ConnectionError,))
    job, attempts = counting(app, failures=2, error=OSError, retry=retry, at_most_once="attempt")
    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="OSError: again"):
            await job()
    assert attempts == [1]


async def test_at_most_once_per_attempt_is_not_tried_again_after_a_time_out(app):
    ran = []

    @app.step(at_most_once="attempt", timeout="10ms", retry=hf.Retry(initial="1ms", when=lambda _: True))
    async def launch() -> None:
        ran.append(1)
        await asyncio.Event().wait()

    @app.workflow
    async def job() -> str:
        try:
            await launch()
        except hf.StepTimeout as error:
            return str(error)
        return ""

    async with app.worker():
        assert await job() == "step 'launch' took more than 0.01 s"
    assert ran == [1]


UNLESS_UNCONNECTED = hf.Retry(initial="1ms", only=(ConnectionError,))


@pytest.mark.parametrize(
    ("options", "dies_in"),
    [
        ({"at_most_once": True}, 1),
        ({"at_most_once": "attempt", "retry": UNLESS_UNCONNECTED}, 1),
        ({"at_most_once": "attempt", "retry": UNLESS_UNCONNECTED}, 2),
    ],
)
async def test_at_most_once_does_not_run_again_after_its_process_has_died(world, options, dies_in):
    ran = []
    started = asyncio.Event()

    def code(app):
        @app.step(**options)
        async def launch() -> None:
            ran.append(hf.current().attempt)
            if len(ran) == dies_in:
                started.set()
                await asyncio.Event().wait()
            raise ConnectionError

        @app.workflow
        async def job() -> str:
            try:
                await launch()
            except hf.StepInterrupted as error:
                return str(error)
            return ""

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker(grace=0):
        await before.start(id="j")
        await started.wait()
    async with second.worker():
        told = await after.handle("j")
    assert "'launch' is at most once" in told
    assert ran == list(range(1, dies_in + 1))


async def test_at_most_once_per_attempt_goes_on_after_a_death_between_attempts(world, eventually):
    ran = []

    def code(app):
        @app.step(at_most_once="attempt", retry=hf.Retry(initial="1h", only=(ConnectionError,)))
        async def launch() -> int:
            ran.append(hf.current().attempt)
            if len(ran) == 1:
                raise ConnectionError
            return len(ran)

        @app.workflow
        async def job() -> int:
            return await launch()

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker(grace=0):
        handle = await before.start(id="j")

        async def tried() -> bool:
            return [event.outcome for event in await handle.history()] == ["intended", "retrying"]

        await eventually(tried)
    async with second.worker():
        await after.handle("j").retry_now()
        assert await after.handle("j") == 2
    assert ran == [1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at_most_once": "attempt"}, "has to name the errors after which nothing has happened"),
        ({"at_most_once": "once"}, "at_most_once of step 'launch' is True, False or 'attempt', not 'once'"),
    ],
)
def test_at_most_once_of_another_kind_is_refused(options, message):
    async def launch() -> None: ...

    with pytest.raises(hf.InvalidInput, match=message):
        hf.App("shop").step(**options)(launch)


async def test_at_least_once_runs_again_after_its_process_has_died(world):
    ran = []
    started = asyncio.Event()

    def code(app):
        @app.step
        async def launch() -> int:
            ran.append(1)
            started.set()
            if len(ran) == 1:
                await asyncio.Event().wait()
            return len(ran)

        @app.workflow
        async def job() -> int:
            return await launch()

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker(grace=0):
        await before.start(id="j")
        await started.wait()
    async with second.worker():
        assert await after.handle("j") == 2
