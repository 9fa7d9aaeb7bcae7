"""One transaction for many calls: each call applies as a whole or not at all, independently of the others.

The unit of atomicity is the call, the unit of durability is the batch: its answers may leave only after the commit
(G7), which is the job of the code that runs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import apsw

from holdfast.backends.sqlite.database import Database
from holdfast.backends.sqlite.failures import commit_failed, explained
from holdfast.backends.sqlite.identity import Identity
from holdfast.backends.sqlite.statements import (
    ADD_PLACEHOLDER,
    FILL_PLACEHOLDER,
    GET_ENTRY,
    GET_HEAD,
    delete_statements,
    put_statement,
    update_statement,
)
from holdfast.backends.sqlite.transactions import Guard, GuardedCursor
from holdfast.clock import elapsed_seconds
from holdfast.containment import contained_call
from holdfast.errors import InvalidInput, Refused, StoreUnusable
from holdfast.items import HEAD, Condition, Item, Put, Update, Write, holds, place

Job = Callable[["BatchRunner"], Any]
"""Work inside the transaction other than a list of writes: atomic like a call, it returns any value."""

Call = Sequence[Write] | Job

T = TypeVar("T")

_logger = logging.getLogger("holdfast")

GUARDED_BATCHES: Final = 20
"""After a refusal half-way through a call, in how many batches each call of several writes has a savepoint."""

_NOTHING: Final[tuple[Item | None, ...]] = (None,)


ApplyAll = Callable[[Sequence[Write]], list[Item | None]]
"""How the writes of one call are applied: all of them, or none."""


Outcome = tuple[Any, Exception | None]
"""The outcome of a call: an answer, or an error."""


class HalfAppliedError(Exception):
    """A write of a call was refused that has no savepoint, and others of it were applied: the batch must run again."""


class TransactionLostError(Exception):
    """SQLite rolled the whole transaction back because of one call; ``index`` is that call's position in the batch."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class UsersError(Exception):
    """An error of the user's own code in a transaction: it reaches the caller unchanged."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class BatchRunner:
    """Applies batches on the writer's connection. Not thread-safe: one batch at a time, from one thread at a time."""

    def __init__(self, connection: Database, path: str) -> None:
        self.connection = connection
        self.path = path
        self.identity = Identity(path)
        self.guard = Guard(connection)
        self.commits = 0
        """How many transactions were committed."""
        self.statements = 0
        """How many statements ran, without BEGIN and COMMIT."""
        self.commit_seconds = 0.0
        """How long the last COMMIT took: nearly all of it is the wait for the disk."""
        self._is_full = False
        self._guarded_batches = 0
        """How many of the next batches have a savepoint for each call of several writes."""
        self._run = connection.cursor().execute
        self._changes = connection.changes

    # ── The batch ───────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, calls: Sequence[Call]) -> list[Outcome]:
        """Apply ``calls`` in their order in one transaction and commit it; returns their outcomes.

        Raises ``apsw.BusyError``, with nothing applied, if another process holds the write lock.
        """
        try:
            outcomes = self._run_whole(calls)
        except apsw.FullError as error:
            return self._run_what_fits(calls, error)
        if self._is_full:
            self._is_full = False
            _logger.warning("the disk that holds %s has room again", self.path)
        return outcomes

    def _run_what_fits(self, calls: Sequence[Call], error: apsw.FullError) -> list[Outcome]:
        """The disk is full, or too full for all of them: a large call must not make the small ones fail."""
        told = explained(error, self.path)
        if not self._is_full:
            self._is_full = True
            _logger.error("%s", told)
        if len(calls) == 1:
            return [(None, told)]
        half = len(calls) // 2
        return [*self._run_half(calls[:half]), *self._run_half(calls[half:])]

    def _run_half(self, calls: Sequence[Call]) -> list[Outcome]:
        try:
            return self._run_whole(calls)
        except apsw.FullError as error:
            return self._run_what_fits(calls, error)
        except apsw.BusyError as error:  # the other half is committed, so they must not both run again
            return [(None, explained(error, self.path)) for _ in calls]

    def _run_whole(self, calls: Sequence[Call]) -> list[Outcome]:
        culprits: dict[int, Outcome] = {}
        apply_all = self._way_to_apply(calls)
        while True:
            try:
                return self._run_once(calls, culprits, apply_all)
            except HalfAppliedError:  # it was rolled back, and nothing of it was answered yet
                self._guarded_batches, apply_all = GUARDED_BATCHES, self._guarded
            except TransactionLostError as lost:
                bare = lost.error.error if isinstance(lost.error, UsersError) else lost.error
                if isinstance(bare, apsw.BusyError):
                    raise bare from None
                if callable(calls[lost.index]):
                    # A user's ROLLBACK, or a blob that does not fit, must not cost the others their writes: run it
                    # again without that call. Nothing of this batch was answered yet, so the difference cannot be seen.
                    culprits[lost.index] = (None, self._told(lost.error, calls[lost.index]))
                    continue
                # The disk failed, and would fail for the next call.
                return [(None, explained(lost.error, self.path)) for _ in calls]
            except (apsw.BusyError, apsw.FullError):
                raise
            except (apsw.Error, StoreUnusable) as error:  # of BEGIN or COMMIT: it concerns all calls
                return [(None, commit_failed(error, self.path)) for _ in calls]

    def _way_to_apply(self, calls: Sequence[Call]) -> ApplyAll:
        """Savepoints are two statements for each call of several writes, and nearly no call is refused half-way. So
        they come only after one was; and with jobs, which would run a second time with the batch.
        """
        if self._guarded_batches:
            self._guarded_batches -= 1
            return self._guarded
        return self._guarded if any(map(callable, calls)) else self._unguarded

    def _run_once(self, calls: Sequence[Call], culprits: dict[int, Outcome], apply_all: ApplyAll) -> list[Outcome]:
        run = self._run
        # The log may still have its name, and a process that opens the new file would read it.
        self.identity.check_before()
        # IMMEDIATE: take the write lock now, when waiting is harmless, not at the first write, where SQLite may have
        # to give up (https://sqlite.org/lang_transaction.html).
        run("BEGIN IMMEDIATE")
        try:
            outcomes = [
                culprits.get(index) or self._attempt(index, call, apply_all) for index, call in enumerate(calls)
            ]
            begun = elapsed_seconds()
            run("COMMIT")
            self.commit_seconds = elapsed_seconds() - begun
            self.identity.check_after()
        finally:
            if self.connection.in_transaction:
                run("ROLLBACK")
        self.commits += 1
        return outcomes

    def _attempt(self, index: int, call: Call, apply_all: ApplyAll) -> Outcome:
        try:
            if callable(call):
                return self.atomically(lambda: call(self)), None
            if len(call) == 1:
                # A single write is one statement, or statements of which only the last changes an item: atomic by
                # itself (https://sqlite.org/lang_conflict.html, ABORT).
                answer = self._apply_one(0, call[0])
                return (_NOTHING if answer is None else (answer,)), None
            return apply_all(call), None
        except Refused as refused:
            return None, refused
        except (apsw.FullError, HalfAppliedError):
            raise
        except Exception as raised:
            if not self.connection.in_transaction:
                raise TransactionLostError(index, raised) from raised
            return None, self._told(raised, call)

    def _told(self, raised: Exception, call: Call) -> Exception:
        """The error as the caller gets it. SQLite's own errors become errors of our tree, or no caller would wait for
        them to pass; an error of the user's SQL, or of a job of ours, stays as it is.
        """
        if isinstance(raised, UsersError):
            return raised.error
        return raised if callable(call) and not isinstance(raised, apsw.Error) else explained(raised, self.path)

    def atomically(self, action: Callable[[], T]) -> T:
        """Run ``action``; if it raises, undo what it did (https://sqlite.org/lang_savepoint.html)."""
        run = self._run
        self.statements += 2
        run("SAVEPOINT holdfast")
        try:
            answer = action()
        except BaseException:
            # After a rollback of the whole transaction the savepoint is gone with it.
            if self.connection.in_transaction:
                run("ROLLBACK TO holdfast")
                run("RELEASE holdfast")
            raise
        run("RELEASE holdfast")
        return answer

    def _guarded(self, writes: Sequence[Write]) -> list[Item | None]:
        return self.atomically(lambda: self.apply(writes))

    def _unguarded(self, writes: Sequence[Write]) -> list[Item | None]:
        """Raises ``HalfAppliedError`` instead of an error that leaves some of the writes applied."""
        try:
            return self.apply(writes)
        except Exception as error:
            if isinstance(error, Refused) and error.index == 0:
                raise
            raise HalfAppliedError from error

    # ── Writes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, writes: Sequence[Write]) -> list[Item | None]:
        """Apply ``writes`` one after another. Raises ``Refused`` at the first whose condition does not hold."""
        if len(set(map(place, writes))) < len(writes):
            raise InvalidInput("the writes of one call must touch different items")
        return [self._apply_one(index, write) for index, write in enumerate(writes)]

    def _apply_one(self, index: int, write: Write) -> Item | None:
        if isinstance(write, Put):
            text, parameters = put_statement(write)
            if not self._changes_a_row(text, parameters):
                self._put_by_placeholder(index, write, text, parameters)
            return None
        if isinstance(write, Update):
            text, parameters = update_statement(write)
            if write.load:
                self.statements += 1
                rows = self._run(text, parameters).fetchall()
                if rows:
                    return Item(write.partition, write.sort, *rows[0])
            elif self._changes_a_row(text, parameters):
                return None
            raise Refused(index, self.find(write.partition, write.sort))
        for text, parameters in delete_statements(write):
            if self._changes_a_row(text, parameters):
                return None
        found = self.find(write.partition, write.sort)
        if found is not None or not _holds_of_nothing(write.when):
            raise Refused(index, found)
        return None

    def _put_by_placeholder(self, index: int, write: Put, text: str, parameters: Sequence[Any]) -> None:
        """Put a head in place of a placeholder, or add one for an item that comes before its head."""
        item, may_be_new = write.item, _holds_of_nothing(write.when)
        if item.sort == HEAD:
            found = self.find(item.partition, item.sort)
            if found is None and may_be_new and self._changes_a_row(FILL_PLACEHOLDER, parameters):
                return
        else:
            # Either the item exists and the condition does not hold, or the head's row was missing.
            if (
                may_be_new
                and self._changes_a_row(ADD_PLACEHOLDER, (item.partition,))
                and self._changes_a_row(text, parameters)
            ):
                return
            found = self.find(item.partition, item.sort)
        raise Refused(index, found)

    def find(self, partition: str, sort: str) -> Item | None:
        """The item as this transaction sees it."""
        if sort == HEAD:
            rows = self._run(GET_HEAD, (partition,)).fetchall()
        else:
            rows = self._run(GET_ENTRY, (partition, sort)).fetchall()
        self.statements += 1
        return Item(partition, sort, *rows[0]) if rows else None

    def _changes_a_row(self, text: str, parameters: Sequence[Any]) -> bool:
        self.statements += 1
        self._run(text, parameters)
        return self._changes() > 0

    def change(self, text: str, parameters: Sequence[Any]) -> int:
        """Run a statement for a job; returns how many rows it changed."""
        self.statements += 1
        self._run(text, parameters)
        return self._changes()

    # ── Transactional steps ─────────────────────────────────────────────────────────────────────────────────────────

    def transact(self, work: Callable[[GuardedCursor], tuple[Sequence[Write], Any]]) -> Any:
        """Run the user's SQL, then apply the writes that it returns. Part of ``SqlTransactions.transact``."""
        with self.guard.on() as cursor:
            try:
                writes, value = contained_call(work, cursor)
            except Exception as error:
                raise cursor.full or UsersError(error) from error
        if cursor.full is not None:
            raise cursor.full
        if not self.connection.in_transaction:
            raise InvalidInput("the step's own SQL has rolled the transaction back")
        current, _ = self.connection.status(apsw.SQLITE_DBSTATUS_DEFERRED_FKS)
        if current:
            # Would fail only at COMMIT, and with it every other call (https://sqlite.org/foreignkeys.html#fk_deferred).
            raise InvalidInput("the step's SQL leaves a deferred foreign key violated; insert what it refers to")
        self.apply(writes)
        return value


def _holds_of_nothing(condition: Condition) -> bool:
    return holds(condition, None)
