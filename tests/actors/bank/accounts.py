"""The bank: accounts that remember every transfer they saw, and two ways to move money between them."""

from __future__ import annotations

from typing import Any

import holdfast as hf

OPENING_CENTS = 1_000


class Declined(Exception):
    """The account has not so much."""


class Bank:
    """An app on a file, with the actors of the bank. ``plant`` is a bug to be found out."""

    def __init__(self, path: str, plant: str | None = None) -> None:
        self.app = hf.App("bank", home=f"sqlite:///{path}")
        declare(self.app)
        self.plant = plant

    async def move(self, order: dict[str, Any]) -> int | str:
        """Move money, once however often the order comes; answers what the account answered."""
        kinds = self.app.registry.actors
        id = order["id"] if self.plant is None else None
        try:
            if order["how"] == "send":
                payer: Any = kinds["Account"].cls.at(order["from"], request_id=id)
                return int(await payer.pay(order["id"], order["to"], order["cents"]))
            transfer: Any = kinds["Transfer"].cls.at(order["id"], request_id=id)
            return int(await transfer.run(order["from"], order["to"], order["cents"]))
        except hf.CallFailed as error:
            if not error.error_type.endswith("Declined"):
                raise
            return "declined"


def declare(app: hf.App) -> None:
    class Account(hf.Actor, app=app):
        balance: int = OPENING_CENTS
        paid: list[str] = hf.field(default_factory=list)
        got: list[str] = hf.field(default_factory=list)

        async def take(self, transfer: str, cents: int) -> int:
            if self.balance < cents:
                raise Declined(f"{self.key} has {self.balance}, not {cents}")
            self.balance -= cents
            self.paid.append(transfer)
            return self.balance

        async def put(self, transfer: str, cents: int) -> int:
            self.balance += cents
            self.got.append(transfer)
            return self.balance

        async def pay(self, transfer: str, to: str, cents: int) -> int:
            """Move money by a message that leaves with the commit."""
            left = await self.take(transfer, cents)
            await hf.send(Account.at(to).put, transfer, cents)
            return left

    class Transfer(hf.Actor, app=app):
        runs: int = 0

        async def run(self, payer: str, to: str, cents: int) -> int:
            """Move money by calls: each is applied once, however often this runs."""
            self.runs += 1
            try:
                left = await Account.at(payer).take(self.key, cents)
            except hf.CallFailed as error:
                raise Declined(str(error)) from error
            await Account.at(to).put(self.key, cents)
            return left
