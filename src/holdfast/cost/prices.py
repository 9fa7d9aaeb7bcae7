"""The price list: US dollars, one region, one date. Look up your own prices before you decide.

After a price change only this module and its date change.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from msgspec import Struct

MILLION: Final = 1_000_000


class Price(Struct, frozen=True):
    """The dollars for a number of units, and the title of the page with the price."""

    unit: str
    usd: Decimal
    quantity: int
    page: str

    def of(self, count: Decimal | int) -> Decimal:
        """The cost of this many."""
        return self.usd * count / self.quantity


class PriceList(Struct, frozen=True, kw_only=True):
    """The prices of one region on one date."""

    region: str
    date: str
    write_unit: Price
    read_unit: Price
    table_gb_month: Price
    queue_request: Price
    object_write: Price
    object_read: Price
    object_gb_month: Price
    invocation: Price
    compute_gb_second: Price
    event: Price
    durable_operation: Price
    durable_gb_written: Price
    durable_gb_month: Price
    transition: Price
    express_request: Price
    express_gb_second: Price


def _price(unit: str, usd: str, quantity: int, page: str) -> Price:
    return Price(unit, Decimal(usd), quantity, page)


_DYNAMODB: Final = "Pricing for on-demand capacity (Amazon DynamoDB)"
_SQS: Final = "Amazon SQS pricing"
_S3: Final = "Amazon S3 pricing"
_LAMBDA: Final = "AWS Lambda pricing"
_STEP_FUNCTIONS: Final = "AWS Step Functions pricing"
_EVENTBRIDGE: Final = "Amazon EventBridge pricing"

US_EAST_1: Final = PriceList(
    region="us-east-1",
    date="2026-11",
    write_unit=_price("write units", "0.625", MILLION, _DYNAMODB),
    read_unit=_price("read units", "0.125", MILLION, _DYNAMODB),
    table_gb_month=_price("GB-months", "0.25", 1, _DYNAMODB),
    queue_request=_price("requests", "0.40", MILLION, _SQS),
    object_write=_price("writes", "5.00", MILLION, _S3),
    object_read=_price("reads", "0.40", MILLION, _S3),
    object_gb_month=_price("GB-months", "0.023", 1, _S3),
    invocation=_price("invocations", "0.20", MILLION, _LAMBDA),
    compute_gb_second=_price("GB-seconds", "0.0000166667", 1, _LAMBDA),
    event=_price("events", "1.00", MILLION, _EVENTBRIDGE),
    durable_operation=_price("operations", "8.00", MILLION, _LAMBDA),
    durable_gb_written=_price("GB", "0.25", 1, _LAMBDA),
    durable_gb_month=_price("GB-months", "0.15", 1, _LAMBDA),
    transition=_price("transitions", "25.00", MILLION, _STEP_FUNCTIONS),
    express_request=_price("requests", "1.00", MILLION, _STEP_FUNCTIONS),
    express_gb_second=_price("GB-seconds", "0.00001667", 1, _STEP_FUNCTIONS),
)
"""On demand, list prices, without free tiers, discounts or taxes."""
