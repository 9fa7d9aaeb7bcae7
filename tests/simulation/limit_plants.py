"""Planted bugs of limits: each breaks one rule that a loan, a token or a permit depends on."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from msgspec.structs import replace
from tests.simulation.plants import each_write

from holdfast.flow import borrowing, lender, lending
from holdfast.flow.tokens import Tokens
from holdfast.items import EXISTS, Put, RevisionIs, Write
from holdfast.keys import LIMITS

Borrowing, Pool = borrowing.Borrowing, lender.Pool


def is_book(write: Write) -> bool:
    return isinstance(write, Put) and write.item.partition.startswith(LIMITS) and isinstance(write.when, RevisionIs)


def loan_without_its_revision() -> AbstractContextManager[object]:
    """A book is written whatever has come since it was read."""
    return each_write(lambda write: replace(write, when=EXISTS) if is_book(write) else write)


def loan_for_ever() -> AbstractContextManager[object]:
    """A process begins calls by a loan that others have taken for over."""
    return mock.patch.object(Borrowing, "is_valid", property(lambda self: self.number > 0))


def loan_over_at_first_sight() -> AbstractContextManager[object]:
    """The loans of others are over as soon as they end by our clock, whatever theirs says."""
    gone = Borrowing._gone

    def hasty(self: Any, book: Any, now: int) -> frozenset[str]:
        over = {owner for owner, loan in book.loans.items() if now > loan.until - loan.length_ms // 3}
        return gone(self, book, now) | over

    return mock.patch.object(Borrowing, "_gone", hasty)


def unanswered_write_forgotten() -> AbstractContextManager[object]:
    """While it is not known whether permits were given back, they are used."""
    return mock.patch.object(Borrowing, "usable", property(_as_last_known))


def _as_last_known(self: Any) -> float:
    return math.inf if self.numbers.permits is None else min(self.permits, self.target)


def permits_in_use_taken_away() -> AbstractContextManager[object]:
    """What a process has in use does not count for the others."""
    decide = lending.decide

    def blind(book: Any, ask: Any, *rest: Any, **named: Any) -> Any:
        return decide(book, replace(ask, busy=0), *rest, **named)

    return mock.patch.object(borrowing, "decide", blind)


def arrival_in_memory_only() -> AbstractContextManager[object]:
    """Each process has its own moment of the next token."""
    decide, arrivals = lending.decide, dict[str, tuple[int, int]]()

    def own(book: Any, ask: Any, *rest: Any, **named: Any) -> Any:
        arrival, at = arrivals.get(ask.owner, (0, 0))
        lent = decide(replace(book, arrival=arrival, at=at), ask, *rest, **named)
        arrivals[ask.owner] = lent.book.arrival, lent.book.at
        return lent

    return mock.patch.object(borrowing, "decide", own)


def begun_without_a_token() -> AbstractContextManager[object]:
    """A call that has a permit begins as soon as a token may be used, and leaves it there for others."""

    def any_of(self: Any, weight: int) -> Any:
        return next((token for token in self._there if self.is_open(token)), None)

    return mock.patch.object(Tokens, "take", any_of)


def late_token_used() -> AbstractContextManager[object]:
    """A token is used however late it is."""

    def never(self: Any, token: Any) -> bool:
        return False

    return mock.patch.object(Tokens, "is_late", never)


def tokens_without_a_slot() -> AbstractContextManager[object]:
    """Tokens are spent for calls that have no permit, and are too late when they get one."""
    tokens = lending.decide

    def spend(book: Any, ask: Any, numbers: Any, **named: Any) -> Any:
        lent = tokens(book, ask, numbers, **named)
        if lent.tokens or not ask.waiting or numbers.rate is None:
            return lent
        wasted = tokens(lent.book, replace(ask, weights=(1,), busy=-9), numbers, **named)
        return replace(lent, book=replace(lent.book, arrival=wasted.book.arrival + 10**12))

    return mock.patch.object(borrowing, "decide", spend)


def permit_not_given_back() -> AbstractContextManager[object]:
    """A call that is cancelled or fails keeps its permit."""
    begin: Callable[..., None] = Pool.begun

    def kept(self: Any, permit: Any) -> None:
        begin(self, permit)
        if self._begun > 1 and self._loan.permits > 1:
            permit.is_over = True

    return mock.patch.object(Pool, "begun", kept)


def limit_only_here() -> AbstractContextManager[object]:
    """Each process lends itself what the limit is."""
    stack = ExitStack()
    stack.enter_context(mock.patch.object(Borrowing, "is_valid", property(lambda self: True)))
    usable = property(lambda self: math.inf if self.numbers.permits is None else self.numbers.permits)
    stack.enter_context(mock.patch.object(Borrowing, "usable", usable))
    return stack
