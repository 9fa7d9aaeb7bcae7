"""A persistence layer for the ``idempotent`` decorators of Powertools for AWS Lambda, with our transitions inside.

    persistence = HoldfastPersistence(app)

    @idempotent(persistence_store=persistence, config=IdempotencyConfig(event_key_jmespath="order_id"))
    def handler(event, context): ...

Everything else stays as in Powertools; ``docs/idempotency.md`` says what that means.
"""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakKeyDictionary

from aws_lambda_powertools.utilities.idempotency.config import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from msgspec import Struct

from holdfast.coordination import idempotency
from holdfast.coordination.idempotency import COMPLETED, RUNNING, Ended, Place, Record, Terms, place_of
from holdfast.duration import Duration, milliseconds
from holdfast.errors import Busy, IdempotencyMismatch, LeaseLost
from holdfast.kernel.runtime import Declares
from holdfast.keys import check_name
from holdfast.patterns.attempts import Attempt, Attempts, Policy
from holdfast.patterns.bridge import ask, foreign_loop
from holdfast.patterns.idempotent import LAMBDA_MARGIN_MS
from holdfast.patterns.keys import key_text

IN_PROGRESS: Final = "INPROGRESS"
NO_ATTEMPTS: Final[dict[str, Attempt]] = {}


class Options(Struct, frozen=True):
    """The common data of the records of one store object."""

    app: Declares
    name: str
    lease_ms: int
    max_crashes: int


class HoldfastPersistence(BasePersistenceLayer):
    """Keeps the records of Powertools in a Holdfast app's home. The app is open while handlers run, as by
    ``app.sync().open()`` when the module is loaded.

    An attempt that was overtaken can neither overwrite nor delete the record of its successor: its end raises (inside
    Powertools' ``IdempotencyPersistenceLayerError``). A key whose attempts crashed ``max_crashes`` times is parked.
    Without a registered Lambda context a key is held for ``lease``. One object serves any number of functions, nested
    ones too, in any number of threads, each with its own config.
    """

    def __init__(
        self, app: Declares, *, name: str = "powertools", lease: Duration = "15m", max_crashes: int = 5
    ) -> None:
        check_name("handler", name)
        self._options = Options(app, name, milliseconds(lease), max_crashes)
        self._records: WeakKeyDictionary[IdempotencyConfig, dict[str, Records]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        # Powertools configures its store again for each call and uses it when the function has ended. By then
        # another function may have been called, in another thread or by the first one: each call keeps its own.
        self._called: ContextVar[Records] = ContextVar("holdfast_powertools_called")
        self._begun: ContextVar[tuple[Begun, ...]] = ContextVar("holdfast_powertools_begun", default=())

    def configure(
        self, config: IdempotencyConfig, function_name: str | None = None, key_prefix: str | None = None
    ) -> None:
        with self._lock:
            found = self._records.setdefault(config, {})
            name = key_prefix or function_name or ""
            if (records := found.get(name)) is None:
                records = found[name] = Records(self._options)
                records.configure(config, function_name, key_prefix)
        self._called.set(records)
        self.event_key_jmespath = config.event_key_jmespath  # Powertools shows it in messages

    def save_inprogress(self, data: dict[str, Any], remaining_time_in_millis: int | None = None) -> None:
        records = self._called.get()
        records.save_inprogress(data, remaining_time_in_millis)
        self._begun.set((*self._begun.get(), Begun(data, records)))

    def save_success(self, data: dict[str, Any], result: dict[Any, Any]) -> None:
        ended: Any = self._end(data)
        ended.save_success(data, result)

    def delete_record(self, data: dict[str, Any], exception: Exception) -> None:
        self._end(data).delete_record(data, exception)

    def get_record(self, data: dict[str, Any]) -> DataRecord | None:
        return self._called.get().get_record(data)

    def _end(self, data: Any) -> Records:
        """The records of the latest call with this very payload."""
        begun = self._begun.get()
        ended = next((each for each in reversed(begun) if each.data is data), None)
        if ended is None:
            return self._called.get()
        self._begun.set(tuple(each for each in begun if each is not ended))
        return ended.records

    # Methods of a store: here each function's records have them.

    def _put_record(self, data_record: DataRecord) -> None:
        self._called.get().put(data_record)

    def _update_record(self, data_record: DataRecord) -> None:
        self._called.get().update(data_record)

    def _delete_record(self, data_record: DataRecord) -> None:
        self._called.get().delete(data_record)

    def _get_record(self, idempotency_key: str) -> DataRecord:
        return self._called.get().get(idempotency_key)


class Records(BasePersistenceLayer):
    """The records of one function under one config."""

    def __init__(self, options: Options) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # theirs has no annotations
        self._options = options
        self._attempts: Attempts | None = None
        # A function may be called in several threads; each ends the attempts it began, and no others.
        self._begun: ContextVar[dict[str, Attempt]] = ContextVar("holdfast_powertools", default=NO_ATTEMPTS)

    def put(self, data_record: DataRecord) -> None:
        """Begin an attempt. Raises as Powertools expects."""
        place, ends_at = self._place(data_record), data_record.in_progress_expiry_timestamp
        left_ms = self._options.lease_ms
        if ends_at is not None:
            left_ms = max(0, ends_at - self._options.app.runtime().clock.now_ms()) + LAMBDA_MARGIN_MS
        try:
            found = ask(self._loop(), self._keys().begin(place, ends_in_ms=left_ms))
        except Busy:
            raise IdempotencyItemAlreadyExistsError(
                old_data_record=DataRecord(data_record.idempotency_key, IN_PROGRESS)
            ) from None
        except IdempotencyMismatch as error:
            raise IdempotencyValidationError(str(error)) from error
        if isinstance(found, Ended):
            old = _as_data_record(data_record.idempotency_key, found.status, found.record, found.expires_at)
            raise IdempotencyItemAlreadyExistsError(old_data_record=old)
        self._begun.set(self._begun.get() | {data_record.idempotency_key: found})

    def update(self, data_record: DataRecord) -> None:
        """The function has returned."""
        attempt = self._take(data_record.idempotency_key)
        if attempt is None:
            raise LeaseLost(
                f"no attempt under {data_record.idempotency_key} began here, so none can end: give each function a "
                "persistence layer of its own"
            )
        ask(self._loop(), self._keys().complete(attempt, data_record.response_data.encode()))

    def delete(self, data_record: DataRecord) -> None:
        """The function has failed."""
        attempt = self._take(data_record.idempotency_key)
        if attempt is not None:
            failure = RuntimeError("the handler failed")
            ask(self._loop(), self._keys().failed(attempt, failure, final=False))

    def get(self, idempotency_key: str) -> DataRecord:
        """The record."""
        place = self._place(DataRecord(idempotency_key))
        item = ask(self._loop(), idempotency.look(self._options.app.runtime(), place))
        if item is None or item.status not in {RUNNING, COMPLETED}:
            raise IdempotencyItemNotFoundError
        return _as_data_record(idempotency_key, item.status, idempotency.decode(item), item.expires_at)

    def _put_record(self, data_record: DataRecord) -> None:
        self.put(data_record)

    def _update_record(self, data_record: DataRecord) -> None:
        self.update(data_record)

    def _delete_record(self, data_record: DataRecord) -> None:
        self.delete(data_record)

    def _get_record(self, idempotency_key: str) -> DataRecord:
        return self.get(idempotency_key)

    def _loop(self) -> asyncio.AbstractEventLoop:
        return foreign_loop(self._options.app.runtime().loop, self._options.name)

    def _keys(self) -> Attempts:
        """Created when first needed: only then does Powertools give the window of an outcome."""
        if self._attempts is None:
            policy = Policy(
                name=self._options.name,
                what="the handler",
                terms=Terms(self.expires_after_seconds * 1000, self._options.max_crashes),
                lease_ms=self._options.lease_ms,
            )
            self._attempts = Attempts(self._options.app.runtime, policy)
        return self._attempts

    def _place(self, data_record: DataRecord) -> Place:
        key = key_text([data_record.idempotency_key], "the handler")
        return place_of(f"!powertools!{self._options.name}", key, data_record.payload_hash)

    def _take(self, key: str) -> Attempt | None:
        begun = dict(self._begun.get())
        attempt = begun.pop(key, None)
        self._begun.set(begun)
        return attempt


class Begun(Struct, frozen=True):
    """A call whose function runs: the payload that Powertools made for it, and where its record is."""

    data: Any
    records: Records


def _as_data_record(key: str, status: str, record: Record, expires_at: int | None) -> DataRecord:
    return DataRecord(
        idempotency_key=key,
        status=IN_PROGRESS if status == RUNNING else status,
        expiry_timestamp=None if expires_at is None else -(-expires_at // 1000),
        response_data=bytes(record.result).decode(),
        payload_hash=record.fingerprint,
    )
