"""``PutItem``, ``UpdateItem`` and ``DeleteItem``."""

from __future__ import annotations

from typing import Any

from holdfast.testing.hostile.answers import Answer, refused, succeeded
from holdfast.testing.hostile.metering import as_asked
from holdfast.testing.hostile.page_reads import note
from holdfast.testing.hostile.report import Fault
from holdfast.testing.hostile.state import Request, State
from holdfast.testing.hostile.tables import Item
from holdfast.testing.hostile.upstream import Reply
from holdfast.testing.hostile.writes import Action, action_of

ONGOING = "Transaction is ongoing for the item"


async def write(request: Request, state: State) -> Answer:
    """The answer to a single write."""
    action = await action_of(request.operation.removesuffix("Item"), request.parameters, state.tables)
    while (fault := fault_of(action, state)) is None:
        if (held := state.holds.holder([action.place])) is None:
            break
        await held.done.wait()
    if fault is Fault.WRITE_CONFLICTED:
        state.suffered(fault)
        return refused("TransactionConflictException", ONGOING)
    if fault is not None:
        assert state.metering is not None
        state.suffered(fault)
        return state.metering.refusal(fault, "Write", action.table.name)
    with state.holds.writing(action.place):
        return await _applied(request, action, state)


def fault_of(action: Action, state: State) -> Fault | None:
    """Why it is not applied, if it is not."""
    if state.rules.transactions is not None and state.holds.conflicts(action.place, state.now()):
        return Fault.WRITE_CONFLICTED
    return None if state.metering is None else state.metering.write_fault(action, state.now())


async def _applied(request: Request, action: Action, state: State) -> Answer:
    pages = state.page_reads.of(action.place)
    changes_index = any(action.changes_index(keys) for keys in action.table.indexes.values())
    seen = bool(pages) or (state.late is not None and changes_index)
    returned = request.parameters.get("ReturnValues", "NONE")
    before = await item_at(action, state) if seen and returned not in {"NONE", "ALL_OLD"} else None
    asks = {"ReturnValues": "ALL_OLD"} if seen and returned == "NONE" else {}
    reply = await state.apply(request, **asks)
    content = reply.content()
    if seen and returned in {"NONE", "ALL_OLD"}:
        before = content.pop("Attributes", None) if asks else content.get("Attributes")
    if state.metering is not None:
        state.metering.wrote(action, before or content.get("Item"), content.get("ConsumedCapacity"), state.now())
    if reply.status == 200 and seen:
        note(pages, action.place, before)
        note_late(action, before, request, state)
    return answer_of(reply, content, request)


def note_late(action: Action, before: Item | None, request: Request, state: State) -> None:
    """The indexes learn later of a write that was applied."""
    if state.late is None:
        return
    for keys in action.table.indexes.values():
        was_there = before is not None and keys.present(before)
        if action.changes_index(keys) and (was_there or action.index_partition(keys, before) is not None):
            state.late.note(action.place, before, request.dice, state.now())
            return


def answer_of(reply: Reply, content: dict[str, Any], request: Request) -> Answer:
    """A reply of the emulator, with what the request has asked for."""
    if reply.status != 200:
        return Answer(reply.status, reply.body)
    return succeeded(as_asked(content, request.parameters))


async def item_at(action: Action, state: State) -> Item | None:
    """The item that a write is about to change."""
    keys = action.table.keys
    source: Item = action.parameters["Item" if action.kind == "Put" else "Key"]
    key = {name: source[name] for name in (keys.partition, keys.sort) if name}
    answer = await state.upstream.call("GetItem", {"TableName": action.table.name, "Key": key, "ConsistentRead": True})
    return answer.get("Item")
