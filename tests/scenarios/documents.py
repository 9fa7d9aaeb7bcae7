"""Documents: written, moved between in transactions, and told of in events, once each whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import holdfast as hf
from holdfast.app import App
from holdfast.errors import Conflict
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User

LOOK_SECONDS: Final = 0.5
TRANSFERS: Final = 4
CENTS: Final = 10
FIRST_LIFE: Final = 2
"""The version of the document that is deleted."""


@dataclass
class Transferred:
    """So much has gone from one account to the other."""

    number: int
    cents: int


@dataclass(frozen=True)
class Account:
    """What there is, and the transfers that have made it so: a transfer that is repeated is known."""

    cents: int = 0
    transfers: tuple[int, ...] = ()

    def after(self, number: int, cents: int) -> Account:
        """The account with this transfer."""
        return replace(self, cents=self.cents + cents, transfers=(*self.transfers, number))


def transferred(app: App, ledger: Ledger) -> User:
    """Transfers between two accounts, two at a time, each told of in an event; whoever is interrupted begins again."""
    accounts = app.documents(Account)

    @app.consumer(Transferred)
    async def note(event: Transferred) -> None:
        ledger.effect(event.cents, key=f"note {event.number}")

    async def transfer(number: int, tx: hf.Transaction) -> None:
        source, target = accounts.at("source"), accounts.at("target")
        here, there = await tx.find(source) or Account(100), await tx.find(target) or Account()
        if number in here.transfers:
            return
        tx.put(source, here.after(number, -CENTS))
        tx.put(target, there.after(number, CENTS))
        tx.publish(Transferred(number, CENTS), id=f"transfer-{number}")

    async def user() -> tuple[int, int, list[int]]:
        for first in range(0, TRANSFERS, 2):
            both = (partial(transfer, number) for number in (first, first + 1))
            await asyncio.gather(*(app.atomically(each) for each in both))
        while len(ledger.accepted) < TRANSFERS:
            await asyncio.sleep(LOOK_SECONDS)
        source, target = (await accounts.at("source").get()).value, (await accounts.at("target").get()).value
        return source.cents, target.cents, sorted(target.transfers)

    return user


def written(app: App, _ledger: Ledger) -> User:
    """A document is created, put, deleted, created anew and put again. Whoever is interrupted, or finds that another
    was faster, goes on from what is there.
    """
    stages = app.documents(str, name="stages")

    async def go_on(document: hf.Document[str]) -> bool:
        found = await document.find()
        if found is None:
            await document.create("created")
        elif found.value == "created":
            await document.put("put", version=found.version)
        elif found.version == FIRST_LIFE:
            await document.delete(version=found.version)
        else:
            return False
        return True

    async def user() -> tuple[int, str]:
        document, busy = stages.at("one"), True
        while busy:
            with suppress(Conflict):
                busy = await go_on(document)
        last = await document.get()
        return last.version, last.value

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("transfers between documents", transferred, histories=Histories.REORDERED),
    Scenario("the life of a document", written),
)
