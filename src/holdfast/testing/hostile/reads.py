"""``GetItem``, ``Query`` and ``Scan``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from holdfast.testing.hostile.answers import Answer
from holdfast.testing.hostile.capacity import Load
from holdfast.testing.hostile.key_conditions import conditions_of
from holdfast.testing.hostile.page_reads import PageRead
from holdfast.testing.hostile.pages import PastPage
from holdfast.testing.hostile.report import Fault
from holdfast.testing.hostile.single_writes import answer_of
from holdfast.testing.hostile.state import Request, State
from holdfast.testing.hostile.tables import Item, Place, Table, text_of
from holdfast.testing.hostile.upstream import Reply

LONGEST_PAGE: Final = 1_000
"""A page that is cut short has fewer items than this."""

SKEW: Final = 4
"""Most pages that are cut short are very short: a draw to the power of this, of what was asked for."""


async def get(request: Request, state: State) -> Answer:
    """The answer to a ``GetItem``: an item of a transaction under way is seen before or after it."""
    table = await state.tables.get(request.parameters["TableName"])
    place = table.place(request.parameters["Key"])
    load = Load(table.name, "", place[1])
    if (refusal := refusal_of(load, state)) is not None:
        return refusal
    reply = await state.apply(request)
    content = reply.content()
    if reply.status == 200:
        take(load, content.get("ConsumedCapacity"), state)
        past = hidden(table.name, state)
        if place in past and "ProjectionExpression" not in request.parameters:
            content = _instead(content, past[place])
    return answer_of(reply, content, request)


def _instead(content: dict[str, Any], before: Item | None) -> dict[str, Any]:
    rest = {name: value for name, value in content.items() if name != "Item"}
    return rest if before is None else rest | {"Item": before}


async def page(request: Request, state: State) -> Answer:
    """The answer to a ``Query`` or a ``Scan``."""
    parameters = request.parameters
    table = await state.tables.get(parameters["TableName"])
    index: str | None = parameters.get("IndexName")
    partition = _partition(parameters, table, index)
    load = Load(table.name, index or "", partition or "")
    if (refusal := refusal_of(load, state)) is not None:
        return refusal
    limit = _limit(request, state)
    read = PageRead(table.name, partition)
    reply = await (state.apply(request, **limit) if index else _slowly(request, read, limit, state))
    content = reply.content()
    if reply.status != 200:
        return answer_of(reply, content, request)
    if limit and "LastEvaluatedKey" in content and content.get("ScannedCount", 0) < _most(parameters):
        state.suffered(Fault.PAGE_CUT_SHORT)
    take(load, content.get("ConsumedCapacity"), state)
    passed = read.passed(request.dice, backwards=not parameters.get("ScanIndexForward", True))
    shown = PastPage(parameters | limit, table).shown(content, passed | _past(table, index, state))
    if index is not None:
        state.suffered(Fault.INDEX_MISSED, len(shown.missing))
        state.suffered(Fault.INDEX_STALE, len(shown.old))
    elif past := shown.missing | shown.old:
        seen = frozenset(table.place(item) for item in shown.answer["Items"])
        count_torn(seen, past, state)
        is_torn = passed.keys() & past and (read.past.keys() - passed.keys()) & seen
        state.suffered(Fault.PASSED, int(bool(is_torn)))
    return answer_of(reply, shown.answer, request)


async def _slowly(request: Request, read: PageRead, limit: dict[str, int], state: State) -> Reply:
    """Read a page of a table, some pages slowly."""
    rule = state.rules.torn_pages
    if rule is None or not request.dice.happens("slow page", rule.pages):
        return await state.apply(request, **limit)
    with state.page_reads.reading(read):
        await asyncio.sleep(rule.page_seconds * request.dice.draw("page takes"))
        return await state.apply(request, **limit)


def _most(parameters: Mapping[str, Any]) -> int:
    limit: int = parameters.get("Limit", LONGEST_PAGE)
    return min(limit, LONGEST_PAGE)


def _limit(request: Request, state: State) -> dict[str, int]:
    """Where a page is to end early, if it is."""
    rule = state.rules.short_pages
    if rule is None or not request.dice.happens("short page", rule.share):
        return {}
    return {"Limit": 1 + int(request.dice.draw("page") ** SKEW * max(0, _most(request.parameters) - 1))}


def _past(table: Table, index: str | None, state: State) -> dict[Place, Item | None]:
    if index is None:
        return hidden(table.name, state)
    return {} if state.late is None else state.late.past(table.name, state.now())


def count_torn(seen: frozenset[Place], past: frozenset[Place], state: State) -> None:
    """Count the transactions of which a read has shown one item as it was, and another as it is."""
    new = seen - past
    torn = [held for held in state.holds.under_way() if held.places & past and (held.places - held.hidden) & new]
    state.suffered(Fault.TORN, len(torn))


def hidden(table: str, state: State) -> dict[Place, Item | None]:
    """Items of a table that still show what was there before a transaction."""
    return {place: held.before[place] for held in state.holds.under_way() for place in held.hidden if place[0] == table}


def refusal_of(load: Load, state: State) -> Answer | None:
    """The answer to a read that has to wait, if it has."""
    if state.metering is None or (fault := state.metering.read_fault(load, state.now())) is None:
        return None
    state.suffered(fault)
    return state.metering.refusal(fault, "Read", load.table)


def take(load: Load, consumed: Mapping[str, Any] | None, state: State) -> None:
    """Take what a read has cost."""
    if state.metering is not None and consumed is not None:
        units = consumed.get("CapacityUnits", 0.0)
        state.metering.read([Load(load.table, load.index, load.key, units)], state.now())


def _partition(parameters: Mapping[str, Any], table: Table, index: str | None) -> str | None:
    """The partition key that a ``Query`` names; a ``Scan`` reads all, and counts as a key of its own."""
    name = table.keys_of(index).partition if index is None or index in table.indexes else ""
    equal = [each for each in conditions_of(parameters) if each.attribute == name and each.operator == "="]
    return text_of(equal[0].first) if equal else None
