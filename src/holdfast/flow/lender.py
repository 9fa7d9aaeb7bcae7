"""One process's part of a limit: what is lent to it, who of it has a permit, and who waits for one.

A call that finds a permit here costs no write. Otherwise a task of this process looks into the item, takes more if
there is more, and gives back what others need. It extends the loan as long as permits are in use, and ends when none
are.

=============================  ======================================================================================
what happens                   what follows
=============================  ======================================================================================
death before or at a write     its loan stands as the item says, and is over for others when it is not renewed
a lost answer                  until it is known which loan is in the item, the smaller one holds
a write that comes late        its revision refuses it
stopped for longer than its    nothing begins by the loan that it had: it is confirmed by a write first, in which what
loan                           others were lent meanwhile counts
a clock that jumps             a loan ends by two clocks here, the earlier one; for others when they have seen it for
                               its whole length without a renewal
its end, while calls of it     its loan tells of them (``parked``): the process that removes it from the item has them
wait that have left memory     go on. They are due within a minute, if that one dies before it does, or there is none
an environment that freezes    it has given back what it did not use; if that has failed, its loan is over as that of
                               a dead process, and begins nothing when it thaws
=============================  ======================================================================================
"""

from __future__ import annotations

import asyncio
import math
from bisect import insort
from collections.abc import Callable
from contextvars import Context
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from holdfast.backoff import Pauses
from holdfast.errors import StoreUnavailable
from holdfast.flow.borrowing import SOONEST_SECONDS, Borrowing, Need
from holdfast.flow.line import Waiting, parked_in
from holdfast.flow.permit import Permit
from holdfast.flow.telling import Telling
from holdfast.flow.tokens import Tokens

if TYPE_CHECKING:
    from holdfast.flow.borrowing import Moment, Source

POLL_SECONDS: Final = 1.0
"""So often a process looks that waits for permits of others, unless it hears of them earlier."""

FAILED_AGAIN_SECONDS: Final = 1.0
"""The pause after an error that is not one of the store's being away."""

PARKED_POLL_SECONDS: Final = 5.0
"""The same if nothing that waits is in memory."""

ROUSED_SECONDS: Final = 1.0
"""So long what is to be had is left to a call that was roused for it, before the next one is."""

MOST_AHEAD: Final = 32
"""How many more are roused than may begin, after some have not come, and until one comes."""


class Pool:
    """What this process has of one key of a limit."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._loan = Borrowing(source)
        self._telling = Telling(source, self._loan)
        self._waiting: list[Waiting[Permit]] = []
        self._begun = self._given = self._given_by = self._ahead = 0
        self.tokens = Tokens(source.runtime.clock)
        self.count = 0
        """How many calls have begun."""
        self._used = False
        self._heard = False
        self._left: list[str] = []
        self._changes = self._changes_seen = 0
        self._permits_at = self._tokens_at = self._not_before = -math.inf
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._pauses = Pauses()

    # ── For calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def take_now(self, ticket: int, weight: int) -> Permit | None:
        """A permit, if there is one and no other call comes first."""
        if self._waiting and self._waiting[0].ticket < ticket:
            return None
        return self._give(weight)

    async def take(self, ticket: int, weight: int) -> Permit:
        """The next permit. It may have become invalid until the caller goes on."""
        if (permit := self.take_now(ticket, weight)) is not None:
            return permit
        granted: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        waiting = Waiting(ticket, weight, granted)
        self._line_up(waiting)
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                granted.result().end()  # it was given in the same moment
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def park(self, ticket: int, weight: int, rouse: Callable[[], object], partition: str) -> None:
        """Keep the place of a call of this entity that leaves memory, and call ``rouse`` when there is a permit."""
        self._line_up(Waiting[Permit](ticket, weight, rouse=rouse, partition=partition))

    def came(self, ticket: int) -> None:
        """A call that left memory is there again, and needs no place."""
        if self._leave(ticket):
            self._ahead = 0
            self._changed.set()

    def leave(self, ticket: int) -> None:
        """Keep no place for a call that left memory."""
        if self._leave(ticket):
            self._changed.set()

    def _leave(self, ticket: int) -> bool:
        line = [each for each in self._waiting if each.ticket != ticket or each.granted is not None]
        self._waiting, was_here = line, len(line) < len(self._waiting)
        return was_here

    def _line_up(self, waiting: Waiting[Permit]) -> None:
        self._leave(waiting.ticket)
        insort(self._waiting, waiting, key=attrgetter("ticket"))
        self._go_on()

    def begun(self, permit: Permit) -> None:
        """See ``Permit.begin``."""
        self._begun += 1
        self.count += 1
        if permit.loan == self._given_by:
            self._given -= 1

    def ended(self, permit: Permit) -> None:
        """See ``Permit.end``."""
        if permit.is_begun:
            self._begun -= 1
        else:
            if permit.loan == self._given_by:
                self._given -= 1
            if permit.token is not None:
                self.tokens.put_back([permit.token])
        self._pump()
        if self._keeper is not None:
            self._changed.set()

    @property
    def loan(self) -> int:
        """The number of its loan."""
        return self._loan.number

    def lasts(self, loan: int) -> bool:
        """Whether calls may begin by the loan of this number."""
        return self._loan.number == loan and self._loan.is_valid

    def heard(self) -> None:
        """Another process has changed something."""
        if self._keeper is not None:
            self._heard = True
            self._changed.set()

    def reconsider(self) -> None:
        """The numbers have changed: nothing begins by the old ones."""
        self._changes += 1
        self.heard()

    # ── What is there ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten."""
        return self._keeper is None and not self._is_needed

    @property
    def running(self) -> int:
        """How many calls run."""
        return self._begun

    @property
    def waiting(self) -> int:
        """How many calls wait here."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """How many permits are in use. Those that were given by a loan that is over, and were not used, are not."""
        return self._begun + (self._given if self.lasts(self._given_by) else 0)

    @property
    def _is_needed(self) -> bool:
        return bool(self._waiting or self._begun or self._given or self._loan.permits or self._telling.is_owed)

    @property
    def _free(self) -> float:
        """How many more calls may begin, as far as permits go."""
        return self._loan.usable - self.busy if self._loan.is_valid and self._changes == self._changes_seen else 0

    def _give(self, weight: int) -> Permit | None:
        if self._free < 1:
            return None
        token = None
        if self._loan.numbers.rate is not None and (token := self.tokens.take(weight)) is None:
            return None
        if self._given_by != self._loan.number:
            self._given, self._given_by = 0, self._loan.number
        self._given += 1
        self._used = True
        return Permit(self, self._given_by, token)

    def _pump(self) -> None:
        """Give permits to those that wait, in their order. What is for those that are not in memory is left to them."""
        self.tokens.drop_late()
        left = 0
        tokens: list[Moment] = []
        for waiting in list(self._waiting):
            if self._free - left < 1:
                break
            if waiting.granted is None:
                left += 1
                if self._loan.numbers.rate is not None:
                    if (token := self.tokens.take_any(waiting.weight)) is None:
                        break
                    tokens.append(token)
            elif not waiting.granted.done():
                if (permit := self._give(waiting.weight)) is None:
                    break
                self._waiting.remove(waiting)
                waiting.granted.set_result(permit)
        self.tokens.put_back(tokens)

    def _rouse(self) -> None:
        """Rouse those that are not in memory, and would have a permit if they were."""
        now = asyncio.get_running_loop().time()
        line = [each for each in self._waiting if each.roused_at is None or now < each.roused_at + ROUSED_SECONDS]
        if len(line) < len(self._waiting):
            self._waiting, self._ahead = line, MOST_AHEAD
        for waiting in self._served(self._free + self._ahead) if self._free >= 1 else ():
            if waiting.rouse is not None and waiting.roused_at is None:
                waiting.roused_at = now
                waiting.rouse()

    # ── Its task ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _go_on(self) -> None:
        self._changed.set()
        if self._keeper is None:  # in an empty context: nothing of the caller reaches it
            self._permits_at = self._tokens_at = -math.inf
            self._keeper = asyncio.get_running_loop().create_task(self._keep(), context=Context())
            self._source.listen(self.heard)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._is_needed:
                self._changed.clear()
                if self._visit_at(loop.time()) <= loop.time():
                    await self._visit()
                self._rouse()
                self._pump()
                if self._is_needed:
                    await self._rest(min(self._visit_at(loop.time()), self._opens_at()) - loop.time())
        finally:
            self._keeper = None
            self._source.deaf(self.heard)

    async def _rest(self, seconds: float) -> None:
        if seconds > 0:
            try:
                async with asyncio.timeout(None if seconds == math.inf else seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _visit_at(self, now: float) -> float:
        """When the item is to be looked at next, in the loop's time."""
        loan, at = self._loan, math.inf
        if self._heard or self._owes():
            at = now
        elif self._waiting and self._free < 1:
            at = self._permits_at
        elif self._waiting and self._lacks_tokens():
            at = self._tokens_at
        if loan.numbers.permits is not None and (loan.permits or self._begun):
            at = min(at, loan.renew_at)
        return max(min(at, self._telling.look_at(self._waiting, self._left)), self._not_before)

    def _opens_at(self) -> float:
        """When the next token may be used, or a call that was roused is no longer waited for, in the loop's time."""
        opens = self.tokens.opening() if self._waiting else []
        roused = [each.roused_at + ROUSED_SECONDS for each in self._waiting if each.roused_at is not None]
        return min([*opens, *roused], default=math.inf)

    def _owes(self) -> bool:
        """Whether more is free here than this process may keep."""
        return self._loan.permits > max(self._loan.target, self.busy)

    def _lacks_tokens(self) -> bool:
        """Whether those that wait, and for whom there are permits, need tokens that are not here."""
        return self._loan.numbers.rate is not None and len(self._served(self._free)) < min(
            len(self._waiting), self._free
        )

    def _served(self, first: float) -> list[Waiting[Permit]]:
        """Those among the ``first`` that wait for whom there are tokens here, if they need any."""
        line = self._waiting[: int(max(0, min(first, len(self._waiting))))]
        if self._loan.numbers.rate is None:
            return line
        return self.tokens.served(line)

    async def _visit(self) -> None:
        loop, changes = asyncio.get_running_loop(), self._changes
        self._heard = False
        try:
            known = await self._loan.renew(self._need)
        except StoreUnavailable:
            known = False
        except Exception as error:  # noqa: BLE001 - those that wait are to hear of it, and the loan is still to be kept
            self._heard = True
            self._not_before = loop.time() + FAILED_AGAIN_SECONDS
            self._fail(error)
            return
        if not known:
            self._heard = True
            self._not_before = loop.time() + self._pauses.take()
            return
        self._pauses.begin_again()
        self.tokens.add(self._loan.take_tokens())
        self._used = False
        self._changes_seen = changes
        self._look_again(loop.time())

    def _fail(self, error: Exception) -> None:
        failed, self._waiting = self._waiting, []
        for waiting in failed:
            if waiting.granted is not None and not waiting.granted.done():
                waiting.granted.set_exception(error)

    def _need(self) -> Need:
        """What is needed at the moment of a decision."""
        busy, waiting = self.busy, len(self._waiting)
        served = {each.ticket for each in self._served(waiting)}
        weights = tuple(each.weight for each in self._waiting if each.ticket not in served)
        leaves, named = not (busy or waiting or self._used), self._telling.named(self._waiting, self._left)
        return Need(busy=busy, waiting=waiting, tokens=len(served), weights=weights, leaves=leaves, parked=named)

    def _look_again(self, now: float) -> None:
        """Note when to look again, in the loop's time, if those that wait lack permits, and if they lack tokens."""
        loan = self._loan
        all_parked = all(each.rouse is not None for each in self._waiting)
        self._permits_at = math.inf if loan.has_all else now + (PARKED_POLL_SECONDS if all_parked else POLL_SECONDS)
        # the tokens that are here may be too small for the first that waits: they go late soon
        self._tokens_at = now + SOONEST_SECONDS if self._lacks_tokens() else -math.inf
        if loan.tokens_at is not None:
            seconds = loan.tokens_at / 1_000_000 - self._source.runtime.clock.now_ms() / 1000
            self._tokens_at = now + max(SOONEST_SECONDS, seconds)

    async def give_back(self) -> None:
        """Give back what is not in use: nothing runs here for a while. Calls that are not in memory are due later."""
        if not self._is_needed:
            return
        await self._stop()
        self._waiting = [each for each in self._waiting if not each.partition]
        try:
            if self._loan.permits > self.busy:
                self._used = False
                await self._loan.give_back(self._need)
        finally:
            if self._is_needed:
                self._go_on()

    async def _stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def close(self) -> None:
        """Give back what is not in use, and leave to other processes the calls that are not in memory."""
        await self._stop()
        self._left, self._waiting = parked_in(self._waiting), [each for each in self._waiting if not each.partition]
        if self._loan.permits or self._left or self._telling.is_owed:
            self._used = False
            await self._loan.give_back(self._need)
        self._source.leave_to_others(self._left)
