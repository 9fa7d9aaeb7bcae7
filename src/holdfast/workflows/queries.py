"""Queries: what a body tells of itself, while it goes on by replaying it, and once it has ended as it was recorded."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw

from holdfast.codec import jsontext
from holdfast.containment import contained_call
from holdfast.errors import ControlFlow, InvalidInput, UnknownName
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import load
from holdfast.workflows.record import decode_record, describe_partition, pinned_to
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.replay.activation import Activation
    from holdfast.workflows.declared import DeclaredWorkflow

MOST_ANSWERS_BYTES: Final = 32 * 1024
"""So much is kept of the answers of one execution, in the order in which its body has exposed the queries."""


async def answer_of(runtime: Runtime, partition: str, workflow: DeclaredWorkflow, name: str) -> Any:
    """The answer of a query. Of an execution that has ended and whose code has changed since, it is what was recorded.

    Raises ``NotFound``, ``UnknownName``, and whatever the query raises.
    """
    record = decode_record((await head_of(runtime, partition)).body)
    recorded = record.queries.get(name)
    if recorded is not None and pinned_to(record) != workflow.version:
        return _plain(recorded)
    try:
        return await _asked_by_replay(runtime, partition, workflow, name)
    except Exception:
        if recorded is None:
            raise
        return _plain(recorded)  # it could answer at the end: something that the body uses has changed since


async def _asked_by_replay(runtime: Runtime, partition: str, workflow: DeclaredWorkflow, name: str) -> Any:
    recorded = await load(runtime.home.store, partition)
    rebuild = runtime.registry.errors.rebuild
    with looked_into(recorded, recorded.entries, workflow, rebuild) as activation:
        activation.begin()
        if activation.broken is not None:
            raise activation.broken
        if name not in activation.queries:
            known = ", ".join(sorted(activation.queries)) or "none"
            raise UnknownName(f"{describe_partition(partition)} exposes no query {name!r} now; it has: {known}")
        return _asked(activation, name)


def _asked(activation: Activation, name: str) -> Any:
    answer = contained_call(activation.ask, name)
    if inspect.iscoroutine(answer):
        answer.close()
        raise InvalidInput(f"query {name!r} waits for something: write it as a plain def that only looks")
    return answer


def last_answers(activation: Activation) -> dict[str, Raw]:
    """What the queries of a body that has ended answer, in JSON, but for one that fails or has too much to say."""
    answers: dict[str, Raw] = {}
    room = MOST_ANSWERS_BYTES
    for name in activation.queries:
        try:
            data = jsontext.encode(_asked(activation, name))
        except (Exception, asyncio.CancelledError, ControlFlow, SystemExit):  # noqa: BLE001, S112 - the user's code
            continue
        if len(data) <= room:
            room -= len(data)
            answers[name] = Raw(data)
    return answers


def _plain(recorded: Raw) -> Any:
    return msgspec.json.decode(recorded)
