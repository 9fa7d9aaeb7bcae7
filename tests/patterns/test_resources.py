"""Resources: opened once, shared, checked, opened anew, closed with the app; and given to whatever wants them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

import holdfast as hf
from holdfast.testing import VirtualClock, run_virtual


class Client:
    """Something that is opened and closed."""

    def __init__(self, number):
        self.number = number
        self.is_open = True
        self.well = True

    def charge(self, card):
        assert self.is_open
        return f"{card} by {self.number}"


class Bank:
    """Counts the clients that were opened."""

    def __init__(self):
        self.clients = []
        self.down = False
        self.checks = 0


@pytest.fixture
def bank():
    return Bank()


@pytest.fixture
def declare(bank):
    def on(app, **options):
        async def client() -> AsyncIterator[Client]:
            await asyncio.sleep(0)
            if bank.down:
                raise ConnectionError("the bank does not answer")
            made = Client(len(bank.clients) + 1)
            bank.clients.append(made)
            yield made
            made.is_open = False

        return app.resource(**options)(client) if options else app.resource(client)

    return on


# ── One for all ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_it_is_opened_once_when_it_is_first_wanted_and_closed_with_the_app(app, bank, declare):
    client = declare(app)
    async with app:
        assert bank.clients == []
        found = await asyncio.gather(*(client.get() for _ in range(20)))
        assert set(found) == {bank.clients[0]} and len(bank.clients) == 1
        assert bank.clients[0].is_open
    assert not bank.clients[0].is_open
    async with app:
        assert (await client.get()).number == 2, "the next opening of the app has one of its own"
    with pytest.raises(hf.ConfigurationError, match="is not open"):
        await client.get()


async def test_they_are_closed_in_the_order_opposite_to_their_opening(app):
    told = []

    @app.resource
    async def pool() -> AsyncIterator[int]:
        yield 7
        told.append("pool")

    @app.resource
    async def session() -> AsyncIterator[str]:
        yield f"on {await pool.get()}"
        told.append("session")

    async with app:
        await pool.get()
        assert await session.get() == "on 7"
    assert told == ["session", "pool"]


async def test_an_opening_that_fails_is_told_to_whoever_asked_and_tried_again(app, bank, declare):
    client = declare(app)
    bank.down = True
    async with app:
        outcomes = await asyncio.gather(*(client.get() for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in outcomes] == [ConnectionError] * 3
        bank.down = False
        assert (await client.get()).number == 1


async def test_it_is_opened_anew_on_demand(app, bank, declare):
    client = declare(app)
    async with app:
        await client.get()
        await client.reopen()
        assert not bank.clients[0].is_open
        assert (await client.get()).number == 2


async def test_it_is_opened_and_closed_in_one_task_and_in_nobodys_context(app):
    @app.workflow
    async def work() -> int:
        return await look()

    @app.resource
    async def task() -> AsyncIterator[asyncio.Task]:
        with pytest.raises(hf.InvalidInput):
            hf.current()
        opened_in = asyncio.current_task()
        yield opened_in
        assert asyncio.current_task() is opened_in

    @app.step
    async def look() -> int:
        assert hf.current().attempt == 1
        await task.get()
        return 1

    async with app.worker():
        assert await (await work.start()).result("60s") == 1
        opened_in = await task.get()
    assert opened_in.done() and opened_in.exception() is None


async def test_a_closing_that_fails_hurts_nobody_and_its_words_are_in_no_log(app, caplog):
    @app.resource
    async def clumsy() -> AsyncIterator[int]:
        yield 1
        raise ConnectionError("postgres://shop:hunter2@db was gone already")

    async with app:
        assert await clumsy.get() == 1
    assert app.telemetry.counts["resource_failed"] == 1
    assert "ConnectionError" in caplog.text and "hunter2" not in caplog.text


async def test_whoever_gives_up_while_it_opens_leaves_none_behind(app):
    opening, closed = asyncio.Event(), []

    @app.resource
    async def slow() -> AsyncIterator[int]:
        try:
            opening.set()
            await asyncio.Event().wait()
            yield 1
        finally:
            closed.append(True)

    async with app:
        asking = asyncio.ensure_future(slow.get())
        await opening.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert closed == [True]


def test_neither_an_opening_nor_a_closing_that_hangs_keeps_the_app_open():
    async def main():
        app = hf.App("shop", home="memory://", clock=VirtualClock())
        ended = []

        @app.resource
        async def never_open() -> AsyncIterator[int]:
            try:
                await asyncio.Event().wait()
                yield 1
            finally:
                ended.append("opening")

        @app.resource
        async def never_closed() -> AsyncIterator[str]:
            yield "x"
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("closing")

        async with app:
            asking = asyncio.ensure_future(never_open.get())
            await never_closed.get()
        with pytest.raises(hf.InvalidState, match="closed while it was being opened"):
            await asking
        assert sorted(ended) == ["closing", "opening"]

    run_virtual(main)


# ── Health ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["false", "raises"])
def test_one_that_fails_its_check_is_closed_and_opened_anew(bank, declare, how):
    async def main():
        async def check(client):
            bank.checks += 1
            if not client.well and how == "raises":
                raise ConnectionError
            return client.well

        app = hf.App("shop", home="memory://", clock=VirtualClock())
        client = declare(app, check=check, check_every="10s")
        async with app:
            first = await client.get()
            first.well = False
            await asyncio.sleep(9.0)
            assert await client.get() is first, "it is not checked that often"
            await asyncio.sleep(2.0)
            found = await asyncio.gather(*(client.get() for _ in range(5)))
            assert {each.number for each in found} == {2}
            assert not first.is_open
            await asyncio.sleep(11.0)
            assert (await client.get()).number == 2
            assert bank.checks == 2
            assert app.telemetry.counts["resource_failed"] == (1 if how == "raises" else 0)

    run_virtual(main)


# ── Given to functions ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_steps_and_their_undos_get_it_and_it_is_no_part_of_the_record(app, bank, declare):
    declare(app)
    undone = []

    @app.step
    async def charge(card: str, *, client: Client) -> str:
        return client.charge(card)

    @charge.undo
    async def refund(receipt: str, client: Client = hf.injected) -> None:
        undone.append((receipt, client.number))

    @app.step(raises=(ValueError,))
    def in_a_thread(card: str, client: Client = hf.injected) -> str:
        return client.charge(card)

    @app.workflow
    async def checkout() -> list[str]:
        both = [await charge("visa"), await in_a_thread("amex")]
        try:
            async with hf.saga():
                await charge("lost")
                raise KeyError
        except KeyError:
            return both

    async with app.worker():
        handle = await checkout.start()
        assert await handle.result("60s") == ["visa by 1", "amex by 1"]
        assert undone == [("lost by 1", 1)]
        assert len(bank.clients) == 1
        assert [each.name for each in charge.signature.parameters] == ["card"]
        assert await charge("plain") == "plain by 1"
        assert await charge.function("plain", client=Client(9)) == "plain by 9", "a test gives its own"


async def test_consumers_schedules_actors_and_plain_functions_get_it(app, bank, declare, eventually):
    declare(app)
    told = []

    @app.cron("0 0 1 1 *")
    async def yearly(tick: datetime, client: Client = hf.injected) -> None:
        told.append(client.charge(f"{tick.year}"))

    class Paid(hf.Actor, app=app):
        n: int = 0

        async def pay(self, card: str, client: Client = hf.injected) -> str:
            self.n += 1
            return client.charge(card)

    @app.consumer(dict)
    async def on_event(event: dict, client: Client = hf.injected) -> None:
        told.append(client.charge(event["card"]))

    @app.inject
    async def plain(card: str, client: Client = hf.injected) -> str:
        return client.charge(card)

    async with app.worker():
        assert await Paid.at("x").pay("visa") == "visa by 1"
        assert await plain("amex") == "amex by 1"
        await app.publish({"card": "cash"})
        await eventually(lambda: told == ["cash by 1"])
        await app.registry.jobs["yearly"].run(datetime(2026, 1, 1, tzinfo=UTC))
        assert told[-1] == "2026 by 1"


def test_a_function_in_a_thread_gets_it_through_the_bridge(app, bank, declare):
    declare(app)

    @app.inject
    def plain(card: str, client: Client = hf.injected) -> str:
        return client.charge(card)

    with app.sync():
        assert plain("visa") == "visa by 1"


async def test_where_a_plain_function_would_block_its_loop_it_is_refused(app, declare):
    declare(app)

    @app.inject
    def plain(client: Client = hf.injected) -> str:
        return client.charge("x")

    async with app:
        with pytest.raises(hf.InvalidState, match="would block the event loop"):
            plain()


# ── Declared ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_no_resource_is_refused_where_it_is_declared(app, declare):
    async def answers() -> Client: ...

    async def unsaid():
        yield 1

    async def with_arguments(url: str) -> AsyncIterator[int]:
        yield 1

    async def unknown() -> AsyncIterator[Nowhere]:  # noqa: F821 - it is meant to be wrong
        yield 1

    for factory in (answers, unsaid, with_arguments, unknown, 7):
        with pytest.raises(hf.ConfigurationError, match="resource"):
            app.resource(factory)
    declare(app)
    with pytest.raises(hf.DuplicateName, match="are both of type Client"):
        declare(app)
    with pytest.raises(hf.InvalidInput):
        declare(app, check=None, check_every=-1)


def test_a_parameter_that_nothing_can_fill_is_refused_where_it_is_declared(app, declare):
    async def too_early(client: Client = hf.injected) -> None: ...

    for declare_it in (app.step, app.inject, app.consumer(dict)):
        with pytest.raises(hf.ConfigurationError, match="no resource of this app is of type Client"):
            declare_it(too_early)
    declare(app)

    async def first(client: Client, card: str) -> None: ...

    async def by_position(client: Client, /) -> None: ...

    for function in (first, by_position):
        with pytest.raises(hf.ConfigurationError, match="it must come after all others"):
            app.step(function)
