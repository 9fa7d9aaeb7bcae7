"""A persistence layer for the ``idempotent`` decorators of Powertools for AWS Lambda, with our transitions inside.

    persistence = HoldfastPersistence(app)

    @idempotent(persistence_store=persistence, config=IdempotencyConfig(event_key_jmespath="order_id"))
    def handler(event, context): ...

Everything else stays as Powertools has it; ``docs/idempotency.md`` says what that means.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Final

from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from holdfast.coordination import idempotency
from holdfast.coordination.idempotency import COMPLETED, RUNNING, Ended, Place, Record, Terms, place_of
from holdfast.duration import Duration, milliseconds
from holdfast.errors import Busy, IdempotencyMismatch, LeaseLost
from holdfast.patterns.attempts import Attempt, Attempts, Policy
from holdfast.patterns.bridge import ask, foreign_loop
from holdfast.patterns.declarations import Patterns
from holdfast.patterns.idempotent import LAMBDA_MARGIN_MS
from holdfast.patterns.keys import key_text
from holdfast.workflows.registry import check_name

IN_PROGRESS: Final = "INPROGRESS"
NO_ATTEMPTS: Final[dict[str, Attempt]] = {}


class HoldfastPersistence(BasePersistenceLayer):
    """Keeps the records of Powertools in a Holdfast app's home. The app is open while handlers run, as by
    ``app.sync().open()`` when the module is loaded.

    An attempt that was overtaken can neither overwrite nor delete the record of its heir: its end raises (inside
    Powertools' ``IdempotencyPersistenceLayerError``). A key whose attempts died ``max_crashes`` times is parked.
    Without a registered Lambda context a key is held for ``lease``.
    """

    def __init__(
        self, app: Patterns, *, name: str = "powertools", lease: Duration = "15m", max_crashes: int = 5
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # theirs has no annotations
        check_name("handler", name)
        self._app = app
        self._name = name
        self._lease_ms = milliseconds(lease)
        self._max_crashes = max_crashes
        self._attempts: Attempts | None = None
        # One store object serves several functions and threads; each ends the attempts it began, and no others.
        self._begun: ContextVar[dict[str, Attempt]] = ContextVar("holdfast_powertools", default=NO_ATTEMPTS)

    def _put_record(self, data_record: DataRecord) -> None:
        place, ends_at = self._place(data_record), data_record.in_progress_expiry_timestamp
        left_ms = self._lease_ms
        if ends_at is not None:
            left_ms = max(0, ends_at - self._app.opened().clock.now_ms()) + LAMBDA_MARGIN_MS
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

    def _update_record(self, data_record: DataRecord) -> None:
        attempt = self._take(data_record.idempotency_key)
        if attempt is None:
            raise LeaseLost(
                f"no attempt under {data_record.idempotency_key} began here, so none can end: give each function a "
                "persistence layer of its own"
            )
        ask(self._loop(), self._keys().complete(attempt, data_record.response_data.encode()))

    def _delete_record(self, data_record: DataRecord) -> None:
        attempt = self._take(data_record.idempotency_key)
        if attempt is not None:
            failure = RuntimeError("the handler failed")
            ask(self._loop(), self._keys().failed(attempt, failure, final=False))

    def _get_record(self, idempotency_key: str) -> DataRecord:
        place = self._place(DataRecord(idempotency_key))
        item = ask(self._loop(), idempotency.look(self._app.opened(), place))
        if item is None or item.status not in {RUNNING, COMPLETED}:
            raise IdempotencyItemNotFoundError
        return _as_data_record(idempotency_key, item.status, idempotency.decode(item), item.expires_at)

    def _loop(self) -> asyncio.AbstractEventLoop:
        return foreign_loop(self._app.loop, self._name)

    def _keys(self) -> Attempts:
        """Made when it is first needed: Powertools says only then how long an outcome counts."""
        if self._attempts is None:
            policy = Policy(
                name=self._name,
                what="the handler",
                terms=Terms(self.expires_after_seconds * 1000, self._max_crashes),
                lease_ms=self._lease_ms,
            )
            self._attempts = Attempts(self._app.opened, policy)
        return self._attempts

    def _place(self, data_record: DataRecord) -> Place:
        key = key_text([data_record.idempotency_key], "the handler")
        return place_of(f"!powertools!{self._name}", key, data_record.payload_hash)

    def _take(self, key: str) -> Attempt | None:
        begun = dict(self._begun.get())
        attempt = begun.pop(key, None)
        self._begun.set(begun)
        return attempt


def _as_data_record(key: str, status: str, record: Record, expires_at: int | None) -> DataRecord:
    return DataRecord(
        idempotency_key=key,
        status=IN_PROGRESS if status == RUNNING else status,
        expiry_timestamp=None if expires_at is None else -(-expires_at // 1000),
        response_data=bytes(record.result).decode(),
        payload_hash=record.fingerprint,
    )
