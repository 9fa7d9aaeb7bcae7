"""A process's loan of one key of a limit, and the writes by which it gets one, extends it and gives it back."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.errors import Refused, StoreError
from holdfast.flow.lending import (
    EMPTY,
    OVER,
    Ask,
    Book,
    Lent,
    Loan,
    Numbers,
    Token,
    decide,
    decode_book,
    encode_book,
    grace_us,
)
from holdfast.items import ABSENT, Item, Put, RevisionIs
from holdfast.kernel.wake import notify

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

MOST_TRIES: Final = 20
"""So often a decision is made again at once, because another process was faster."""

MARGIN_PART: Final = 3
"""A loan of another process is over when it was seen without a renewal for its length and this part (1/n) of it."""

FAR_MS: Final = 60_000
"""Or when it should have ended this long ago, by our clock."""

KEEP_MS: Final = 600_000
"""The item of a key is forgotten when nothing has been lent for this long."""

RENEW_PART: Final = 3
"""A loan is renewed after this part (1/n) of its length."""

SOONEST_SECONDS: Final = 0.001
"""The clock cannot tell shorter times apart."""

MOST_RUNG: Final = 1_000
"""A process that stops wakes others for this number of executions. The rest are due within a minute."""

GIVE_BACK_SECONDS: Final = 2.0
"""So long a process that stops tries to give its loan back. Else it ends by itself."""


Told = tuple[int, tuple[str, ...]]
NOTHING_TOLD: Final[Told] = 0, ()


class Need(Struct, frozen=True, kw_only=True):
    """What the calls of this process need; see ``Ask``."""

    busy: int
    waiting: int
    tokens: int
    weights: tuple[int, ...]
    leaves: bool
    parked: tuple[str, ...] = ()


class Source(Struct, frozen=True, eq=False):
    """One key of a limit in the store. ``numbers`` reads those that hold."""

    partition: str
    sort: str
    runtime: Runtime
    declared: Numbers
    numbers: Callable[[], Coroutine[Any, Any, Numbers]]

    @property
    def length_ms(self) -> int:
        """How long a loan is."""
        limits = self.runtime.limits if self.runtime.host is None else self.runtime.host.limits
        return limits.lease_ms

    @property
    def hint(self) -> str:
        """The name under which processes tell each other of changes."""
        return f"{self.partition}#{self.sort}"

    def listen(self, heard: Callable[[], object]) -> None:
        """Call ``heard`` at each hint."""
        self.runtime.wake_listeners.add(self.hint, heard)

    def deaf(self, heard: Callable[[], object]) -> None:
        """Do not call it any more."""
        self.runtime.wake_listeners.remove(self.hint, heard)

    def ring(self) -> None:
        """Have the others look, where that costs nothing."""
        notify(self.hint, self.runtime.home)

    def check(self, partitions: Iterable[str]) -> None:
        """Have these executions go on, here if this process works on them."""
        host = self.runtime.host
        for partition in partitions:
            if host is None or not host.check(partition):
                self.runtime.home.doorbell.ring(partition)

    def leave_to_others(self, partitions: Sequence[str]) -> None:
        """Have other processes go on with these executions, where that costs nothing."""
        if self.runtime.home.invoker is None:
            for partition in partitions[:MOST_RUNG]:
                self.runtime.home.doorbell.ring(partition)


class Moment(Struct, frozen=True, gc=False):
    """A token as this process keeps it: to be used from ``opens`` to ``closes`` in the loop's time, and not after
    ``until`` by the clock (microseconds).
    """

    weight: int
    opens: float
    closes: float
    until: int


class _Sent(Struct, frozen=True):
    """A write without an answer: it would leave this number of permits, and is only applied to this revision."""

    revision: int
    permits: int


class _Seen(Struct, frozen=True):
    """The loan of another process as it was when we saw it first, in the loop's time."""

    serial: int
    at: float


class Borrowing:
    """What is lent to this process, as far as it knows. ``number`` counts its loans: one that has lapsed, and is
    extended then, is another one.
    """

    __slots__ = (
        "_ends",
        "_lead_us",
        "_seen",
        "_sent",
        "_serial",
        "_source",
        "_tokens",
        "_until",
        "asked_at",
        "number",
        "numbers",
        "permits",
        "target",
        "tokens_at",
        "told",
    )

    def __init__(self, source: Source) -> None:
        self._source = source
        self.numbers = source.declared
        self.permits = self.target = self.number = 0
        self.asked_at = self._ends = -math.inf
        self._until: int = 0
        self._serial: int = 0
        self.tokens_at: int | None = None
        self.told = NOTHING_TOLD
        """How many calls wait here, and of which executions, as the item says."""
        self._lead_us = 0
        self._tokens: tuple[Moment, ...] = ()
        self._sent: list[_Sent] = []
        self._seen: dict[str, _Seen] = {}

    # ── What holds ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_valid(self) -> bool:
        """Whether calls may begin by it, as far as time goes."""
        if self.numbers.permits is None:
            return True
        # Two clocks: one that was set back, or stood still while the machine slept, shows in the other.
        source = self._source
        return asyncio.get_running_loop().time() < self._ends and source.runtime.clock.now_ms() < self._until

    @property
    def usable(self) -> float:
        """How many permits may be in use. Of several loans that may be in the store, the smallest one holds; and none
        is used again that this process only has because it was in use.
        """
        if self.numbers.permits is None:
            return math.inf
        return min([self.permits, self.target, *(each.permits for each in self._sent)])

    @property
    def has_all(self) -> bool:
        """Whether there are permits, and no more than this process has: then it looks when it extends its loan."""
        return self.numbers.permits is not None and 0 < self.numbers.permits <= self.permits

    @property
    def renew_at(self) -> float:
        """When it is to be extended, in the loop's time."""
        return self.asked_at + self._source.length_ms / 1000 / RENEW_PART

    def take_tokens(self) -> tuple[Moment, ...]:
        """The tokens of the last renewal."""
        tokens, self._tokens = self._tokens, ()
        return tokens

    # ── How it changes ──────────────────────────────────────────────────────────────────────────────────────────────

    async def renew(self, need: Callable[[], Need]) -> bool:
        """Look, and take, extend or give back as ``need`` says at the moment of the decision: at most one write, unless
        others are faster. False if they always were. Raises ``StoreError``; then the outcome is not known.
        """
        source, store = self._source, self._source.runtime.home.store
        self.numbers = await source.numbers()
        item = await store.get(source.partition, source.sort)
        for _ in range(MOST_TRIES):
            book = self._reconciled(item)
            now = source.runtime.clock.now_ms()
            gone = self._gone(book, now)
            left = [each for owner in sorted(gone) for each in book.loans[owner].parked]
            lent = self._decided(book, item, need(), now, gone)
            if not left and not self._is_news(book, lent):
                self._note(lent)
                return True
            if (refused := await self._written(book, lent, item, now)) is None:
                source.check(left)  # they are due within a minute, if this process dies here
                return True
            item = refused.item
        return False

    async def give_back(self, need: Callable[[], Need]) -> None:
        """Give everything back that is not in use, unless the store does not answer."""
        try:
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                await self.renew(need)
        except (StoreError, TimeoutError):
            return  # it ends by itself

    def _decided(self, book: Book, item: Item | None, need: Need, now: int, gone: Collection[str]) -> Lent:
        ask = Ask(
            owner=self._source.runtime.home.owner,
            busy=need.busy,
            waiting=need.waiting,
            tokens=need.tokens,
            weights=need.weights,
            lead_us=self._lead_us,
            leaves=need.leaves,
            parked=need.parked,
        )
        serial = now if item is None else item.revision + 1
        return decide(book, ask, self.numbers, now=now, gone=gone, length_ms=self._source.length_ms, serial=serial)

    async def _written(self, book: Book, lent: Lent, item: Item | None, now: int) -> Refused | None:
        """Write a decision; ``None`` if it is written, and what has refused it if another process was faster."""
        source, owner = self._source, self._source.runtime.home.owner
        revision = now if item is None else item.revision + 1
        until = max((loan.until for loan in lent.book.loans.values()), default=now)
        new = Item(
            source.partition,
            source.sort,
            revision=revision,
            expires_at=max(until, lent.book.arrival // 1000) + KEEP_MS,
            body=encode_book(lent.book),
        )
        asked_at = asyncio.get_running_loop().time()
        sent = _Sent(0 if item is None else item.revision, lent.permits)
        self._sent.append(sent)
        try:
            await source.runtime.home.store.write(Put(new, ABSENT if item is None else RevisionIs(item.revision)))
        except Refused as refused:
            self._sent.remove(sent)
            return refused
        self._sent.clear()
        before = book.loans.get(owner)
        self._adopt(lent, asked_at, now, revision)
        self.told = _told_by(lent.book.loans.get(owner))
        if self._others_profit(before, lent.book.loans.get(owner), lent):
            source.ring()
        return None

    def _adopt(self, lent: Lent, asked_at: float, now: int, serial: int) -> None:
        if not self.is_valid:
            self.number += 1
        length_ms = self._source.length_ms
        self.permits, self._serial, self.asked_at = lent.permits, serial, asked_at
        self._ends, self._until = asked_at + length_ms / 1000, now + length_ms
        self._note(lent)
        self._tokens = tuple(_moment(token, asked_at, now * 1000) for token in lent.tokens)
        rate, took_us = self.numbers.rate, int((asyncio.get_running_loop().time() - asked_at) * 1_000_000)
        # A token that may be used now may be too late when it comes.
        self._lead_us = 0 if rate is None or took_us < grace_us(rate) // 2 else 2 * took_us

    def _note(self, lent: Lent) -> None:
        self.target, self.tokens_at = lent.target, lent.tokens_at

    def _reconciled(self, item: Item | None) -> Book:
        """The book, with what it says of us noted: a write without an answer may have been applied."""
        book = EMPTY if item is None else decode_book(item.body)
        revision = 0 if item is None else item.revision
        self._sent = [each for each in self._sent if each.revision >= revision]
        mine = book.loans.get(self._source.runtime.home.owner)
        self.told = _told_by(mine)
        if mine is None and self.permits:
            self.permits, self._ends = 0, -math.inf
        elif mine is not None and mine.serial != self._serial:
            self.permits, self._serial = mine.permits, mine.serial
        return book

    def _is_news(self, book: Book, lent: Lent) -> bool:
        """Whether a decision is to be written: whether others, or this process, depend on what has changed."""
        owner = self._source.runtime.home.owner
        before, after = book.loans.get(owner), lent.book.loans.get(owner)
        if lent.tokens or before is None or after is None:
            return bool(lent.tokens) or before is not after
        if before.permits != after.permits or before.is_short != after.is_short:
            return True
        is_lent = after.permits > 0 or (after.is_short and bool(self.numbers.permits))
        tells = bool(after.parked) or _told_by(before) != _told_by(after)
        return (is_lent or tells) and (not self.is_valid or asyncio.get_running_loop().time() >= self.renew_at)

    def _others_profit(self, before: Loan | None, after: Loan | None, lent: Lent) -> bool:
        """Whether other processes have something to do about a change: something is free, or one of us is short."""
        if self.numbers.permits is None:
            return False
        had, has = 0 if before is None else before.permits, 0 if after is None else after.permits
        if has < had and lent.others_wait:
            return True
        return after is not None and after.is_short and (before is None or not before.is_short)

    def _gone(self, book: Book, now: int) -> frozenset[str]:
        """The owners of loans that are over."""
        time, alive = asyncio.get_running_loop().time(), self._source.runtime.home.doorbell.alive
        seen: dict[str, _Seen] = {}
        gone: set[str] = set()
        for owner, loan in book.loans.items():
            first = self._seen.get(owner)
            first = first if first is not None and first.serial == loan.serial else _Seen(loan.serial, time)
            seen[owner] = first
            silent_ms = (time - first.at) * 1000
            is_silent = silent_ms > loan.length_ms + loan.length_ms // MARGIN_PART
            if is_silent or loan.until == OVER or now > loan.until + FAR_MS or not alive(owner):
                gone.add(owner)
        self._seen = seen
        return frozenset(gone)


def _told_by(loan: Loan | None) -> Told:
    return NOTHING_TOLD if loan is None else (loan.waiting, loan.parked)


def _moment(token: Token, time: float, now_us: int) -> Moment:
    """A token that was decided about at a time of the loop, when the clock said ``now_us``. Its milliseconds are
    rounded down: a token rather closes too early.
    """
    opens, closes = (time + (at_us - now_us) / 1_000_000 for at_us in (token.opens, token.closes))
    return Moment(token.weight, opens, closes - SOONEST_SECONDS, token.closes)
