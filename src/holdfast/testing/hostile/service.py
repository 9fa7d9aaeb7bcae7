"""What happens to a request: faults of the way, faults of the service, and the answer to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.testing.hostile import batches, reads, single_writes
from holdfast.testing.hostile.answers import Answer, failed, refused
from holdfast.testing.hostile.dice import Dice
from holdfast.testing.hostile.report import Fault, Report
from holdfast.testing.hostile.rules import Rules
from holdfast.testing.hostile.state import Request, State
from holdfast.testing.hostile.transactions import Transactions
from holdfast.testing.hostile.upstream import TARGET, Upstream

CHANGES_OF_TABLES: Final = frozenset({"CreateTable", "DeleteTable", "UpdateTable"})


class Cut(Struct, frozen=True):
    """The connection is cut, after this much of an answer."""

    sent: bytes = b""


class Service:
    """Answers requests as the service does, by the rules, from what the emulator says.

    Requests that are not about items, such as those that make tables or read streams, are passed on as they are.
    """

    def __init__(self, upstream: Upstream, rules: Rules, seed: int, report: Report) -> None:
        self._upstream = upstream
        self._seed = seed
        self._state = state = State(upstream, rules, report)
        self._count = 0
        transactions = Transactions(state)
        self._operations: dict[str, Callable[[Request], Awaitable[Answer]]] = {
            "GetItem": lambda request: reads.get(request, state),
            "Query": lambda request: reads.page(request, state),
            "Scan": lambda request: reads.page(request, state),
            "PutItem": lambda request: single_writes.write(request, state),
            "UpdateItem": lambda request: single_writes.write(request, state),
            "DeleteItem": lambda request: single_writes.write(request, state),
            "BatchGetItem": lambda request: batches.get(request, state),
            "BatchWriteItem": lambda request: batches.write(request, state),
            "TransactWriteItems": transactions.write,
            "TransactGetItems": transactions.read,
        }

    async def answer(self, target: str, body: bytes, authorization: bytes) -> Answer | Cut:
        """The answer to a request, or the end of its connection."""
        name = target.rpartition(".")[2]
        perform = self._operations.get(name) if target.startswith(TARGET) else None
        self._state.report.requests[name] += 1
        try:
            if perform is None:
                return await self._passed_on(name, target, body, authorization)
            self._count += 1
            parameters: dict[str, Any] = msgspec.json.decode(body)
            return await self._suffering(perform, Request(name, parameters, Dice(self._seed, self._count)))
        except LookupError as error:
            return refused("ResourceNotFoundException", str(error))
        except (OSError, TimeoutError) as error:
            return refused("InternalServerError", f"the emulator does not answer: {error}", status=500)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            return refused("SerializationException", str(error))

    async def _passed_on(self, name: str, target: str, body: bytes, authorization: bytes) -> Answer:
        reply = await self._upstream.send(target, body, authorization)
        if name in CHANGES_OF_TABLES:
            self._state.tables.forget(msgspec.json.decode(body).get("TableName", ""))
        return Answer(reply.status, reply.body)

    async def _suffering(self, perform: Callable[[Request], Awaitable[Answer]], request: Request) -> Answer | Cut:
        state, rules, dice = self._state, self._state.rules, request.dice
        cuts, failures = rules.cuts, rules.failures
        slow = rules.slowness
        seconds = 0.0
        if slow is not None and dice.happens("slow", slow.share):
            seconds = slow.longest_seconds * dice.draw("how slow")
        is_late_before = dice.draw("slow when") < 0.5
        if seconds and is_late_before:
            state.suffered(Fault.SLOW_BEFORE)
            await asyncio.sleep(seconds)
        if cuts is not None and dice.happens("cut before", cuts.before):
            state.suffered(Fault.CUT_BEFORE)
            return Cut()
        if failures is not None and dice.happens("failed before", failures.before):
            state.suffered(Fault.FAILED_BEFORE)
            return failed(500 if dice.draw("which failure") < 0.5 else 503)
        if rules.throttling is not None and dice.happens("throttled", rules.throttling.share):
            state.suffered(Fault.THROTTLED)
            return refused("ThrottlingException", "Rate exceeded")
        answer = await perform(request)
        if seconds and not is_late_before:
            state.suffered(Fault.SLOW_AFTER)
            await asyncio.sleep(seconds)
        return self._spoiled(answer, dice) if answer.status == 200 else answer

    def _spoiled(self, answer: Answer, dice: Dice) -> Answer | Cut:
        """A success, or what is left of it on its way back."""
        state, cuts, failures = self._state, self._state.rules.cuts, self._state.rules.failures
        if failures is not None and dice.happens("failed after", failures.after):
            state.suffered(Fault.FAILED_AFTER)
            return failed(500 if dice.draw("which failure") < 0.5 else 503)
        if cuts is not None and dice.happens("cut after", cuts.after):
            state.suffered(Fault.CUT_AFTER)
            return Cut()
        if cuts is not None and dice.happens("cut within", cuts.within):
            state.suffered(Fault.CUT_WITHIN)
            whole = answer.as_bytes()
            return Cut(whole[: len(whole) - 1 - len(answer.body) // 2])
        return answer
