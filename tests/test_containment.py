"""Whatever code of users raises, and wherever: a call fails with it, and everybody else goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from tests.messaging.places import virtually
from tests.worlds import *  # noqa: F403 - its fixtures

import holdfast as hf
from holdfast.containment import Escaped, contained, contained_call

PATIENCE_SECONDS = 100
ONCE = hf.Retry(max_attempts=1)


class Shutdown(BaseException):
    """A class of a user's own."""


class MyInterrupt(KeyboardInterrupt):
    """Another one: no signal has raised it."""


KINDS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "Shutdown": lambda: Shutdown("mine"),
    "MyInterrupt": lambda: MyInterrupt("mine"),
    "GeneratorExit": lambda: GeneratorExit("mine"),
    "CancelledError": lambda: asyncio.CancelledError("mine"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("mine", [SystemExit(3)]),
}


def made(kind: str) -> BaseException:
    return KINDS[kind]()


each_kind = pytest.mark.parametrize("kind", KINDS)


@dataclass
class Paid:
    id: str


@dataclass
class Connection:
    number: int


Fail = Callable[[], Any]
FailLater = Callable[[], Coroutine[Any, Any, Any]]
Act = Callable[[], Coroutine[Any, Any, Any]]

# Each place declares code that raises, and answers how to run it once the app is open.


def step(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    @app.step(retry=ONCE)
    async def charge() -> None:
        await fail_later()

    @app.workflow
    async def order() -> None:
        await charge()

    return order


def step_in_a_thread(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    @app.step(retry=ONCE)
    def charge() -> None:
        fail()

    @app.workflow
    async def order() -> None:
        await charge()

    return order


def transactional_step(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    @app.transaction(retry=ONCE)
    def charge(cursor: hf.SqlCursor) -> None:
        cursor.execute("CREATE TABLE mine (n)")
        fail()

    @app.workflow
    async def order() -> None:
        await charge()

    return order


def transaction(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    return lambda: app.transact(lambda _cursor: fail())


def body(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    @app.workflow
    async def order() -> None:
        await asyncio.sleep(0.001)
        fail()

    return order


def task_of_a_body(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    @app.workflow
    async def order() -> None:
        await asyncio.create_task(fail_later())

    return order


def query(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    @app.workflow
    async def order() -> None:
        @hf.query
        def look() -> None:
            fail()

        await hf.signal("never")

    async def act() -> None:
        handle = await order.start(id="q")
        await handle.query("look")

    return act


def method(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    class Till(hf.Actor, app=app):
        async def charge(self) -> None:
            fail()

    return lambda: Till.at("1").charge()


def method_that_waits(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    class Till(hf.Actor, app=app):
        async def charge(self) -> None:
            await fail_later()

    return lambda: Till.at("1", request_id="r").charge()


def method_called_from_a_body(app: hf.App, fail: Fail, fail_later: FailLater) -> Act:
    call = method_that_waits(app, fail, fail_later)

    @app.workflow
    async def order() -> None:
        await call()

    return order


def reading_method(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    class Till(hf.Actor, app=app):
        @hf.read
        async def look(self) -> None:
            await fail_later()

    return lambda: Till.at("1").look()


def optimistic_method(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    class Till(hf.Actor, app=app, optimistic=True):
        async def charge(self) -> None:
            await fail_later()

    return lambda: Till.at("1").charge()


def method_that_cancels_itself(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    class Till(hf.Actor, app=app):
        async def charge(self) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            fail()

    return lambda: Till.at("1").charge()


def idempotent_handler(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    @app.idempotent(key="id")
    async def charge(id: str) -> None:
        await fail_later()

    return lambda: charge("17")


def idempotent_handler_in_a_thread(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    @app.idempotent(key="id")
    def charge(id: str) -> None:
        fail()

    return lambda: asyncio.to_thread(charge, "17")


def opening_of_a_resource(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    @app.resource
    async def connection() -> AsyncIterator[Connection]:
        await fail_later()
        yield Connection(1)

    return connection.get


def loading_of_a_cache(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    @app.cache(ttl="1m")
    async def load(id: str) -> str:
        await fail_later()
        return id

    return lambda: load("1")


def projection(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    async def apply(_tx: Any, _recorded: Any) -> None:
        await fail_later()

    async def act() -> None:
        stream = app.stream(Paid, "1")
        await stream.append(Paid("1"))
        await app.projection("paid", stream, apply).catch_up()

    return act


def leader(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    async def work(_held: Any) -> None:
        await fail_later()

    return lambda: app.leader("billing").run(work)


def upcaster(app: hf.App, fail: Fail, _fail_later: FailLater) -> Act:
    async def act() -> None:
        await app.documents(Paid, name="paid").at("1").create(Paid("1"))
        later = hf.App("later", home=app.home_url)
        async with later:
            await later.documents(Paid, name="paid", upcasters={1: lambda _form: fail()}).at("1").get()

    return act


FAILING = (
    step,
    step_in_a_thread,
    transactional_step,
    transaction,
    body,
    task_of_a_body,
    query,
    method,
    method_that_waits,
    method_called_from_a_body,
    reading_method,
    optimistic_method,
    method_that_cancels_itself,
    idempotent_handler,
    idempotent_handler_in_a_thread,
    opening_of_a_resource,
    loading_of_a_cache,
    projection,
    leader,
    upcaster,
)


def declared(app: hf.App, place: Callable[[hf.App, Fail, FailLater], Act], kind: str) -> tuple[Act, Act]:
    """How to run what raises in this place, and something else that must go on."""
    error = made(kind)

    def fail() -> None:
        raise error

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise error

    class Neighbour(hf.Actor, app=app):
        async def greet(self) -> str:
            return "well"

    @app.step
    async def greet() -> str:
        return await Neighbour.at("1").greet()

    @app.workflow
    async def neighbours() -> str:
        return await greet()

    return place(app, fail, fail_later), neighbours


@each_kind
@pytest.mark.parametrize("place", FAILING, ids=lambda place: place.__name__)
async def test_a_call_fails_with_what_was_raised_and_others_go_on(sqlite_world, place, kind):
    app = sqlite_world.app()
    act, neighbours = declared(app, place, kind)
    async with app.worker(grace="1s"), asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(Exception, match=f"{kind}|CANCELLED") as caught:
            await act()
        assert isinstance(caught.value, hf.HoldfastError)
        assert await neighbours() == "well"


# ── Where nobody waits for it ───────────────────────────────────────────────────────────────────────────────────────


def sent_message(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    class Till(hf.Actor, app=app):
        async def charge(self) -> None:
            await fail_later()

    return lambda: hf.send(Till.at("1").charge)


def timer(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    class Till(hf.Actor, app=app):
        async def begin(self) -> None:
            self.ring.after("1ms")

        @hf.timer
        async def ring(self) -> None:
            await fail_later()

    return lambda: Till.at("1").begin()


def consumer(app: hf.App, _fail: Fail, fail_later: FailLater) -> Act:
    @app.consumer(Paid)
    async def bill(event: Paid) -> None:
        await fail_later()

    return lambda: app.publish(Paid("1"))


@each_kind
@pytest.mark.parametrize("place", [sent_message, timer, consumer], ids=lambda place: place.__name__)
async def test_a_message_that_raises_it_is_set_aside_at_once_with_its_name(sqlite_world, place, kind, eventually):
    app = sqlite_world.app()
    act, neighbours = declared(app, place, kind)

    async def parked() -> Any:
        return (await app.parked()).items

    async with app.worker(grace="1s"), asyncio.timeout(PATIENCE_SECONDS):
        await act()
        (letter,) = await eventually(parked)
        assert kind in letter.message.error.type
        assert letter.message.attempts == 1
        assert await neighbours() == "well"


@each_kind
def test_a_tick_that_raises_it_is_set_aside_and_the_next_one_comes(kind):
    @virtually
    async def story(place: Any) -> None:
        app, ticks = place.app(), []

        @app.cron("* * * * *")
        def report() -> None:
            ticks.append(1)
            if len(ticks) == 1:
                raise made(kind)

        async with app.worker():
            await asyncio.sleep(150)
            (letter,) = (await app.parked()).items
            assert kind in letter.message.error.type
        assert len(ticks) >= 2

    story()


@each_kind
async def test_a_check_that_raises_it_says_that_a_resource_is_not_well(sqlite_world, kind):
    app, made = sqlite_world.app(), []

    async def check(_connection: Connection) -> None:
        raise made(kind)

    @app.resource(check=check, check_every=0)
    async def connection() -> AsyncIterator[Connection]:
        made.append(1)
        yield Connection(len(made))

    async with app, asyncio.timeout(PATIENCE_SECONDS):
        assert [(await connection.get()).number for _ in range(2)] == [1, 2]
    assert app.telemetry.counts["resource_failed"] == 1


@each_kind
async def test_the_closing_of_a_resource_that_raises_it_is_told(sqlite_world, kind):
    app = sqlite_world.app()

    @app.resource
    async def connection() -> AsyncIterator[Connection]:
        yield Connection(1)
        raise made(kind)

    async with asyncio.timeout(PATIENCE_SECONDS):
        async with app:
            await connection.get()
    assert app.telemetry.counts["resource_failed"] == 1


async def awaited(code):
    return await code


# ── What is no business of the code ─────────────────────────────────────────────────────────────────────────────────


async def test_who_cancels_it_from_outside_is_obeyed():
    began = asyncio.Event()

    async def code() -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(awaited(contained(code())))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_code_that_cancels_its_own_task_disturbs_nobody_else():
    async def code(*, waits: bool) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("mine")
        if waits:
            await asyncio.sleep(0)
        return "done"

    assert await contained(code(waits=False)) == "done"
    with pytest.raises(Escaped, match="CancelledError"):
        await contained(code(waits=True))
    await asyncio.sleep(0)  # nothing is left of it


async def test_a_cancelled_future_of_its_own_is_its_error():
    future = asyncio.get_running_loop().create_future()
    future.cancel("by its pool")
    with pytest.raises(Escaped, match="CancelledError: by its pool"):
        await contained(future)


def test_code_that_is_thrown_away_ends_as_it_does():
    ended = []

    async def code() -> None:
        try:
            await asyncio.Event().wait()
        except GeneratorExit:
            ended.append(1)
            raise

    running = awaited(contained(code()))
    loop = asyncio.new_event_loop()
    task = loop.create_task(running)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # this is what the test is about
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    running.close()
    assert ended == [1]


async def test_an_interrupt_passes():
    def interrupted() -> None:
        raise KeyboardInterrupt

    async def code() -> None:
        interrupted()

    with pytest.raises(KeyboardInterrupt):
        contained_call(interrupted)
    with pytest.raises(KeyboardInterrupt):
        awaited(contained(code())).send(None)


WORKER = """
import asyncio, sys
import holdfast as hf

app = hf.App("shop", home=f"sqlite:///{sys.argv[1]}")

class Till(hf.Actor, app=app):
    async def charge(self) -> None:
        raise SystemExit(3)

    async def wait(self) -> None:
        print("waits", flush=True)
        await asyncio.Event().wait()

async def main() -> None:
    async with app.worker(grace="50ms"):
        try:
            await Till.at("1").charge()
        except hf.CallFailed as error:
            print(error, flush=True)
        await Till.at("1").wait()

asyncio.run(main())
"""


def test_a_signal_ends_the_process(tmp_path):
    """Ctrl-C does what it always did, also while code of a user's is running."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, tmp_path / "shop.db"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "builtins.SystemExit: 3\n"
        assert process.stdout.readline() == "waits\n"
        os.kill(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode != 0
        assert "KeyboardInterrupt" in told
