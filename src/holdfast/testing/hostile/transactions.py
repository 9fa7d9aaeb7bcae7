"""``TransactWriteItems`` and ``TransactGetItems``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from holdfast.testing.hostile.answers import CONFLICTED, Answer, cancelled, refused
from holdfast.testing.hostile.capacity import Load
from holdfast.testing.hostile.holds import Held
from holdfast.testing.hostile.page_reads import note
from holdfast.testing.hostile.report import Fault
from holdfast.testing.hostile.single_writes import answer_of, item_at, note_late
from holdfast.testing.hostile.state import Request, State
from holdfast.testing.hostile.writes import Action, transaction_of

NONE: Final = "None"


class Transactions:
    """Transactions of one proxy; it knows the tokens of those that were applied, and of those under way."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._applied: set[str] = set()
        self._under_way: set[str] = set()

    async def write(self, request: Request) -> Answer:
        """The answer to a transaction that writes."""
        token = request.parameters.get("ClientRequestToken", "")
        if token in self._under_way:
            return refused("TransactionInProgressException", "The transaction is already in progress")
        if token in self._applied:  # the emulator answers what it answered, and writes nothing
            return await self._plain(request)
        if token:
            self._under_way.add(token)
        try:
            answer = await self._alone(request)
        finally:
            self._under_way.discard(token)
        if token and answer.status == 200:
            self._applied.add(token)
        return answer

    async def _alone(self, request: Request) -> Answer:
        state, rule = self._state, self._state.rules.transactions
        until = state.now() + (0.0 if rule is None else rule.held_seconds)
        actions = await transaction_of(request.parameters, state.tables)
        places = [action.place for action in actions]
        while (refusal := self._refusal(actions)) is None:
            if (held := state.holds.holder(places)) is None:
                with state.holds.held(places, until) as mine:
                    return await self._held(request, actions, mine)
            await held.done.wait()
        return refusal

    def _refusal(self, actions: Sequence[Action]) -> Answer | None:
        state = self._state
        if state.rules.transactions is not None:
            now = state.now()
            codes = [CONFLICTED if state.holds.conflicts(action.place, now) else NONE for action in actions]
            if CONFLICTED in codes:
                state.suffered(Fault.TRANSACTION_CANCELLED)
                return cancelled(codes)
        if state.metering is not None:
            faults = [state.metering.write_fault(action, state.now()) for action in actions]
            if met := next(filter(None, faults), None):
                state.suffered(met)
                reason = state.metering.reason_in_transactions
                return cancelled([NONE if fault is None else reason for fault in faults])
        return None

    async def _held(self, request: Request, actions: Sequence[Action], held: Held) -> Answer:
        state, rules = self._state, self._state.rules
        await state.holds.until_written(held.places)
        torn = rules.torn_pages is not None and request.dice.happens("torn", rules.torn_pages.share)
        pages = {action.place: state.page_reads.of(action.place) for action in actions}
        if torn or any(pages.values()) or state.late is not None or state.metering is not None:
            found = await asyncio.gather(*(item_at(action, state) for action in actions))
            held.before = {action.place: item for action, item in zip(actions, found, strict=True)}
        if torn:
            held.hidden = {action.place for action in actions if action.kind != "ConditionCheck"}
        reply = await state.apply(request)
        if state.metering is not None:
            state.metering.wrote_together(actions, held.before, state.now())
        if reply.status == 200:
            for action in actions:
                note(pages[action.place], action.place, held.before.get(action.place))
                note_late(action, held.before.get(action.place), request, state)
            await self._reveal(request, held)
        return answer_of(reply, reply.content(), request)

    async def _reveal(self, request: Request, held: Held) -> None:
        """Show one item after another, in a drawn order, and end no sooner than others would no longer be refused."""
        rule, began = self._state.rules.transactions, self._state.now()
        seconds = 0.0 if rule is None else rule.held_seconds
        times = {place: seconds * request.dice.draw(f"shown {place}") for place in held.hidden}
        for place, after in sorted(times.items(), key=lambda each: each[1]):
            await self._until(began + after)
            held.hidden.discard(place)
        await self._until(held.until)

    async def _until(self, when: float) -> None:
        if (rest := when - self._state.now()) > 0:
            await asyncio.sleep(rest)

    async def _plain(self, request: Request) -> Answer:
        reply = await self._state.apply(request)
        return answer_of(reply, reply.content(), request)

    async def read(self, request: Request) -> Answer:
        """The answer to a transaction that reads: a write of any of its items cancels it."""
        state = self._state
        gets: list[dict[str, Any]] = [each["Get"] for each in request.parameters["TransactItems"]]
        places = [(await state.tables.get(each["TableName"])).place(each["Key"]) for each in gets]
        if state.rules.transactions is not None:
            now, holds = state.now(), state.holds
            codes = [CONFLICTED if holds.conflicts(each, now) or holds.is_written(each) else NONE for each in places]
            if CONFLICTED in codes:
                state.suffered(Fault.READ_CONFLICTED)
                return cancelled(codes)
        while (held := state.holds.holder(places)) is not None:
            await held.done.wait()
        reply = await state.apply(request)
        content = reply.content()
        if state.metering is not None and reply.status == 200:
            units = sum(each.get("CapacityUnits", 0.0) for each in content.get("ConsumedCapacity", ()))
            loads = [Load(table, "", key, units / len(places)) for table, key, _ in places]
            state.metering.read(loads, state.now())
        return answer_of(reply, content, request)
