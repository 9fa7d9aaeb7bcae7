"""The shop: its stock, and a payment service that can be slow, down or strict. Fakes, with books of their own."""

from __future__ import annotations

from collections import Counter
from typing import TypedDict


class SoldOut(Exception):
    """There are not enough of an article."""


class CardDeclined(Exception):
    """The bank says no: trying again does not help."""


class Item(TypedDict):
    """So many of an article."""

    sku: str
    count: int


class Order(TypedDict):
    """What a customer wants."""

    id: str
    cents: int
    items: list[Item]


class Shop:
    """All that the checkout changes. Each change is done once for each order, however often it is asked for."""

    def __init__(self, stock: dict[str, int]) -> None:
        self.stock = Counter(stock)
        self.holds: dict[tuple[str, str], int] = {}
        self.payments: dict[str, int] = {}
        self.outages = 0
        self.limit_cents = 100_000

    def reserve(self, order: str, sku: str, count: int) -> int:
        """Hold articles for an order, and answer how many are held."""
        if (order, sku) not in self.holds:
            if self.stock[sku] < count:
                raise SoldOut(sku)
            self.stock[sku] -= count
            self.holds[order, sku] = count
        return self.holds[order, sku]

    def charge(self, order: str, cents: int) -> str:
        """Charge the card, and answer the number of the payment."""
        if self.outages:
            self.outages -= 1
            raise ConnectionError("the bank does not answer")
        if cents > self.limit_cents:
            raise CardDeclined(f"{cents} cents are over the limit")
        self.payments.setdefault(order, cents)
        return f"payment-{order}"

    def ship(self, order: str) -> str:
        """Send what is held, and answer the number of the parcel."""
        return f"parcel-{order}"

    def give_back(self, order: str) -> None:
        """Release what is held for an order."""
        for held in [each for each in self.holds if each[0] == order]:
            self.stock[held[1]] += self.holds.pop(held)
