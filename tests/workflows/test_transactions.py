"""Transactional steps: the user's own SQL, exactly once, with the step's record (G10)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial

import pytest

import holdfast as hf


class Overdrawn(Exception):
    pass


ONCE = hf.Retry(max_attempts=1)


@pytest.fixture
def world(sqlite_world):
    return sqlite_world


@pytest.fixture
def rows(world):
    """Read the user's table from outside."""

    def read() -> list[tuple[str, int]]:
        with sqlite3.connect(world.file) as connection:
            found = connection.execute("SELECT name, amount FROM account ORDER BY name").fetchall()
        connection.close()
        return found

    return read


@pytest.fixture
def bank(app):
    @app.transaction
    def open_accounts(sql: hf.SqlCursor) -> None:
        sql.execute("CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, amount INTEGER NOT NULL)")
        sql.execute("INSERT OR IGNORE INTO account VALUES ('ann', 100), ('bob', 0)")

    @app.transaction(retry=ONCE, raises=(Overdrawn,))
    def move(sql: hf.SqlCursor, amount: int, to: str = "bob") -> int:
        sql.execute("UPDATE account SET amount = amount - ? WHERE name = 'ann'", (amount,))
        sql.execute("UPDATE account SET amount = amount + :amount WHERE name = :to", {"amount": amount, "to": to})
        ((left,),) = sql.execute("SELECT amount FROM account WHERE name = 'ann'")
        if left < 0:
            raise Overdrawn("by", -left)
        return left

    @app.workflow
    async def transfer(*amounts: int) -> list[int]:
        await open_accounts()
        return [await move(amount) for amount in amounts]

    return transfer, move


async def test_it_writes_with_its_record(app, bank, rows):
    transfer, _ = bank
    async with app.worker():
        handle = await transfer.start(10, 20, id="t")
        assert await handle == [90, 70]
        assert [event.kind for event in await handle.history()] == ["step"] * 3
    assert rows() == [("ann", 70), ("bob", 30)]


async def test_an_error_rolls_everything_back_and_is_the_steps_failure(app, bank, rows):
    transfer, _ = bank
    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="Overdrawn") as caught:
            await transfer(10, 500)
        assert isinstance(caught.value.__cause__, Overdrawn)
        assert caught.value.__cause__.args == ("by", 410)
    assert rows() == [("ann", 90), ("bob", 10)]


async def test_an_error_of_sql_is_the_steps_failure(app, bank):
    @app.transaction(name="broken", retry=ONCE)
    def broken(sql: hf.SqlCursor) -> None:
        sql.execute("SELEC")

    @app.workflow
    async def job() -> str:
        try:
            await broken()
        except hf.StepFailed as error:
            return str(error)
        return "?"

    async with app.worker():
        assert "SQLError" in await job()


async def test_it_is_tried_again_like_other_steps(app, bank, fast):
    attempts = []

    @app.transaction(retry=fast)
    def flaky(sql: hf.SqlCursor) -> int:
        attempts.append(1)
        sql.execute("CREATE TABLE t (x)")
        if len(attempts) < 2:
            raise ConnectionError("again")
        return len(attempts)

    @app.workflow
    async def job() -> int:
        return await flaky()

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle.result("60s") == 2
        assert [event.outcome for event in await handle.history()] == ["retrying", "done"]


async def test_a_crash_before_or_after_its_commit_applies_it_once(world, rows):
    def code(app, stuck):
        @app.transaction
        def add(sql: hf.SqlCursor, n: int) -> None:
            sql.execute("CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, amount INTEGER NOT NULL)")
            sql.execute("INSERT INTO account VALUES (?, ?)", (f"n-{n}", n))

        @app.step
        async def stop() -> None:
            if stuck:
                reached.set()
                await asyncio.Event().wait()

        @app.workflow
        async def job() -> str:
            await add(1)
            await stop()
            await add(2)
            return "done"

        return job

    reached = asyncio.Event()
    first, second = world.app(), world.app()
    before, after = code(first, True), code(second, False)
    async with first.worker(grace=0):
        await before.start(id="j")
        await reached.wait()
    assert rows() == [("n-1", 1)]
    async with second.worker():
        assert await after.handle("j") == "done"
    assert rows() == [("n-1", 1), ("n-2", 2)]


async def test_many_at_once(app, bank, rows):
    _, move = bank

    @app.workflow
    async def job() -> int:
        return min(await asyncio.gather(*[move(1) for _ in range(50)]))

    transfer, _ = bank
    async with app.worker():
        await transfer()
        assert await job() == 50
    assert rows() == [("ann", 50), ("bob", 50)]


async def test_outside_a_workflow_it_is_a_plain_function_of_any_cursor(bank, tmp_path):
    _, move = bank
    with sqlite3.connect(tmp_path / "unit.db") as connection:
        connection.execute("CREATE TABLE account (name TEXT, amount INTEGER)")
        connection.execute("INSERT INTO account VALUES ('ann', 5), ('bob', 0)")
        assert move.function(connection.cursor(), 2) == 3
    connection.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("COMMIT", "may not begin, commit or roll back"),
        ("SAVEPOINT s", "may not use savepoints"),
        ("PRAGMA synchronous=OFF", "may not change settings"),
        ("ATTACH ':memory:' AS other", "may not attach databases"),
    ],
)
async def test_what_a_transactional_step_may_not_do(app, statement, message):
    ran = []

    @app.transaction
    def naughty(sql: hf.SqlCursor) -> None:
        ran.append(1)
        sql.execute(statement)

    @app.workflow
    async def job() -> None:
        await naughty()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match=message) as caught:
            await job()
    assert isinstance(caught.value.__cause__, hf.InvalidInput)
    assert len(ran) == 1


async def test_the_stores_own_tables_are_out_of_reach(app, world):
    tables: list[str] = []

    @app.transaction
    def look(sql: hf.SqlCursor) -> None:
        tables.extend(name for (name,) in sql.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"))

    @app.transaction
    def spoil(sql: hf.SqlCursor, table: str) -> None:
        sql.execute(f"DELETE FROM {table}")  # noqa: S608 - that is the attempt

    @app.workflow
    async def job() -> list[str]:
        await look()
        told = []
        for table in tables:
            try:
                await spoil(table)
            except hf.InvalidInput as error:
                told.append(str(error))
        return told

    async with app.worker():
        told = await job()
    assert told
    assert all("a transactional step may not change" in each for each in told)


async def test_one_can_undo_another(app, bank, rows):
    transfer, _ = bank

    @app.transaction
    def deposit(sql: hf.SqlCursor, amount: int) -> int:
        sql.execute("UPDATE account SET amount = amount + ? WHERE name = 'bob'", (amount,))
        return amount

    @deposit.undo
    @app.transaction
    def withdraw(sql: hf.SqlCursor, amount: int) -> None:
        sql.execute("UPDATE account SET amount = amount - ? WHERE name = 'bob'", (amount,))

    @app.workflow
    async def job() -> None:
        async with hf.saga():
            await deposit(5)
            await deposit(7)
            raise LookupError("no")

    async with app.worker():
        await transfer()
        with pytest.raises(hf.ExecutionFailed, match="LookupError: no"):
            await job()
    assert rows() == [("ann", 100), ("bob", 0)]


async def test_it_needs_a_sqlite_home(memory_world):
    app = memory_world.app()

    @app.transaction
    def move(sql: hf.SqlCursor) -> None: ...

    @app.workflow
    async def job() -> None:
        await move()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="'move' is transactional, which needs a SQLite home"):
            await job()


async def test_it_is_a_plain_def(app):
    async def move(sql: hf.SqlCursor) -> None: ...

    with pytest.raises(hf.InvalidInput, match="'move': a transactional step runs inside the store's transaction"):
        app.transaction(move)


async def test_it_has_no_key_and_the_error_says_what_helps(app):
    @app.transaction(retry=ONCE)
    def pay(sql: hf.SqlCursor) -> str:
        return hf.current().idempotency_key

    @app.workflow
    async def job() -> str:
        return await pay()

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match=r"needs no idempotency_key.*in an @app\.step") as caught:
            await job()
        assert "request_id" not in str(caught.value)


class Asynchronous:
    async def __call__(self, sql: hf.SqlCursor) -> None:
        sql.execute("CREATE TABLE never (id)")


async def asynchronous(sql: hf.SqlCursor) -> None:
    sql.execute("CREATE TABLE never (id)")


def a_generator(sql: hf.SqlCursor):
    yield sql.execute("CREATE TABLE never (id)")


def in_disguise(sql: hf.SqlCursor):
    sql.execute("CREATE TABLE never (id)")
    return asynchronous(sql)


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (asynchronous, "the async def asynchronous"),
        (partial(asynchronous), "functools.partial of the async def asynchronous"),
        (Asynchronous(), "Asynchronous"),
        (lambda sql: asynchronous(sql=sql), "a lambda"),
        (in_disguise, "the def in_disguise"),
        (a_generator, "the generator a_generator"),
        (None, "None"),
    ],
)
async def test_transact_takes_a_plain_def_only(app, work, told):
    async with app:
        with pytest.raises(hf.InvalidInput, match=f"app.transact runs a plain def .* got .*{told}"):
            await app.transact(work)
        assert (
            await app.transact(lambda sql: list(sql.execute("SELECT 1 FROM sqlite_schema WHERE name = 'never'"))) == []
        )


async def test_a_result_that_does_not_fit_rolls_back(app, bank, rows):
    @app.transaction
    def odd(sql: hf.SqlCursor) -> int:
        sql.execute("UPDATE account SET amount = 0")
        return "zero"  # type: ignore[return-value]

    transfer, _ = bank

    @app.workflow
    async def job() -> int:
        return await odd()

    async with app.worker():
        await transfer()
        with pytest.raises(hf.ExecutionFailed, match="the result of step 'odd'"):
            await job()
    assert rows() == [("ann", 100), ("bob", 0)]


async def test_stop_iteration_out_of_sql_is_a_failure_like_others(app):
    @app.transaction(retry=ONCE)
    def first(sql: hf.SqlCursor) -> int:
        found: Callable[[], int] = iter(sql.execute("SELECT 1 WHERE 0")).__next__
        return found()

    @app.workflow
    async def job() -> str:
        try:
            return str(await first())
        except Exception as error:
            return type(error).__name__

    async with app.worker():
        assert await (await job.start()).result("60s") == "RuntimeError"
