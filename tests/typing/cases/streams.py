"""Streams as users write them. Each line marked ``wrong`` is a mistake that both checkers find, and no other line is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import holdfast as hf
from typing_extensions import assert_type

app = hf.App("shop")


@dataclass
class Deposited:
    cents: int


def change(cents: int, event: Deposited) -> int:
    return cents + event.cents


streams = app.streams(Deposited, ordered=True)
assert_type(streams, hf.Streams[Deposited])
assert_type(streams.at("a"), hf.Stream[Deposited])
assert_type(app.stream(Deposited, "a", "b"), hf.Stream[Deposited])
balance = hf.Fold(int, change, snapshot_every=10)
assert_type(balance, hf.Fold[int, Deposited])
hf.Fold(str, change)  # wrong


async def use(stream: hf.Stream[Deposited]) -> None:
    assert_type(await stream.append(Deposited(1), version=0, id="x"), tuple[hf.Recorded[Deposited], ...])
    async for each in stream.read(after=1, upto=5, backwards=True, limit=2):
        assert_type(each.event.cents, int)
    async for each in streams.follow(after=3):
        assert_type(each, hf.Recorded[Deposited])
    assert_type(await stream.state(balance, version=3), int)
    assert_type(await stream.state(balance, at=datetime.now(UTC)), int)
    await stream.decide(balance, lambda cents: [Deposited(cents)])
    await stream.append("a")  # wrong
    await stream.append(Deposited(1), version="1")  # wrong
    await stream.decide(balance, lambda cents: [cents])  # wrong


async def apply(tx: hf.Transaction, recorded: hf.Recorded[Deposited]) -> None:
    tx.publish(recorded.event)


projection = app.projection("p", streams, apply)
assert_type(projection, hf.Projection[Deposited])
