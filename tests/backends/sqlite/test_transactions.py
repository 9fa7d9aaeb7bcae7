"""Transactional steps: the user's SQL commits with the store's writes, and can harm neither the store nor others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import apsw
import pytest

from holdfast.backends.sqlite.statements import ADD_PLACEHOLDER
from holdfast.errors import InvalidInput, Refused
from holdfast.items import ABSENT, Item, Put, Update, Write
from holdfast.ports import SqlCursor


async def users_table(store: Any) -> None:
    await store.transact(lambda cursor: ([], cursor.execute("CREATE TABLE mine (id INTEGER PRIMARY KEY, note TEXT)")))


async def rows(store: Any) -> list[tuple[Any, ...]]:
    return await store.transact(lambda cursor: ([], list(cursor.execute("SELECT id, note FROM mine ORDER BY id"))))


def insert(number: int, *writes: Write) -> Any:
    def work(cursor: SqlCursor) -> tuple[Sequence[Write], str]:
        cursor.execute("INSERT INTO mine VALUES (?, ?)", (number, "it's"))
        return writes, f"inserted {number}"

    return work


class TestCommitting:
    async def test_sql_and_writes_commit_together(self, open_home) -> None:
        async with open_home() as home:
            await users_table(home.store)
            commits = home.store.commits
            answer = await home.store.transact(insert(1, Put(Item("p"), ABSENT), Put(Item("p", "j/1"), ABSENT)))
            assert answer == "inserted 1"
            assert home.store.commits - commits == 1
            assert await rows(home.store) == [(1, "it's")]
            assert (await home.store.query("p")).items == (Item("p"), Item("p", "j/1"))

    async def test_they_share_the_commit_of_their_tick(self, open_home) -> None:
        async with open_home() as home:
            await users_table(home.store)
            commits = home.store.commits
            await asyncio.gather(
                home.store.write(Put(Item("p"))),
                *(home.store.transact(insert(number, Update(partition="p", add_revision=1))) for number in range(5)),
            )
            assert home.store.commits - commits == 1
            assert await home.store.get("p") == Item("p", revision=5)

    async def test_it_sees_what_came_before_it(self, open_home) -> None:
        async with open_home() as home:
            await users_table(home.store)
            first = home.store.transact(insert(1))
            second = home.store.transact(lambda cursor: ([], cursor.execute("SELECT count(*) FROM mine")))
            third = home.store.write(Put(Item("p")))
            fourth = home.store.transact(
                lambda cursor: (
                    [],
                    cursor.execute("SELECT partition FROM holdfast_heads WHERE revision = :r", {"r": 0}),
                )
            )
            await asyncio.gather(first, second, third, fourth)
            assert (second.result(), fourth.result()) == ([(1,)], [("p",)])

    async def test_any_value_can_be_answered(self, open_home) -> None:
        async with open_home() as home:
            error = ValueError("a value, not raised")
            assert await home.store.transact(lambda _: ([], error)) is error
            assert await home.store.transact(lambda _: ([], None)) is None


class TestRollingBack:
    async def test_an_error_of_the_user_undoes_everything_and_reaches_the_caller(self, open_home) -> None:
        class TooExpensiveError(Exception):
            pass

        error = TooExpensiveError()

        def work(cursor: SqlCursor) -> tuple[Sequence[Write], None]:
            insert(1)(cursor)
            raise error

        async with open_home() as home:
            await users_table(home.store)
            neighbours = [home.store.write(Put(Item("p"))), home.store.transact(insert(2))]
            with pytest.raises(TooExpensiveError) as caught:
                await home.store.transact(work)
            assert caught.value is error
            await asyncio.gather(*neighbours)
            assert await rows(home.store) == [(2, "it's")]

    async def test_a_refused_write_undoes_the_sql(self, open_home) -> None:
        async with open_home() as home:
            await users_table(home.store)
            await home.store.write(Put(Item("p", revision=4)))
            with pytest.raises(Refused) as caught:
                await home.store.transact(insert(1, Put(Item("q")), Put(Item("p"), ABSENT)))
            assert (caught.value.index, caught.value.item) == (1, Item("p", revision=4))
            assert await rows(home.store) == []
            assert await home.store.get("q") is None

    async def test_an_error_of_sqlite_reaches_the_caller_as_it_is(self, open_home) -> None:
        async with open_home() as home:
            await users_table(home.store)
            await home.store.transact(insert(1))
            with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
                await home.store.transact(insert(1))
            with pytest.raises(apsw.SQLError, match="no such table"):
                await home.store.transact(lambda cursor: ([], cursor.execute("SELECT * FROM none")))

    async def test_the_same_item_twice_is_an_error_here_too(self, open_home) -> None:
        async with open_home() as home:
            await users_table(home.store)
            with pytest.raises(InvalidInput, match="different items"):
                await home.store.transact(insert(1, Put(Item("p")), Put(Item("p"))))
            assert await rows(home.store) == []


class TestRollingBackTooMuch:
    """SQL can roll back the whole transaction, and with it the calls of others; they must not notice."""

    async def test_the_others_are_applied_all_the_same(self, open_home) -> None:
        async with open_home() as home:
            await users_table(home.store)
            await home.store.transact(insert(1))
            calls = [
                home.store.write(Put(Item("p"), ABSENT)),
                home.store.transact(insert(2)),
                home.store.transact(
                    lambda cursor: ([], cursor.execute("INSERT OR ROLLBACK INTO mine VALUES (1, 'x')"))
                ),
                home.store.write(Put(Item("q"), ABSENT)),
                home.store.transact(insert(3)),
            ]
            *good, last = await asyncio.gather(calls[0], calls[1], calls[3], calls[4], calls[2], return_exceptions=True)
            assert [list(good[0]), good[1], list(good[2]), good[3]] == [[None], "inserted 2", [None], "inserted 3"]
            assert isinstance(last, apsw.ConstraintError)
            assert [number for number, _ in await rows(home.store)] == [1, 2, 3]

    async def test_it_cannot_go_on_outside_the_transaction(self, open_home) -> None:
        errors: list[Exception] = []

        def work(cursor: SqlCursor) -> tuple[Sequence[Write], None]:
            for statement in ("INSERT OR ROLLBACK INTO mine VALUES (1, 'x')", "INSERT INTO mine VALUES (7, 'alone')"):
                try:
                    cursor.execute(statement)
                except Exception as error:
                    errors.append(error)
            return [Put(Item("alone"))], None

        async with open_home() as home:
            await users_table(home.store)
            await home.store.transact(insert(1))
            with pytest.raises(InvalidInput, match="rolled the transaction back"):
                await home.store.transact(work)
            assert [type(error) for error in errors] == [apsw.ConstraintError, InvalidInput]
            assert await rows(home.store) == [(1, "it's")]
            assert await home.store.get("alone") is None

    async def test_a_foreign_key_that_would_fail_at_the_commit_fails_its_own_step(self, open_home) -> None:
        schema = """
            CREATE TABLE parent (id INTEGER PRIMARY KEY);
            CREATE TABLE child (parent INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
        """
        async with open_home() as home:
            await home.store.transact(lambda cursor: ([], cursor.execute(schema)))
            calls = [
                home.store.write(Put(Item("p"))),
                home.store.transact(lambda cursor: ([], cursor.execute("INSERT INTO child VALUES (1)"))),
                home.store.transact(
                    lambda cursor: ([], cursor.execute("INSERT INTO child VALUES (2); INSERT INTO parent VALUES (2)"))
                ),
            ]
            first, second, third = await asyncio.gather(*calls, return_exceptions=True)
            assert first == (None,)
            assert isinstance(second, InvalidInput)
            assert third == []


class TestForbidden:
    @pytest.mark.parametrize(
        "statement",
        [
            "BEGIN",
            "COMMIT",
            "END",
            "ROLLBACK",
            "SAVEPOINT x",
            "RELEASE holdfast",
            "ROLLBACK TO holdfast",
            "PRAGMA synchronous = OFF",
            "PRAGMA user_version",
            "SELECT * FROM pragma_user_version",
            "ATTACH ':memory:' AS other",
            "DETACH main",
            "CREATE TEMP TABLE t (x)",
            "CREATE TEMP VIEW v AS SELECT 1",
            "CREATE TEMP TRIGGER t AFTER INSERT ON mine BEGIN SELECT 1; END",
            "INSERT INTO holdfast_heads (partition) VALUES ('x')",
            "UPDATE holdfast_heads SET revision = 7",
            "UPDATE Holdfast_Heads SET revision = 7",
            "DELETE FROM holdfast_entries",
            "REPLACE INTO holdfast_heads (number, partition) VALUES (1, 'x')",
            "DROP TABLE holdfast_heads",
            "ALTER TABLE holdfast_heads ADD COLUMN x",
            "ALTER TABLE holdfast_heads RENAME TO mine_now",
            "CREATE INDEX mine_index ON holdfast_heads (status)",
            "DROP INDEX holdfast_heads_due",
            "REINDEX holdfast_heads",
            "CREATE TRIGGER mine_trigger AFTER INSERT ON holdfast_heads BEGIN SELECT 1; END",
            "CREATE TABLE holdfast_mine (x)",
            "CREATE TABLE HOLDFAST_MINE (x)",
            "SELECT 1; DELETE FROM holdfast_heads",
            "WITH x AS (SELECT 1) DELETE FROM holdfast_heads",
            "SELECT load_extension('x')",
            "VACUUM",
        ],
    )
    async def test_a_step_may_not(self, open_home, statement: str) -> None:
        async with open_home() as home:
            await users_table(home.store)
            await home.store.write(Put(Item("p", revision=1)))
            errors: list[Exception] = []

            def work(cursor: SqlCursor) -> tuple[Sequence[Write], None]:
                insert(1)(cursor)
                try:
                    cursor.execute(statement)
                except Exception as error:
                    errors.append(error)
                    raise
                return [], None

            with pytest.raises((InvalidInput, apsw.Error)) as caught:
                await home.store.transact(work)
            if "load_extension" not in statement and statement != "VACUUM":  # SQLite refuses these by itself
                assert isinstance(caught.value, InvalidInput)
                assert "a transactional step may not" in str(caught.value)
            assert await rows(home.store) == []
            assert await home.store.get("p") == Item("p", revision=1)
            assert await home.store.integrity() == []

    async def test_a_trigger_of_the_user_may_not_either(self, open_home) -> None:
        trigger = """
            CREATE TRIGGER sneaky AFTER INSERT ON mine BEGIN UPDATE holdfast_heads SET revision = 7; END
        """
        async with open_home() as home:
            await users_table(home.store)
            await home.store.write(Put(Item("p")))
            await home.store.transact(lambda cursor: ([], cursor.execute(trigger)))
            with pytest.raises(InvalidInput, match="holdfast_heads"):
                await home.store.transact(insert(1))
            assert await home.store.get("p") == Item("p")

    async def test_a_statement_of_the_stores_own_is_not_let_through_by_the_cache(self, open_home) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("p", "i/1")))  # prepares it
            for statement in (ADD_PLACEHOLDER, f"SELECT 1;{ADD_PLACEHOLDER}"):
                with pytest.raises(InvalidInput, match="holdfast_heads"):
                    await home.store.transact(
                        lambda cursor, statement=statement: ([], cursor.execute(statement, ("sneaky",)))
                    )
            await home.store.write(Put(Item("q", "i/1")))

    async def test_the_cursor_ends_with_its_step(self, open_home) -> None:
        async with open_home() as home:
            cursor = await home.store.transact(lambda cursor: ([], cursor))
            with pytest.raises(InvalidInput, match="ended"):
                cursor.execute("SELECT 1")

    async def test_reading_the_stores_tables_is_fine(self, open_home) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("p")))
            count = "SELECT count(*) FROM holdfast_heads"
            assert await home.store.transact(lambda cursor: ([], cursor.execute(count))) == [(1,)]


async def test_prepared_statements_survive_the_guard(open_home) -> None:
    """The guard is installed once: installing it anew would expire every prepared statement."""
    async with open_home() as home:
        asked: list[int] = []

        def authorize(action: int, *names: str | None) -> int:
            asked.append(action)
            return home.store.runner.guard._authorize(action, *names)

        home.store.runner.connection.authorizer = authorize
        await users_table(home.store)
        await home.store.transact(insert(0, Put(Item("p"), ABSENT)))
        asked.clear()
        for number in range(1, 20):
            await home.store.transact(insert(number, Put(Item(f"p{number}"), ABSENT)))
        assert asked == []
