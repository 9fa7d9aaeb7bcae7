"""The audit finds each way in which a ledger can differ from what was due."""

from __future__ import annotations

import pytest

from holdfast.crew.audit import Due, problems
from holdfast.crew.ledger import Entry


def entry(what: str = "accepted", order: str = "o1", cents: int = 5, key: str | None = "k1") -> Entry:
    return Entry(at=1, what=what, order=order, cents=cents, key=key)


REFUND = entry("refund", key=None)
KEPT, REFUNDED, ABSENT = Due(5), Due(5, "refunded"), Due(5, "absent")


@pytest.mark.parametrize(
    ("due", "ledger", "problem"),
    [
        (KEPT, [entry(), entry("repeat")], None),
        (KEPT, [], "was charged [] and refunded []"),
        (KEPT, [entry(cents=6)], "charge of 5 cents was to be kept, but it was charged [6]"),
        (KEPT, [entry(), REFUND], "was charged [5] and refunded [5]"),
        (KEPT, [entry(), entry("repeat", key="k2")], "under 2 different keys"),
        (KEPT, [entry(), entry()], "k1: the bank accepted this idempotency key more than once"),
        (KEPT, [entry(), entry(order="o2", key="k2")], "o2: the bank knows this order"),
        (REFUNDED, [entry(), entry("closed", key=None), REFUND], None),
        (REFUNDED, [entry("closed", key=None)], None),
        (REFUNDED, [entry()], "was to be refunded, but it was charged [5] and refunded []"),
        (REFUNDED, [REFUND], "was charged [] and refunded [5]"),
        (ABSENT, [entry("declined")], None),
        (ABSENT, [entry(), REFUND], "was to be absent, but it was charged [5] and refunded [5]"),
    ],
)
def test_what_does_not_fit_is_found(due, ledger, problem):
    found = list(problems({"o1": due}, ledger))
    if problem is None:
        assert found == []
    else:
        assert any(problem in each for each in found), found
