"""The book of a limit: what is lent to which process, and how it changes when one of them looks at it.

A limit, or a key of one, is one item. Permits are lent to processes until a time, and tokens of a rate are moments of
which each is given away once. A process reads the item, decides, and writes under the revision that it has read. So
all decisions about a limit come one after another, and the sum of what is lent never exceeds it.
Nothing here does any I/O.

A token is a moment ``T``. It may be used from ``burst - 1`` intervals before it on, and for a short grace after it.
What comes later than that would come close to others, so it is not used at all. The interval has room for the grace:
so in any time of ``per`` at most ``count + burst - 1`` begin, as with one process.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.codec.stored import stored
from holdfast.duration import milliseconds
from holdfast.flow.rates import Rate
from holdfast.flow.settings import StoredRate, stored_rate
from holdfast.flow.share import targets

HORIZON_US: Final = 1_000_000
"""Tokens are given away this long before they may be used, at most."""

LONGEST_GRACE_US: Final = 1_000_000
GRACE_PART: Final = 20
"""A token may be used for this part (1/n) of the rate's time after its moment, up to the longest."""

OVER: Final = 0
"""The end of a loan that was given back, and only tells what is left to others."""

TURN_MS: Final = 1_000
"""With fewer permits than processes that want one, each keeps its permit for this long before it is another's turn."""


class Numbers(Struct, frozen=True):
    """The numbers of a limit. ``None``: there is no such limit."""

    permits: int | None = None
    rate: Rate | None = None


class Loan(Struct, frozen=True, array_like=True, gc=False):
    """What one process has. It wants ``wants`` permits, those that it has included; ``waiting`` calls of it wait.

    It begins nothing after ``until`` (milliseconds), by its own clock; the loan is ``length_ms`` long. ``since`` is
    when its permits changed last, or it began to want more. ``serial`` is the revision of the item that it was
    written with: others see by it whether it was renewed. ``parked`` are executions of which calls wait and which are
    not in memory: a process that finds this one gone has them go on.
    """

    permits: int
    wants: int
    waiting: int
    until: int
    since: int
    serial: int
    length_ms: int
    parked: tuple[str, ...] = ()

    @property
    def is_short(self) -> bool:
        """Whether it wants more permits than it has."""
        return self.wants > self.permits


class Book(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is lent, by process. ``arrival`` is the moment of the next token (see ``rates``), as it was left at ``at``
    by the clock of the process that wrote it, with ``interval`` between two tokens; all in microseconds. ``permits``
    and ``rate`` are the numbers by which it was decided.
    """

    loans: dict[str, Loan] = {}
    arrival: int = 0
    at: int = 0
    interval: int = 0
    permits: int | None = None
    rate: StoredRate | None = None


EMPTY: Final = Book()

encode_book: Final = msgspec.json.Encoder().encode
decode_book: Final = stored(Book, "the book of a limit")


class Ask(Struct, frozen=True, kw_only=True):
    """What a process wants. ``busy`` permits are in use; ``waiting`` calls wait. It has ``tokens``, and wants more for
    calls of these ``weights``; they come to it after ``lead_us``. ``leaves``: it wants nothing more for now, and what
    is ``parked`` is left to others.
    """

    owner: str
    busy: int = 0
    waiting: int = 0
    tokens: int = 0
    weights: tuple[int, ...] = ()
    lead_us: int = 0
    leaves: bool = False
    parked: tuple[str, ...] = ()


class Token(Struct, frozen=True, gc=False):
    """The right to begin one call of ``weight`` at a time from ``opens`` to ``closes`` (microseconds)."""

    weight: int
    opens: int
    closes: int


class Lent(Struct, frozen=True):
    """A decision. ``book`` is as it is afterwards; ``permits`` are the process's own, ``target`` is what it may keep,
    apart from what it only has because it is in use.

    ``others_wait``: another process wants permits. ``tokens_at`` is when to ask for further tokens (microseconds), if
    there were too few.
    """

    book: Book
    permits: int
    target: int
    others_wait: bool
    tokens: tuple[Token, ...] = ()
    tokens_at: int | None = None


def decide(
    book: Book, ask: Ask, numbers: Numbers, *, now: int, gone: Collection[str], length_ms: int, serial: int
) -> Lent:
    """What a process gets ``now`` (milliseconds). The loans of processes that are ``gone`` are over.

    Its own permits are never fewer than are in use, and otherwise no more than the others leave.
    """
    others = {owner: loan for owner, loan in book.loans.items() if owner != ask.owner and owner not in gone}
    if ask.leaves and not ask.busy:
        left = {ask.owner: Loan(0, 0, ask.waiting, OVER, now, serial, length_ms, ask.parked)} if ask.parked else {}
        return Lent(replace(book, loans=others | left), 0, 0, _wait(others))
    wants = ask.waiting if numbers.permits is None else ask.busy + ask.waiting
    old = book.loans.get(ask.owner, Loan(0, 0, 0, 0, now, 0, length_ms))
    mine = replace(
        old,
        wants=wants,
        waiting=ask.waiting,
        parked=ask.parked,
        since=old.since if old.is_short or old.permits else now,
    )
    permits, target = _permits(mine, others, ask, numbers, now)
    since = mine.since if permits == old.permits else now
    mine = replace(mine, permits=permits, since=since, until=now + length_ms, serial=serial, length_ms=length_ms)
    room = len(ask.weights) if numbers.permits is None else max(0, permits - ask.busy - ask.tokens)
    weights = ask.weights[:room]
    tokens, arrival, tokens_at = _tokens(book, weights, numbers.rate, others, now, min(ask.lead_us, HORIZON_US))
    loans = others | {ask.owner: mine}
    return Lent(
        _told(replace(book, loans=loans), tokens, arrival, numbers, now),
        permits,
        target,
        _wait(others),
        tokens,
        tokens_at,
    )


def _told(book: Book, tokens: Sequence[Token], arrival: int, numbers: Numbers, now: int) -> Book:
    rate = numbers.rate
    book = replace(book, permits=numbers.permits, rate=stored_rate(rate))
    if rate is None or not tokens:
        return book
    return replace(book, arrival=arrival, at=now * 1000, interval=interval_us(rate))


def _wait(others: Mapping[str, Loan]) -> bool:
    return any(loan.is_short for loan in others.values())


# ── Permits ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _permits(mine: Loan, others: Mapping[str, Loan], ask: Ask, numbers: Numbers, now: int) -> tuple[int, int]:
    if numbers.permits is None:
        return 0, 0
    left = numbers.permits - sum(loan.permits for loan in others.values())
    everybody = [*others.items(), (ask.owner, mine)]
    target = targets(numbers.permits, _wants_in_order(everybody, numbers.permits, now))[ask.owner]
    target = max(0, min(target, left))
    return max(ask.busy, target), target


def _wants_in_order(loans: Sequence[tuple[str, Loan]], permits: int, now: int) -> dict[str, int]:
    """What each wants; those come first that get what cannot be divided. With enough for everybody it stays where it
    is; else they take turns.
    """
    hungry = sum(1 for _, loan in loans if loan.wants)
    if hungry <= permits:
        ordered = sorted(loans, key=lambda each: (-each[1].permits, each[1].since, each[0]))
    else:
        ordered = sorted(loans, key=lambda each: (_rank(each[1], now), each[1].since, each[0]))
    return {owner: loan.wants for owner, loan in ordered}


def _rank(loan: Loan, now: int) -> int:
    """First those whose turn it is, then those that wait for theirs, then those that have had it."""
    if not loan.permits:
        return 1
    return 0 if now < loan.since + TURN_MS else 2


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def grace_us(rate: Rate) -> int:
    """How long after its moment a token may be used.

    >>> grace_us(Rate(5, per="1s"))
    50000
    """
    return min(LONGEST_GRACE_US, milliseconds(rate.per) * 1000 // GRACE_PART)


def interval_us(rate: Rate) -> int:
    """The time between two tokens: a little longer than without a grace.

    >>> interval_us(Rate(5, per="1s"))
    210000
    """
    return -(-(milliseconds(rate.per) * 1000 + grace_us(rate)) // rate.count)


def _tokens(
    book: Book, weights: Sequence[int], rate: Rate | None, others: Mapping[str, Loan], now: int, lead_us: int
) -> tuple[tuple[Token, ...], int, int | None]:
    """The tokens for calls of these weights, the moment of the next one, and when to ask again if they are too few."""
    if rate is None or not weights:
        return (), book.arrival, None
    now_us, interval = now * 1000, interval_us(rate)
    # The process that wrote it may have a clock that runs ahead: what is left to wait for is not more than it left.
    ahead = max(0, min(book.arrival - now_us, book.arrival - book.at))
    # With another rate the same number of tokens is given away ahead.
    arrival = now_us + (-(-ahead * interval // book.interval) if book.interval else ahead)
    quota = _quota(arrival, rate, others, now)
    found: list[Token] = []
    for weight in weights:
        first = max(arrival, now_us + lead_us)
        opens = first + interval * (weight - max(rate.burst, weight))
        if opens > now_us + HORIZON_US:
            return tuple(found), arrival, opens - HORIZON_US
        if found and sum(each.weight for each in found) + weight > quota:
            return tuple(found), arrival, now_us + HORIZON_US // 2
        found.append(Token(weight, opens, first + grace_us(rate)))
        arrival = first + interval * weight
    return tuple(found), arrival, None


def _quota(arrival: int, rate: Rate, others: Mapping[str, Loan], now: int) -> int:
    """How many tokens one process takes at a time: its part of those that may be given away now."""
    interval, now_us = interval_us(rate), now * 1000
    first_opens = max(arrival, now_us) - interval * (rate.burst - 1)
    there = (now_us + HORIZON_US - first_opens) // interval + 1
    waiting = 1 + sum(1 for loan in others.values() if loan.waiting and loan.until > now)
    return -(-there // waiting)
