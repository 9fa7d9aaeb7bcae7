"""Bad input gets a clear error of our own, where it is given, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sqlite3
import sys
import threading
import time
from dataclasses import dataclass
from decimal import Decimal

import pytest

import holdfast as hf
from holdfast.backends.sqlite import open_sqlite_home

ONCE = hf.Retry(max_attempts=1)


@dataclass
class Order:
    id: str
    total: Decimal


@pytest.fixture(params=["memory", "sqlite"])
def world(request):
    return request.getfixturevalue(f"{request.param}_world")


@pytest.fixture
def checkout(app):
    @app.workflow
    async def checkout(order: Order, express: bool = False) -> str:
        return order.id

    return checkout


async def body_error(app, body):
    """The error that the body of a workflow ends with."""
    workflow = app.workflow(name="body")(body)
    async with app.worker():
        with pytest.raises(hf.ExecutionFailed) as caught:
            await (await workflow.start()).result("60s")
    return caught.value.__cause__


# ── Starting ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("args", "kwargs", "parts"),
    [
        ((), {}, ["workflow 'checkout' is missing argument 'order'", "it takes (order, express)"]),
        ((Order("o", Decimal(1)), True, 3), {}, ["workflow 'checkout' got 3 arguments by position, 1 too many"]),
        ((Order("o", Decimal(1)),), {"fast": True}, ["workflow 'checkout' has no parameter 'fast'"]),
        ((Order("o", Decimal(1)),), {"order": 1}, ["got argument 'order' twice"]),
        (("o-1",), {}, ["argument 'order' of workflow 'checkout'", "Order"]),
        ((Order(7, Decimal(1)),), {}, ["argument 'order' of workflow 'checkout'", "id"]),  # type: ignore[arg-type]
        ((Order("o", Decimal(1)), "yes"), {}, ["argument 'express' of workflow 'checkout'", "bool"]),
        ((object(),), {}, ["argument 'order' of workflow 'checkout'", "object"]),
    ],
)
async def test_wrong_arguments_are_named_at_the_call(app, checkout, args, kwargs, parts):
    async with app.worker():
        with pytest.raises(hf.InvalidInput) as caught:
            await checkout.start(*args, **kwargs, id="c")
        with pytest.raises(hf.NotFound):
            await checkout.handle("c").status()
    for part in parts:
        assert part in str(caught.value)


async def test_an_argument_json_cannot_carry_is_named(app):
    @app.workflow
    async def job(payload: dict[str, object]) -> None: ...

    async with app.worker():
        with pytest.raises(hf.SerializationError, match="argument 'payload' of workflow 'job'"):
            await job.start({"lock": threading.Lock()})
        with pytest.raises(hf.SerializationError, match="argument 'payload' of workflow 'job'"):
            await job.start({"ratio": float("nan")})


async def test_an_input_over_the_limit_is_refused(world):
    app = world.app(limit_bytes=1_000)

    @app.workflow
    async def job(text: str) -> None: ...

    async with app.worker():
        with pytest.raises(hf.PayloadTooLarge, match=r"the input of workflow 'job' .*1,?000"):
            await job.start("x" * 2_000)


@pytest.mark.parametrize("id", ["", "x" * 501, "a\nb", "a\0b"])
async def test_ids_are_printable_and_bounded(app, checkout, id):
    @app.workflow
    async def parent() -> str:
        try:
            await checkout.start(Order("o", Decimal(1)), id=id)
        except hf.InvalidInput as error:
            return str(error)
        return "?"

    async with app.worker():
        with pytest.raises(hf.InvalidInput, match="an execution's id must have 1 to 500 printable characters"):
            await checkout.start(Order("o", Decimal(1)), id=id)
        assert "an execution's id must have 1 to 500 printable characters" in await parent()


@pytest.mark.parametrize("id", [7, b"id"])
async def test_ids_are_text(app, checkout, id):
    async with app.worker():
        with pytest.raises(hf.InvalidInput, match=r"an execution's id must be text \(str\), got "):
            await checkout.start(Order("o", Decimal(1)), id=id)


@pytest.mark.parametrize("duration", [None, True, b"5m", [5], Decimal(5), 10**400, float("nan"), -1, "soon"], ids=repr)
async def test_durations_are_checked(app, duration):
    @app.workflow
    async def job() -> str:
        try:
            await hf.sleep(duration)
        except hf.InvalidInput as error:
            return str(error)
        return "?"

    async with app.worker():
        told = await job()
        assert " duration" in told
        with pytest.raises(hf.InvalidInput, match=r" duration"):
            hf.Retry(initial=duration)
        with pytest.raises(hf.InvalidInput, match=r" duration"):
            app.lease("one", ttl=duration)


@pytest.mark.parametrize("id", ["o-1", "käse/#!%", "x" * 500, "日本", " "])
async def test_any_other_id_will_do(app, checkout, id):
    async with app.worker():
        handle = await checkout.start(Order("o", Decimal(1)), id=id)
        assert await handle == "o"
        (found,) = (await app.executions("checkout")).executions
        assert found.id == id


@pytest.mark.parametrize("tags", [{"team": 7}, {7: "x"}, ["team"], "team", {"team": None}])
async def test_tags_are_text(app, checkout, tags):
    """A head with others could never be read again, by nobody."""
    async with app.worker():
        with pytest.raises(hf.InvalidInput, match="text"):
            await checkout.start(Order("o", Decimal(1)), id="c", tags=tags)
        assert (await app.executions()).executions == ()


@pytest.mark.parametrize("timeout", ["soon", -1, float("nan"), float("inf"), "99999d"])
async def test_time_outs_are_durations(app, checkout, timeout):
    async with app.worker():
        with pytest.raises(hf.InvalidInput, match="duration"):
            await checkout.start(Order("o", Decimal(1)), timeout=timeout)
        handle = await checkout.start(Order("o", Decimal(1)))
        with pytest.raises(hf.InvalidInput, match="duration"):
            await handle.result(timeout=timeout)


async def test_an_app_that_is_not_open(app, checkout):
    for call in (checkout.start, checkout):
        with pytest.raises(hf.ConfigurationError, match="app 'shop' is not open. Use it inside 'async with app:'"):
            await call(Order("o", Decimal(1)))
    for call in (checkout.handle("x").result, checkout.handle("x").status, app.executions, app.callback("x").complete):
        with pytest.raises(hf.ConfigurationError, match="is not open"):
            await call()


async def test_an_app_has_one_worker(app, checkout):
    async with app.worker():
        with pytest.raises(hf.HoldfastError, match="app 'shop' already has a worker"):
            async with app.worker():
                pass
        assert await checkout(Order("o", Decimal(1))) == "o"


@pytest.mark.parametrize("url", ["sqlite:/x", "postgres://host/db", "sqlite://", "sqlite:///", "", "shop.db", "://"])
async def test_a_home_that_is_none(url):
    app = hf.App("shop", home=url)
    with pytest.raises(hf.ConfigurationError, match="names no home"):
        async with app:
            pass


async def test_an_app_whose_home_could_not_be_opened_can_be_opened_later(world):
    fail = [True]
    opens = world.home

    async def open_home():
        if fail[0]:
            raise hf.StoreError("not now")
        if callable(opens):
            return await opens()
        return await open_sqlite_home(world.file)

    app = hf.App("shop", home=open_home)

    @app.workflow
    async def job() -> str:
        return "done"

    for context in (app, app.worker()):
        with pytest.raises(hf.StoreError, match="not now"):
            async with context:
                pass
    fail[0] = False
    async with app.worker():
        assert await job() == "done"
    with pytest.raises(hf.ConfigurationError, match="is not open"):
        await job()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("PRAGMA user_version = 9999", "written by a newer Holdfast"),
        ("PRAGMA application_id = 12345", "another application|not a Holdfast"),
    ],
)
async def test_a_file_of_another_version_or_program_is_refused_and_left_alone(sqlite_world, spoil, message):
    app = sqlite_world.app()
    async with app:
        pass
    with contextlib.closing(sqlite3.connect(sqlite_world.file)) as connection:
        connection.execute(spoil)
    before = sqlite_world.file.read_bytes()
    with pytest.raises(hf.StoreError, match=message):
        async with app.worker():
            pass
    assert sqlite_world.file.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused_and_left_alone(sqlite_world):
    sqlite_world.file.write_text("precious " * 500)
    with pytest.raises(hf.StoreError, match=r"home\.db"):
        async with sqlite_world.app():
            pass
    assert sqlite_world.file.read_text() == "precious " * 500


async def test_a_folder_that_is_not_there_or_no_folder_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(hf.StoreError, match="shop.db"):
        async with hf.App("shop", home=f"sqlite:///{tmp_path}/file/shop.db"):
            pass


async def test_a_grace_period_is_a_duration(app):
    with pytest.raises(hf.InvalidInput, match="duration"):
        async with app.worker(grace="soon"):
            pass
    async with app.worker():
        pass


@pytest.mark.parametrize(
    "options",
    [{"resident": -1}, {"running": 0}, {"sweep_seconds": 0}, {"lease_ms": 0}, {"linger_seconds": -1}, {"running": "5"}],
    ids=str,
)
async def test_limits_are_numbers_that_make_sense(options):
    with pytest.raises(hf.InvalidInput, match=f"the limit {next(iter(options))} is a number above 0"):
        hf.Limits(**options)


@pytest.mark.parametrize(
    "options", [{"limit": "5"}, {"since": "2026"}, {"tags": ["a"]}, {"status": 7}, {"after": 7}], ids=str
)
async def test_what_to_list_is_checked(app, options):
    async with app:
        with pytest.raises(hf.InvalidInput):
            await app.executions(**options)


async def test_text_that_is_none_is_refused_before_anything_is_written(app, checkout):
    """Half a surrogate pair, as in names of files that are no UTF-8."""
    bad, order = "\ud800", Order("o", Decimal(1))
    async with app.worker():
        handle = checkout.handle("c")
        calls = [
            lambda: checkout.start(order, id=bad),
            lambda: checkout.start(order, id="c", tags={"team": bad}),
            lambda: checkout.start(Order(bad, Decimal(1)), id="c"),
            lambda: handle.cancel(bad),
            lambda: handle.terminate(bad),
            lambda: handle.signal(bad),
            lambda: handle.signal("a", id=bad),
            lambda: handle.signal("a", bad),
        ]
        for call in calls:
            with pytest.raises(hf.InvalidInput):
                await call()
        assert (await app.executions()).executions == ()


async def test_errors_and_results_that_are_no_text_are_told_as_well_as_can_be(app):
    @app.step(retry=ONCE)
    async def fails() -> None:
        raise ValueError("file \ud800")

    @app.step(retry=ONCE)
    async def answers() -> str:
        return "\ud800"

    @app.workflow
    async def job() -> list[str]:
        told = []
        for call in (fails, answers):
            try:
                await call()
            except ValueError as error:
                told.append(f"{type(error).__name__} {error}")
        return told

    async with app.worker():
        first, second = await job()
    assert first.startswith("ValueError file ")
    assert second.startswith("SerializationError the result of step 'answers'")


# ── Registering ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_two_of_one_name_are_told_with_both_places(app):
    def define(number):
        async def job() -> int:
            return number

        return job

    app.workflow(define(1))
    with pytest.raises(
        hf.ConfigurationError, match=r"two workflows are called 'job': .*test_bad_input.py:\d+ and .*:\d+"
    ):
        app.workflow(define(2))
    app.step(define(1))
    with pytest.raises(hf.ConfigurationError, match=r"two steps are called 'job'.*@app.step\(name=...\)"):
        app.step(define(2))
    app.step(name="other")(define(2))


@pytest.mark.parametrize("name", ["a#b", "a/b", "a!b", "x" * 101, "a\nb", " \t"])
async def test_names_are_plain(app, name):
    async def job() -> None: ...

    for register in (app.workflow, app.step):
        with pytest.raises(hf.InvalidInput, match="name must have 1 to 100 printable characters"):
            register(name=name)(job)
    with pytest.raises(hf.InvalidInput, match="an app's name|a app's name"):
        hf.App(name)


async def test_a_workflow_is_an_async_def(app):
    def plain() -> None: ...

    async def generator():
        yield 1

    class Job:
        async def __call__(self) -> None: ...

    for wrong in (plain, generator, functools.partial(plain)):
        with pytest.raises(hf.InvalidInput, match="a workflow is an async def"):
            app.workflow(name="wrong")(wrong)


@pytest.mark.parametrize("kind", ["generator", "async generator", "class", "not callable"])
async def test_a_step_is_a_function_that_answers_once(app, kind):
    def generator():
        yield 1

    async def async_generator():
        yield 1

    wrong = {"generator": generator, "async generator": async_generator, "class": Order, "not callable": 7}[kind]
    with pytest.raises(hf.HoldfastError, match="step"):
        app.step(name="wrong")(wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"retry": 3},
        {"retry": "3"},
        {"timeout": "soon"},
        {"timeout": -1},
        {"heartbeat": "often"},
        {"raises": ValueError},
        {"raises": (KeyboardInterrupt,)},
        {"raises": ("ValueError",)},
    ],
    ids=str,
)
async def test_options_of_steps_are_checked_when_it_is_declared(app, options):
    async def step() -> None: ...

    with pytest.raises(hf.HoldfastError):
        app.step(**options)(step)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": "3"},
        {"backoff": 0.5},
        {"initial": "soon"},
        {"max_delay": -1},
        {"only": ValueError},
        {"never": (1,)},
        {"jitter": "wild"},
    ],
    ids=str,
)
async def test_retry_policies_are_checked_when_they_are_made(options):
    with pytest.raises(hf.InvalidInput):
        hf.Retry(**options)


async def test_hints_that_json_cannot_keep_are_refused_when_it_is_declared(app):
    async def lock(it: threading.Lock) -> None: ...

    async def result() -> threading.Lock: ...  # type: ignore[empty-body]

    for declare in (app.step, app.workflow):
        with pytest.raises(hf.HoldfastError, match="parameter 'it' of"):
            declare(lock)
        with pytest.raises(hf.HoldfastError, match="result of"):
            declare(result)


async def test_hints_that_cannot_be_resolved_are_named(app):
    async def job(order: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(hf.ConfigurationError, match="the annotation 'Missing' of parameter 'order' of workflow 'job'"):
        app.workflow(job)


async def test_an_undo_that_wants_more_than_the_result_is_refused(app):
    @app.step
    async def charge() -> str:
        return ""

    with pytest.raises(hf.InvalidInput, match="the undo of step 'charge' takes the step's result, or nothing"):

        @charge.undo
        async def refund(payment: str, reason: str) -> None: ...

    @charge.undo
    async def refund_better(payment: str, reason: str = "") -> None: ...

    with pytest.raises(hf.InvalidInput, match="step 'charge' already has an undo"):

        @charge.undo
        async def refund_again() -> None: ...


# ── Results ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_result_that_does_not_fit_its_hint(app):
    async def body() -> int:
        return "one"  # type: ignore[return-value]

    error = await body_error(app, body)
    assert isinstance(error, hf.SerializationError)
    assert "the result of workflow 'body'" in str(error)
    assert "int" in str(error)


async def test_a_result_json_cannot_carry(app):
    async def body():
        return threading.Lock()

    error = await body_error(app, body)
    assert isinstance(error, hf.SerializationError)
    assert "the result of workflow 'body'" in str(error)


async def test_results_over_the_limit(world):
    app = world.app(limit_bytes=1_000)

    @app.step
    async def big() -> str:
        return "x" * 2_000

    async def body() -> list[str]:
        try:
            await big()
        except hf.PayloadTooLarge as error:
            return [str(error), "y" * 2_000]
        return []

    error = await body_error(app, body)
    assert isinstance(error, hf.PayloadTooLarge)
    assert "the result of workflow 'body'" in str(error)


# ── Steps called wrongly ────────────────────────────────────────────────────────────────────────────────────────────


async def test_wrong_arguments_to_a_step_are_named_and_it_does_not_run(app):
    ran = []

    @app.step
    async def charge(card: str, cents: int) -> None:
        ran.append(cents)

    @app.workflow
    async def job() -> list[str]:
        told = []
        for args in (("c",), ("c", 1, 2), ("c", "1"), ("c", object()), ("c", None)):
            try:
                await charge(*args)
            except hf.InvalidInput as error:
                told.append(str(error))
        return told

    async with app.worker():
        missing, many, text, unfit, none = await job()
    assert "step 'charge' is missing argument 'cents'; it takes (card, cents)" in missing
    assert "too many" in many
    for told in (text, unfit, none):
        assert "argument 'cents' of step 'charge'" in told
    assert ran == []


async def test_a_durable_call_in_a_step_is_refused_by_name(app):
    @app.step
    async def inner() -> None: ...

    @app.workflow
    async def other() -> None: ...

    calls = {
        "step 'inner'": lambda: inner(),  # noqa: PLW0108 - it must be called in the step
        "workflow 'other'": lambda: other(),  # noqa: PLW0108 - it must be called in the step
        "other.start": lambda: other.start(),  # noqa: PLW0108 - it must be called in the step
        "hf.sleep": lambda: hf.sleep(1),
        "hf.signal": lambda: hf.signal("x"),
        "hf.step": lambda: hf.step("x", int),
        "hf.map": lambda: hf.map(inner, []),
        "handle.result()": lambda: other.handle("x").result(),
        "handle.signal()": lambda: other.handle("x").signal("x"),
        "handle.cancel()": lambda: other.handle("x").cancel(),
        "hf.now": hf.now,
        "hf.uuid": hf.uuid,
        "hf.patched": lambda: hf.patched("x"),
        "hf.continue_as_new": hf.continue_as_new,
        "hf.callback": hf.callback,
    }

    @app.step(retry=ONCE)
    async def outer(which: str) -> None:
        found = calls[which]()
        if asyncio.iscoroutine(found):
            await found

    @app.workflow
    async def job(which: str) -> str:
        try:
            await outer(which)
        except hf.NestedDurableCall as error:
            return str(error)
        return "?"

    async with app.worker():
        for which in calls:
            assert f"{which} was called inside a step" in await job(which)


async def test_a_saga_in_a_step_is_refused(app):
    @app.step(retry=ONCE)
    async def outer() -> None:
        async with hf.saga():
            pass

    async def body() -> None:
        await outer()

    assert isinstance(await body_error(app, body), hf.NestedDurableCall)


async def test_a_durable_call_in_the_thread_of_a_step_is_refused(app):
    @app.step(retry=ONCE)
    def outer() -> None:
        hf.now()

    async def body() -> None:
        await outer()

    assert isinstance(await body_error(app, body), hf.NestedDurableCall)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: hf.sleep(1), "hf.sleep"),
        (lambda: hf.wait_for(lambda: None), "hf.poll"),
        (hf.now, "hf.now"),
        (hf.uuid, "hf.uuid"),
        (hf.random, "hf.random"),
        (lambda: hf.patched("x"), "hf.patched"),
        (hf.callback, "hf.callback"),
        (hf.current, "hf.current"),
        (lambda: hf.step("x", int), "hf.step"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_belongs_in_a_body_says_so(call, name):
    with pytest.raises(hf.InvalidInput, match=f"{name}.* works inside a workflow body"):
        found = call()
        if asyncio.iscoroutine(found):
            await found


async def test_the_name_of_a_signal_is_text_where_it_is_awaited_too(app):
    async def body() -> None:
        await hf.signal(7)  # type: ignore[call-overload]

    assert isinstance(await body_error(app, body), hf.InvalidInput)


async def test_an_input_within_the_apps_limit_may_be_handed_on(world):
    app = world.app(limit_bytes=4_000_000)

    @app.workflow
    async def child(text: str) -> int:
        return len(text)

    @app.workflow
    async def job(text: str, again: bool) -> int:
        if again:
            hf.continue_as_new(text, False)
        return await child(text)

    async with app.worker():
        assert await job("x" * 2_000_000, True) == 2_000_000


async def test_a_new_run_has_no_input_over_the_apps_limit(world):
    app = world.app(limit_bytes=1_000)

    @app.workflow
    async def job(text: str) -> str:
        hf.continue_as_new(text + "x" * 2_000)

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="over the limit of 1,000 bytes"):
            await job("")


# ── I/O in a body ───────────────────────────────────────────────────────────────────────────────────────────────────

TOUCHES = {
    "to_thread": lambda: asyncio.to_thread(time.perf_counter),
    "run_in_executor": lambda: asyncio.get_running_loop().run_in_executor(None, time.perf_counter),
    "open_connection": lambda: asyncio.open_connection("127.0.0.1", 9),
    "start_server": lambda: asyncio.start_server(lambda *_: None, "127.0.0.1", 0),
    "getaddrinfo": lambda: asyncio.get_running_loop().getaddrinfo("localhost", 80),
    "subprocess": lambda: asyncio.create_subprocess_exec(sys.executable, "-V"),
    "shell": lambda: asyncio.create_subprocess_shell("true"),
    "call_soon_threadsafe": lambda: asyncio.get_running_loop().call_soon_threadsafe(print),
    "add_reader": lambda: asyncio.get_running_loop().add_reader(0, print),
    "add_signal_handler": lambda: asyncio.get_running_loop().add_signal_handler(1, print),
    "stop": lambda: asyncio.get_running_loop().stop(),
    "close": lambda: asyncio.get_running_loop().close(),
}


@pytest.mark.parametrize("touch", TOUCHES)
async def test_touching_the_world_fails_at_once_and_says_what_to_do(app, touch):
    async def body() -> None:
        found = TOUCHES[touch]()
        if found is not None:
            await found

    error = await body_error(app, body)
    assert isinstance(error, hf.IOOutsideStep)
    assert "@app.step" in str(error)


async def test_reaching_for_the_store_fails_at_once(app, checkout):
    async def body() -> None:
        await checkout.handle("c").status()

    error = await body_error(app, body)
    assert isinstance(error, hf.IOOutsideStep)
    assert "step" in str(error)


@pytest.mark.parametrize(
    "call", ["status", "history", "pause", "resume", "terminate", "retry", "executions", "complete"]
)
async def test_only_recorded_calls_reach_other_executions_from_a_body(app, checkout, call):
    async def body() -> None:
        handle = checkout.handle("c")
        calls = {"executions": app.executions, "complete": app.callback("x").complete}
        await (calls[call] if call in calls else getattr(handle, call))()

    assert isinstance(await body_error(app, body), hf.IOOutsideStep)


async def test_running_a_loop_in_a_body_is_refused(app):
    async def main() -> None: ...

    async def body() -> None:
        coroutine = main()
        try:
            asyncio.run(coroutine)
        finally:
            coroutine.close()

    error = await body_error(app, body)
    assert "cannot be called from a running event loop" in str(error)


async def test_blocking_in_a_body_is_reported_by_name(world, caplog):
    app = world.app(limits=hf.Limits(stalled_seconds=0.01))
    blocked = []
    app.telemetry.subscribe(lambda event, fields: blocked.append(fields) if event == "loop_stalled" else None)

    @app.workflow
    async def job() -> None:
        threading.Event().wait(0.03)

    async with app.worker():
        await (await job.start(id="j"))
    assert [each["partition"] for each in blocked] == ["wf#job#j"]
    assert "loop_stalled" in caplog.text


# ── Work nobody here can do ─────────────────────────────────────────────────────────────────────────────────────────


async def test_an_execution_of_a_workflow_unknown_here_stays_for_others(world):
    knows, does_not = world.app("one"), world.app("two")

    @knows.workflow
    async def job() -> str:
        return "done"

    async with knows:
        await job.start(id="j")
    async with does_not.worker():
        await asyncio.sleep(0.02)
        (found,) = (await does_not.executions()).executions
        assert (found.workflow, found.status) == ("job", "READY")
        with pytest.raises(hf.ConfigurationError, match="no workflow is called 'job' here; there are: none"):
            does_not.handle("job", "j")
    async with knows.worker():
        assert await job.handle("j") == "done"
