"""The checkout as a state machine: the definition says in which order, Python does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.checkout_machine.shop import Shop

import holdfast as hf

DEFINITION = Path(__file__).with_name("checkout.asl.json")


def declare(app: hf.App, shop: Shop) -> hf.asl.StateMachine:
    """The machine ``checkout`` of an app."""

    def reserve(given: dict[str, Any]) -> int:
        return shop.reserve(given["order"], given["sku"], given["count"])

    def charge(given: dict[str, Any]) -> str:
        return shop.charge(given["order"], given["cents"])

    def ship(given: dict[str, Any]) -> str:
        return shop.ship(given["order"])

    def give_back(given: dict[str, Any]) -> None:
        shop.give_back(given["order"])

    tasks = {"reserve": reserve, "charge": charge, "ship": ship, "give_back": give_back}
    return app.state_machine("checkout", DEFINITION, tasks=tasks)
