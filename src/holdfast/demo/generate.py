"""Makes the demonstration's orders: ``python -m holdfast.demo.generate 300 > orders.jsonl``, the same every time.

Of every twenty orders about four have a card or a service with problems, one or two cannot be delivered, and some are
invalid. A generator with a fixed seed decides which ones, and everything else about them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

import msgspec

from holdfast.demo.shop import CATALOGUE, Line, Order

SEED: Final = "holdfast demo 1"
OPENING: Final = datetime(2025, 11, 3, 8, 0, tzinfo=UTC)
BLOCK: Final = 20

SPECIAL: Final = ("VASE-CRYSTAL", "LAMP-RETRO")
"""The vase breaks when it is packed, and the lamp is sold out."""

TROUBLE: Final = ("slow", "slow", "flaky", "declined")
MORE_TROUBLE: Final = (("hang", "invalid"), ("damaged", "declined"), ("sold out", "invalid"))

FIRST_NAMES: Final = (
    "Ada",
    "Bram",
    "Chidi",
    "Dilek",
    "Emma",
    "Farid",
    "Gwen",
    "Hugo",
    "Ines",
    "Jonas",
    "Kaito",
    "Lotte",
    "Mei",
    "Noor",
    "Oskar",
    "Priya",
    "Ravi",
)
LAST_NAMES: Final = (
    "Bakker",
    "Cohen",
    "Demir",
    "Eriksen",
    "Fischer",
    "García",
    "Haddad",
    "Ito",
    "Jansen",
    "Kowalska",
    "Lopes",
    "Moreau",
    "Novak",
)


def orders() -> Iterator[Order]:
    """Orders without end; the first ones never change."""
    number = 0
    while True:
        random = Random(f"{SEED}/{number // BLOCK}")
        kinds = [*TROUBLE, *MORE_TROUBLE[number // BLOCK % len(MORE_TROUBLE)]]
        kinds += ["usual"] * (BLOCK - len(kinds))
        random.shuffle(kinds)
        for kind in kinds:
            number += 1
            yield _order(number, kind, random)


def _order(number: int, kind: str, random: Random) -> Order:
    usual = [sku for sku in CATALOGUE if sku not in SPECIAL]
    skus = random.sample(usual, random.choices((1, 2, 3, 4), (8, 6, 3, 1))[0])
    if kind == "damaged":
        skus.append("VASE-CRYSTAL")
    elif kind == "sold out":
        skus.append("LAMP-RETRO")
    lines = [Line(sku, random.choices((1, 2, 3, 6), (10, 5, 2, 1))[0], CATALOGUE[sku]) for sku in skus]
    brand = random.choice(("visa", "mastercard", "maestro"))
    card_kind = kind if kind in {"slow", "flaky", "declined", "hang"} else brand
    order = Order(
        id=f"order-{number:04}",
        customer=f"{random.choice(FIRST_NAMES)} {random.choice(LAST_NAMES)}",
        card=f"tok_{card_kind}_{random.randrange(10_000):04}",
        lines=lines,
        total_cents=sum(line.quantity * line.cents for line in lines),
        placed_at=OPENING + timedelta(seconds=97 * number + random.randrange(90)),
    )
    if kind == "invalid":
        random.choice((_empty, _negative, _unknown, _cheap, _wrong_total))(order)
    return order


def _empty(order: Order) -> None:
    order.lines, order.total_cents = [], 0


def _negative(order: Order) -> None:
    order.lines[0].quantity = -1


def _unknown(order: Order) -> None:
    order.lines[0].sku = "MUG-GREEN"


def _cheap(order: Order) -> None:
    order.lines[0].cents = 1


def _wrong_total(order: Order) -> None:
    order.total_cents -= 1000


def as_line(order: Order) -> str:
    """The order as one line of JSON."""
    encoded: Any = msgspec.json.encode(order)
    return str(encoded.decode())


if __name__ == "__main__":
    for _number, _made in zip(range(int(sys.argv[1])), orders(), strict=False):
        print(as_line(_made))
