"""One body, replayed through one recorded history to its end (G13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.codec.typed import encode_untyped
from holdfast.errors import NondeterminismError
from holdfast.replay.earlier import name_of
from holdfast.replay.entries import Done
from holdfast.replay.requests import RUNNING, DueTimer, Operation
from holdfast.workflows.history import Recorded
from holdfast.workflows.replay import activation_of

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.codec.typed import Codec
    from holdfast.registrations import Registrations
    from holdfast.replay.activation import Activation
    from holdfast.workflows.record import ExecutionRecord

MOST_NEW: Final = 1_000
"""How many new operations may come before the last recorded one."""

MOST_TOLD: Final = 10
OTHER_VERSION: Final = "another one"
NONE: Final = b"null"
LIMIT_BYTES: Final = 2**30

_decode: Final = msgspec.json.Decoder(Recorded).decode


class History(Struct, frozen=True):
    """A recorded history, and the answers of operations that it does not have, as JSON by name."""

    recorded: bytes
    answers: dict[str, bytes] = {}


class Retraced(Struct, frozen=True):
    """The replayed history: its execution, its entries, and the body."""

    partition: str
    entries: int
    function: Callable[..., Any]


def encoded_answers(registry: Registrations, answers: Mapping[str, Any]) -> dict[str, bytes]:
    """Answers as they would be recorded. Raises ``InvalidInput`` if one does not fit its operation."""
    return {name: _encoded(registry, name, answer) for name, answer in answers.items()}


def _encoded(registry: Registrations, name: str, answer: Any) -> bytes:
    result, what = _result_of(registry, name), f"the answer of {name!r}"
    if result is None:
        return encode_untyped(answer, what, LIMIT_BYTES)
    encoded, _ = result.copy(answer, what, LIMIT_BYTES)
    return encoded


def _result_of(registry: Registrations, name: str) -> Codec[Any] | None:
    made = registry.steps.get(name) or registry.workflows.get(name)
    return None if made is None else made.signature.result


def retrace(app: App, history: History) -> Retraced:
    """Replay a history with the app's code. Raises ``NondeterminismError`` and ``UnknownName``.

    First as a worker does, which is strict about the order if this is the very code that wrote the history. Then as
    other code, which must ask for everything recorded, finished or not.
    """
    recorded = _decode(history.recorded)
    workflow = app.registry.workflow(recorded.record.workflow)
    for record in (recorded.record, replace(recorded.record, version=OTHER_VERSION)):
        _retrace(app.registry, recorded, record, history.answers)
    return Retraced(recorded.head.partition, len(recorded.entries), workflow.function)


def _retrace(
    registry: Registrations, recorded: Recorded, record: ExecutionRecord, answers: Mapping[str, bytes]
) -> None:
    workflow = registry.workflow(record.workflow)
    rebuild = registry.errors.rebuild
    activation = activation_of(record, workflow, recorded.entries, rebuild, shared=recorded.shared)
    try:
        activation.begin()
        for _ in range(MOST_NEW):
            if activation.broken is not None or activation.outcome is not RUNNING or not activation.past.unasked:
                break
            activation.deliver(_answer(activation, registry, answers))
        if activation.broken is not None:
            raise activation.broken
        if activation.past.unasked:
            raise NondeterminismError(f"{_missing(activation)} after {MOST_NEW} operations that are not recorded")
    finally:
        activation.evict()


def _answer(activation: Activation, registry: Registrations, answers: Mapping[str, bytes]) -> Done:
    """The answer of the first operation that is not recorded; without one a wait is over.

    Raises ``NondeterminismError`` if that is not known.
    """
    now = activation.now_ms
    new = [each for each in activation.requested.values() if isinstance(each, Operation)]
    for operation in new:
        name = name_of(operation.id)
        if (value := answers.get(name, _only_answer(registry, name))) is not None:
            return Done(operation.id, now, operation.kind, Raw(value), operation.fingerprint)
    timers = [each for each in activation.requested.values() if isinstance(each, DueTimer)]
    if new or not timers:
        raise NondeterminismError(_unanswered(activation, new))
    first = min(timers, key=lambda timer: timer.due_at)
    return Done(first.id, max(now, first.due_at), first.kind, fingerprint=first.fingerprint)


def _only_answer(registry: Registrations, name: str) -> bytes | None:
    """The only answer that an operation can give, if there is only one."""
    result = _result_of(registry, name)
    return NONE if result is not None and result.hint is type(None) else None


def _unanswered(activation: Activation, new: list[Operation]) -> str:
    names = ", ".join(dict.fromkeys(f'"{name_of(each.id)}": ...' for each in new))
    ops = ", ".join(each.id for each in new) or "nothing that is recorded"
    return (
        f"{_missing(activation)} where it waits for {ops}, which the history does not have. Say what "
        f"that answers, and the replay continues: replay_history(app, recorded, answers={{{names}}})"
    )


def _missing(activation: Activation) -> str:
    unasked = activation.past.unasked
    told = ", ".join(unasked[:MOST_TOLD]) + (" and others" if len(unasked) > MOST_TOLD else "")
    return f"earlier code finished or began {told}, and this code has not asked for it"
