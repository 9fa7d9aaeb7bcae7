"""What is to become of a delivery that fails: a decision from values, in which nothing runs and nothing is written."""

from __future__ import annotations

import pytest
from msgspec import Raw

import holdfast as hf
from holdfast.actors.kind import Policy
from holdfast.actors.mailbox.queue import Delivery
from holdfast.actors.record import Call, FailureRecord
from holdfast.actors.turn.failure import (
    DEATHS_PER_ATTEMPT,
    Halt,
    Park,
    TellCaller,
    TryAgain,
    after_deaths,
    after_failure,
)

NOW = 1_000_000
WRONG = ValueError("no such item")
CALLED = (("actor#Stock#1", "r#1"),)
THREE_TIMES = hf.Retry(max_attempts=3, initial=1.0, backoff=2.0, jitter=hf.Jitter.NONE)


def call(*, replies: bool = False, kept: bool = False) -> Call:
    return Call(id="1", method="sell", args=Raw(b"{}"), replies=replies, kept=kept)


def message(*, prepared: bool = False) -> Delivery:
    return Delivery(call(), sort="i#1", prepared=prepared)


def verdict(before: FailureRecord, poison: str = "park", *, prepared: bool = False):
    policy = Policy(retry=THREE_TIMES, poison=poison)
    return after_failure(WRONG, CALLED, message(prepared=prepared), before, policy, NOW)


@pytest.mark.parametrize("sort", [None, "i#1"])
def test_a_caller_is_told_and_the_replies_it_has_caused_may_expire(sort):
    delivery = Delivery(call(replies=True), sort=sort)
    assert after_failure(WRONG, CALLED, delivery, FailureRecord(), Policy(), NOW) == TellCaller(WRONG, CALLED)


def test_a_caller_that_may_ask_again_finds_the_replies_it_has_caused():
    delivery = Delivery(call(replies=True, kept=True), sort="i#1")
    assert after_failure(WRONG, CALLED, delivery, FailureRecord(), Policy(), NOW) == TellCaller(WRONG, ())


@pytest.mark.parametrize(("failed", "delay_ms"), [(0, 1_000), (1, 2_000)])
def test_a_message_is_tried_again_later_each_time(failed, delay_ms):
    again = verdict(FailureRecord(failed=failed))
    assert isinstance(again, TryAgain)
    assert (again.failure.failed, again.failure.again_at) == (failed + 1, NOW + delay_ms)
    assert again.failure.called == CALLED


def test_what_earlier_attempts_have_called_stays_known():
    earlier = ("actor#Stock#0", "r#0")
    assert verdict(FailureRecord(failed=1, called=(earlier, *CALLED))).failure.called == (earlier, *CALLED)


@pytest.mark.parametrize(("poison", "given_up"), [("park", Park), ("halt", Halt)])
def test_after_its_last_attempt_a_message_is_parked_or_stopped_at(poison, given_up):
    found = verdict(FailureRecord(failed=2), poison)
    assert isinstance(found, given_up)
    assert (found.failure.failed, found.failure.error.message) == (3, "no such item")


def test_an_attempt_that_failed_has_not_killed_its_process():
    assert verdict(FailureRecord(started=1), prepared=True).failure.started == 0
    assert verdict(FailureRecord(started=1)).failure.started == 1


@pytest.mark.parametrize("started", [0, 1, 3 * DEATHS_PER_ATTEMPT - 1])
def test_a_few_deaths_do_not_make_a_message_poison(started):
    assert after_deaths(message(), FailureRecord(started=started), Policy(retry=THREE_TIMES)) is None


@pytest.mark.parametrize(("poison", "given_up"), [("park", Park), ("halt", Halt)])
def test_a_message_that_has_killed_its_process_too_often_is_poison(poison, given_up):
    failure = FailureRecord(started=3 * DEATHS_PER_ATTEMPT)
    found = after_deaths(message(), failure, Policy(retry=THREE_TIMES, poison=poison))
    assert isinstance(found, given_up)
    assert "its process died 12 times" in found.failure.error.message


def test_a_caller_hears_of_the_deaths():
    failure = FailureRecord(started=3 * DEATHS_PER_ATTEMPT)
    found = after_deaths(Delivery(call(replies=True), sort="i#1"), failure, Policy(retry=THREE_TIMES))
    assert isinstance(found, TellCaller)
    assert "its process died" in str(found.error)
