"""The bank outside: each key is charged once, each order refunded once, and every attempt is on the disk."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.crew.ledger import Bank


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def whats(bank: Bank) -> list[str]:
    return [entry.what for entry in bank.entries()]


def test_a_key_is_accepted_once_and_every_attempt_is_noted(path):
    bank = Bank(path)
    assert bank.entries() == []
    assert [bank.charge("order-1", 500, key).payment for key in ("a", "a", "b")] == [
        "pay-00001",
        "pay-00001",
        "pay-00002",
    ]
    assert [(each.what, each.key, each.pid) for each in Bank(path).entries()] == [
        ("accepted", "a", os.getpid()),
        ("repeat", "a", os.getpid()),
        ("accepted", "b", os.getpid()),
    ]


def test_a_bank_sees_what_another_one_on_its_ledger_has_accepted_meanwhile(path):
    one, other = Bank(path), Bank(path)
    assert one.charge("order-1", 500, "a").what == "accepted"
    assert other.charge("order-1", 500, "a").what == "repeat"
    assert one.charge("order-1", 500, "a").what == "repeat"


def test_of_many_at_once_under_one_key_one_is_accepted(path):
    bank = Bank(path)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: bank.charge("order-1", 500, "a"), range(40)))
    assert sorted(whats(bank)) == ["accepted", *["repeat"] * 39]


def test_an_order_is_refunded_once_and_takes_no_late_charge(path):
    bank = Bank(path)
    bank.charge("order-1", 500, "a")
    assert [bank.refund("order-1"), bank.refund("order-1")] == [500, 0]
    assert bank.charge("order-1", 500, "late").what == "refused"
    assert whats(bank) == ["accepted", "closed", "refund", "refused"]


def test_a_refund_before_the_charge_closes_the_order(path):
    bank = Bank(path)
    assert bank.refund("order-1") == 0
    assert bank.charge("order-1", 500, "a").what == "refused"
    assert bank.charge("order-2", 500, "b").what == "accepted"
