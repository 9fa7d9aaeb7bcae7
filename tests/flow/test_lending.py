"""What is lent to whom: shares against dealing out one by one, and decisions against a ledger of what is in use."""

from __future__ import annotations

from collections import Counter
from itertools import cycle, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.flow.lending import (
    EMPTY,
    HORIZON_US,
    Ask,
    Book,
    Lent,
    Loan,
    Numbers,
    Token,
    decide,
    decode_book,
    encode_book,
    interval_us,
)
from holdfast.flow.rates import Rate
from holdfast.flow.share import fair_shares, targets

WANTS = st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 12))
LENGTH_MS = 9_000


def dealt(total: int, wants: dict[str, int]) -> Counter[str]:
    """One after another, to each that wants more, in their order."""
    hands = Counter[str]()
    for owner in cycle(wants):
        if total == 0 or all(hands[each] >= wants[each] for each in wants):
            break
        if hands[owner] < wants[owner]:
            hands[owner] += 1
            total -= 1
    return hands


@given(st.integers(0, 40), WANTS)
def test_shares_are_those_of_dealing_out_one_by_one(total: int, wants: dict[str, int]) -> None:
    shares = fair_shares(total, wants)
    assert +Counter(shares) == (dealt(total, wants) if wants else Counter())
    assert sum(shares.values()) == min(total, sum(wants.values()))


@given(st.integers(0, 40), WANTS)
def test_targets_leave_nothing_over_and_take_nothing_that_is_wanted(total: int, wants: dict[str, int]) -> None:
    found, shares = targets(total, wants), fair_shares(total, wants)
    assert all(found[owner] >= shares[owner] for owner in wants)
    assert sum(found.values()) == (total if wants else 0)


def test_what_a_process_only_has_because_it_is_in_use_is_not_for_another_call() -> None:
    """It was stopped in the middle of a call, and others were lent all permits meanwhile."""
    book = Book(loans={"b": Loan(2, 4, 2, LENGTH_MS, 0, 0, LENGTH_MS)})
    asked = Ask(owner="a", busy=1, waiting=1)
    lent = decide(book, asked, Numbers(2), now=0, gone=(), length_ms=LENGTH_MS, serial=1)
    assert (lent.permits, lent.target) == (1, 0)


def permits_of(book: Book) -> int:
    return sum(loan.permits for loan in book.loans.values())


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(0, 8))
def test_no_more_is_lent_than_there_is_and_everybody_gets_a_turn(seed: int, permits: int) -> None:
    """Processes ask in any order, use what they have, and some die. What runs is counted by them alone."""
    rnd, book, now = Random(seed), EMPTY, 1_000_000
    running, usable, served = Counter[str](), Counter[str](), Counter[str]()
    dead, owners = set[str](), list("abcd")
    for serial in range(120):
        now += rnd.randrange(400)
        owner = rnd.choice(owners)
        if rnd.random() < 0.03:
            dead.add(owner)
            running[owner] = usable[owner] = 0
            continue
        dead.discard(owner)
        running[owner] -= rnd.randint(0, running[owner])
        ask = Ask(owner=owner, busy=running[owner], waiting=rnd.choice((0, 1, 5)), leaves=rnd.random() < 0.1)
        lent = decide(book, ask, Numbers(permits), now=now, gone=dead - {owner}, length_ms=LENGTH_MS, serial=serial)
        book = decode_book(encode_book(lent.book))
        usable[owner] = lent.permits
        begun = min(ask.waiting, lent.permits - running[owner])
        running[owner] += begun
        served[owner] += begun
        assert sum(usable.values()) <= permits
        assert all(running[each] <= usable[each] for each in owners)
        assert permits_of(book) <= permits


def test_two_processes_take_turns_with_one_permit() -> None:
    book, now, served = EMPTY, 1_000_000, Counter[str]()
    for serial in range(40):
        owner = "ab"[serial % 2]
        lent = decide(
            book, Ask(owner=owner, waiting=3), Numbers(1), now=now, gone=(), length_ms=LENGTH_MS, serial=serial
        )
        book, now = lent.book, now + 600
        served[owner] += lent.permits
    assert abs(served["a"] - served["b"]) <= 4


def test_a_process_alone_gets_all_and_gives_back_what_others_want() -> None:
    def asks(book: Book, owner: str, *, busy: int = 0, waiting: int = 1) -> Book:
        ask = Ask(owner=owner, busy=busy, waiting=waiting)
        return decide(book, ask, Numbers(10), now=1_000, gone=(), length_ms=LENGTH_MS, serial=1).book

    first = asks(EMPTY, "a")
    second = asks(first, "b")
    third = asks(second, "a", busy=1, waiting=0)
    fourth = asks(third, "b")
    assert [loan.permits for loan in first.loans.values()] == [10]
    assert second.loans["b"].permits == 0 and second.loans["b"].is_short
    assert third.loans["a"].permits == fourth.loans["b"].permits == 5


def test_what_is_in_use_is_not_taken_away() -> None:
    book = Book(loans={"a": Loan(6, 6, 0, 0, 0, 1, LENGTH_MS)})
    ask = Ask(owner="a", busy=6)
    lent = decide(book, ask, Numbers(2), now=1_000, gone=(), length_ms=LENGTH_MS, serial=2)
    assert (lent.permits, lent.target) == (6, 2)


def test_what_outlives_its_loan_counts_and_nothing_new_begins() -> None:
    """It was stopped for longer than its loan, and the others were lent everything. It still runs two."""
    book = Book(loans={"b": Loan(3, 3, 0, 10**9, 0, 1, LENGTH_MS)})
    lent = decide(
        book, Ask(owner="a", busy=2, waiting=4), Numbers(3), now=1_000, gone=(), length_ms=LENGTH_MS, serial=2
    )
    assert lent.permits == 2


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


RATES = st.builds(Rate, st.integers(1, 40), per=st.sampled_from(("250ms", "1s", "7s", "1m")), burst=st.integers(1, 6))


def used(tokens: list[Token], rnd: Random) -> list[tuple[int, int]]:
    """A moment at which each is used, and its weight: at random, or as early or late as may be."""
    chosen = (rnd.choice((each.opens, each.closes, rnd.randint(each.opens, each.closes))) for each in tokens)
    return sorted((moment, each.weight) for moment, each in zip(chosen, tokens, strict=True))


def most_within(times: list[tuple[int, int]], span_us: int) -> int:
    """The largest sum of weights in any time of this length, its end not included."""
    return max(sum(weight for at, weight in times if start <= at < start + span_us) for start, _ in times)


@settings(max_examples=300)
@given(st.integers(0, 2**32), RATES, st.integers(1, 4))
def test_no_time_has_more_tokens_than_the_rate_whenever_they_are_used(seed: int, rate: Rate, heaviest: int) -> None:
    rnd, book, now, tokens = Random(seed), EMPTY, 1_000_000, list[Token]()
    span_us = int({"250ms": 0.25, "1s": 1, "7s": 7, "1m": 60}[str(rate.per)] * 1_000_000)
    for serial in range(60):
        now += rnd.choice((0, rnd.randrange(1 + span_us // 2_000)))
        weights = tuple(rnd.randint(1, heaviest) for _ in range(rnd.randrange(6)))
        ask = Ask(owner=rnd.choice("abc"), waiting=len(weights), weights=weights, lead_us=rnd.choice((0, 90_000)))
        lent = decide(book, ask, Numbers(rate=rate), now=now, gone=(), length_ms=LENGTH_MS, serial=serial)
        book = decode_book(encode_book(lent.book))
        tokens += lent.tokens
        assert all(token.opens <= now * 1000 + HORIZON_US for token in lent.tokens)
        assert len(lent.tokens) == len(weights) or lent.tokens_at is not None
    if tokens:
        largest = max(rate.burst, *(each.weight for each in tokens))
        assert most_within(used(tokens, rnd), span_us) <= rate.count + largest - 1


def test_a_burst_may_begin_at_once_and_the_rest_follows_evenly() -> None:
    rate = Rate(10, per="1s", burst=3)
    ask = Ask(owner="a", waiting=9, weights=(1,) * 9)
    lent = decide(EMPTY, ask, Numbers(rate=rate), now=1_000, gone=(), length_ms=LENGTH_MS, serial=1)
    opens = [token.opens // 1000 for token in lent.tokens]
    assert opens[0] <= opens[2] <= 1_000
    assert all(later - earlier == 105 for earlier, later in pairwise(opens[2:]))


def test_tokens_are_only_for_calls_that_have_permits() -> None:
    """A token that waits for a permit would be of no use to anybody."""
    ask = Ask(owner="a", busy=2, waiting=9, weights=(1,) * 9)
    lent = decide(EMPTY, ask, Numbers(4, Rate(10, per="1s")), now=1_000, gone=(), length_ms=LENGTH_MS, serial=1)
    assert len(lent.tokens) == 2


def test_a_clock_that_ran_ahead_is_waited_for_no_longer_than_it_has_left() -> None:
    day_us = 86_400_000_000
    book = Book(arrival=day_us + 2_000_000, at=day_us)
    ask = Ask(owner="a", waiting=1, weights=(1,))
    rate = Rate(1, per="1s")
    assert decide(book, ask, Numbers(rate=rate), now=1_000, gone=(), length_ms=LENGTH_MS, serial=1).tokens_at == (
        1_000_000 + 2_000_000 - HORIZON_US
    )


@pytest.mark.parametrize("others", [1, 4])
def test_processes_that_wait_share_the_tokens_of_a_moment(others: int) -> None:
    loans = {f"o{number}": Loan(0, 1, 1, 10**9, 0, 1, LENGTH_MS) for number in range(others)}
    ask = Ask(owner="a", waiting=50, weights=(1,) * 50)
    rate = Rate(20, per="1s")
    lent = decide(Book(loans=loans), ask, Numbers(rate=rate), now=1_000, gone=(), length_ms=LENGTH_MS, serial=1)
    assert len(lent.tokens) == -(-20 // (1 + others))


def test_a_new_rate_does_not_wait_for_the_token_of_an_old_one() -> None:
    def asked(book: Book, rate: Rate, weight: int = 1) -> Lent:
        ask = Ask(owner="a", waiting=1, weights=(weight,))
        return decide(book, ask, Numbers(rate=rate), now=1_000_000, gone=(), length_ms=LENGTH_MS, serial=1)

    hour, second = Rate(1, per="1h"), Rate(100, per="1s")
    begun = asked(EMPTY, hour, weight=2)
    assert begun.tokens and not asked(begun.book, hour).tokens
    (token,) = asked(begun.book, second).tokens
    assert token.opens == 1_000_000_000 + 2 * interval_us(second), "what was given away ahead stays so"
    assert decode_book(encode_book(begun.book)) == begun.book
