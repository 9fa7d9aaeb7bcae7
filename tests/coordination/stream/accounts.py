"""The events and the state that tests of streams are about."""

from __future__ import annotations

from dataclasses import dataclass

import holdfast as hf


@dataclass
class Deposited:
    cents: int


@dataclass
class Withdrawn:
    cents: int
    by: str = "nobody"


AccountEvent = Deposited | Withdrawn


def change(cents: int, event: AccountEvent) -> int:
    return cents + event.cents if isinstance(event, Deposited) else cents - event.cents


BALANCE = hf.Fold(int, change)
SNAPPED = hf.Fold(int, change, snapshot_every=3, name="balance")


def accounts(app, **options):
    return app.streams(AccountEvent, name="accounts", **options)


def withdraw(cents):
    def decide(balance):
        if balance < cents:
            raise ValueError("not enough")
        return [Withdrawn(cents)]

    return decide


async def all_of(generator):
    return [each async for each in generator]


async def cents_of(generator):
    return [each.event.cents async for each in generator]
