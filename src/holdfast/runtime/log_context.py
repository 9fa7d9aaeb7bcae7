"""What every record of the log says of where it comes from: the execution or the actor, the operation, the attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.actors.record import PARTITION_PREFIX, actor_of, key_of
from holdfast.kernel.unit import current_unit
from holdfast.logs import about
from holdfast.tracing import ids_here
from holdfast.workflows.scope import BodyScope, current_activation, step_scope


def add_context() -> None:
    """From now on each record of the log has ``holdfast``: what ``context_here`` says where it was made, and
    ``trace_id`` and ``span_id`` of the span around it, if there is one; else ``None``.

    The factory of records that was there before goes on making them (``logging.setLogRecordFactory``).
    """
    before = logging.getLogRecordFactory()
    if not isinstance(before, WithContext):
        logging.setLogRecordFactory(WithContext(before))


class WithContext:
    """A factory of records that adds the context to those of another one."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make(*args, **kwargs)
        told = context_here()
        record.holdfast = {**(told or {}), **traced} if (traced := ids_here()) else told
        return record


def context_here() -> Mapping[str, object] | None:
    """Where this code runs: ``workflow``, ``id`` and ``run`` in a body; ``workflow``, ``id``, ``operation`` and
    ``attempt`` in a step; ``actor`` and ``key`` in a method or a consumer. ``None`` elsewhere.
    """
    if (told := about.get()) is not None:
        return told
    if (activation := current_activation()) is not None:
        scope: object = getattr(activation, "context", None)
        if not isinstance(scope, BodyScope):
            return None  # a body that is no workflow's; a record must be made all the same
        body = scope.info()
        return {"workflow": body.workflow, "id": body.id, "run": body.run}
    if (step := step_scope.get()) is not None:
        info = step.info()
        return {"workflow": info.workflow, "id": info.id, "operation": info.operation, "attempt": info.attempt}
    unit = current_unit.get()
    partition = unit.chain[-1] if unit is not None and unit.chain else ""
    if partition.startswith(PARTITION_PREFIX):
        return {"actor": actor_of(partition), "key": key_of(partition)}
    return None
