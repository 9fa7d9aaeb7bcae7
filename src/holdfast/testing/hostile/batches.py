"""``BatchGetItem`` and ``BatchWriteItem``: some of a batch may be left unprocessed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from holdfast.testing.hostile.answers import Answer, succeeded
from holdfast.testing.hostile.capacity import Load
from holdfast.testing.hostile.holds import Held
from holdfast.testing.hostile.page_reads import note
from holdfast.testing.hostile.reads import count_torn, hidden
from holdfast.testing.hostile.report import Fault
from holdfast.testing.hostile.single_writes import answer_of, fault_of, item_at, note_late
from holdfast.testing.hostile.state import Request, State
from holdfast.testing.hostile.tables import Item, Place
from holdfast.testing.hostile.writes import Action, action_of


class Wanted(Struct, frozen=True):
    """One item of a batch: as the request names it, and where it is."""

    table: str
    named: dict[str, Any]
    place: Place


async def get(request: Request, state: State) -> Answer:
    """The answer to a ``BatchGetItem``."""
    asked: dict[str, dict[str, Any]] = request.parameters["RequestItems"]
    wanted = [
        Wanted(name, key, (await state.tables.get(name)).place(key))
        for name, each in asked.items()
        for key in each["Keys"]
    ]
    left = _left(wanted, request, state)
    if state.metering is not None:
        slow = {i for i, each in enumerate(wanted) if state.metering.read_fault(_load(each), state.now())}
        if len(slow) == len(wanted):
            state.suffered(Fault.KEY_THROTTLED)
            return state.metering.refusal(Fault.KEY_THROTTLED, "Read", wanted[0].table)
        left |= slow
    if left and len(left) < len(wanted):
        state.suffered(Fault.UNPROCESSED)
    else:
        left = set[int]()
    now = _by_table([each for i, each in enumerate(wanted) if i not in left])
    rest = _by_table([each for i, each in enumerate(wanted) if i in left])
    reply = await state.apply(request, RequestItems={name: asked[name] | {"Keys": keys} for name, keys in now.items()})
    content = reply.content()
    if reply.status != 200:
        return answer_of(reply, content, request)
    unprocessed = content.get("UnprocessedKeys", {}) | {
        name: asked[name] | {"Keys": keys} for name, keys in rest.items()
    }
    if state.metering is not None:
        units = {each["TableName"]: each.get("CapacityUnits", 0.0) for each in content.get("ConsumedCapacity", ())}
        loads = [
            Load(each.table, "", each.place[1], units.get(each.table, 0.0) / len(now[each.table]))
            for i, each in enumerate(wanted)
            if i not in left
        ]
        state.metering.read(loads, state.now())
    processed = [each for i, each in enumerate(wanted) if i not in left]
    found = await _as_seen(content.get("Responses", {}), asked, processed, state)
    return answer_of(reply, content | {"Responses": found, "UnprocessedKeys": unprocessed}, request)


def _left(wanted: Sequence[Any], request: Request, state: State) -> set[int]:
    """Which of them are left for the next request; never all."""
    rule = state.rules.unprocessed
    if rule is None or len(wanted) < 2 or not request.dice.happens("unprocessed", rule.share):
        return set()
    spared = request.dice.below("spared", len(wanted))
    return {i for i in range(len(wanted)) if i != spared and request.dice.happens(f"left {i}", 0.5)}


def _by_table(wanted: Sequence[Wanted]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for each in wanted:
        found.setdefault(each.table, []).append(each.named)
    return found


def _load(wanted: Wanted) -> Load:
    return Load(wanted.table, "", wanted.place[1])


async def _as_seen(
    responses: Mapping[str, list[Item]], asked: Mapping[str, Any], wanted: Sequence[Wanted], state: State
) -> dict[str, list[Item]]:
    """The found items, with those of transactions under way as they were."""
    seen: dict[str, list[Item]] = {}
    for name, items in responses.items():
        past = hidden(name, state)
        if not past or "ProjectionExpression" in asked[name]:
            seen[name] = items
            continue
        table = await state.tables.get(name)
        there = {table.place(item): item for item in items}
        shown: dict[Place, Item | None] = {
            each.place: past[each.place] if each.place in past else there.get(each.place)
            for each in wanted
            if each.table == name
        }
        count_torn(frozenset(there), frozenset(shown) & past.keys(), state)
        seen[name] = [item for item in shown.values() if item is not None]
    return seen


async def write(request: Request, state: State) -> Answer:
    """The answer to a ``BatchWriteItem``: each of its writes stands for itself."""
    asked: dict[str, list[dict[str, Any]]] = request.parameters["RequestItems"]
    actions: list[tuple[Action, dict[str, Any]]] = []
    for name, each in asked.items():
        for entry in each:
            ((kind, parameters),) = entry.items()
            action = await action_of(kind.removesuffix("Request"), parameters | {"TableName": name}, state.tables)
            actions.append((action, entry))
    left = _left(actions, request, state)
    while (held := _in_the_way(actions, state)) is not None:
        await held.done.wait()
    faults = {i: fault for i, (action, _) in enumerate(actions) if (fault := fault_of(action, state)) is not None}
    for fault in faults.values():
        state.suffered(fault)
    if left:
        state.suffered(Fault.UNPROCESSED)
    left |= faults.keys()
    if state.metering is not None and len(left) == len(actions) and Fault.WRITE_CONFLICTED not in faults.values():
        return state.metering.refusal(Fault.KEY_THROTTLED, "Write", actions[0][0].table.name)
    return await _applied(request, actions, left, state)


def _in_the_way(actions: Sequence[tuple[Action, dict[str, Any]]], state: State) -> Held | None:
    """A transaction that is to be waited for, and is no longer a reason to refuse."""
    now = state.now()
    return state.holds.holder(action.place for action, _ in actions if not state.holds.conflicts(action.place, now))


async def _applied(
    request: Request, actions: Sequence[tuple[Action, dict[str, Any]]], left: set[int], state: State
) -> Answer:
    applied = [action for i, (action, _) in enumerate(actions) if i not in left]
    now: dict[str, list[dict[str, Any]]] = {}
    rest: dict[str, list[dict[str, Any]]] = {}
    for i, (action, entry) in enumerate(actions):
        (rest if i in left else now).setdefault(action.table.name, []).append(entry)
    if not applied:
        return succeeded({"UnprocessedItems": rest})
    with contextlib.ExitStack() as writing:
        for action in applied:
            writing.enter_context(state.holds.writing(action.place))
        pages = [state.page_reads.of(action.place) for action in applied]
        before = await asyncio.gather(*(item_at(action, state) for action in applied))
        reply = await state.apply(request, RequestItems=now)
    content = reply.content()
    if reply.status == 200:
        for action, was, read in zip(applied, before, pages, strict=True):
            note(read, action.place, was)
            note_late(action, was, request, state)
            if state.metering is not None:
                state.metering.wrote(action, was, None, state.now())
        content["UnprocessedItems"] = content.get("UnprocessedItems", {}) | rest
    return answer_of(reply, content, request)
