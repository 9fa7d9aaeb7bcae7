"""What a trial costs, before it runs and after it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from holdfast.backends.aws import Meter
from holdfast.cost.prices import US_EAST_1, PriceList
from holdfast.verify.registry import Check

MOST_USD: Final = Decimal(5)
BASE_USD: Final = 0.05
"""Of what is deployed: alarms and the dashboard, by the hour, and what the function does between the checks."""

BASE_SECONDS: Final = 420
"""For CloudFormation to build and to remove."""

MARGIN: Final = 2


class Estimate(Struct, frozen=True):
    """What a trial may cost and take, on the safe side."""

    usd: float
    minutes: float


def estimate(checks: Sequence[Check]) -> Estimate:
    """The estimate for these checks."""
    usd = BASE_USD + sum(each.usd for each in checks)
    seconds = BASE_SECONDS + sum(each.seconds for each in checks)
    return Estimate(round(usd * MARGIN, 2), round(seconds / 60, 1))


def metered_usd(meter: Meter, prices: PriceList = US_EAST_1) -> Decimal:
    """What the requests that the checks themselves sent to the table cost."""
    total = meter.total
    return prices.write_unit.of(round(Decimal(total.write_units), 1)) + prices.read_unit.of(
        round(Decimal(total.read_units), 1)
    )
