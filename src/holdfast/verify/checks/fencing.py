"""A process that is frozen: its lease lapses, another takes over, and what it writes when it wakes is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from holdfast.clock import SystemClock
from holdfast.errors import Refused
from holdfast.items import ABSENT, UNOWNED, Item, LeaseLapsed, OwnerIs, Put, Update
from holdfast.verify.bench import Bench
from holdfast.verify.finding import Finding, differences

FROZEN: Final = "frozen process"
PARTITION: Final = "verify#frozen"
LEASE_MS: Final = 2_000
BEYOND_SECONDS: Final = 0.5


async def frozen(bench: Bench) -> Finding:
    """An hour as two seconds: the lease is short, and what follows is the same."""
    wrong: list[str] = []
    clock = SystemClock()
    async with bench.home("verify-frozen") as first, bench.home("verify-heir") as second:
        await first.store.write(Put(Item(PARTITION), ABSENT))
        await first.store.write(_claim("verify-frozen", clock.now_ms()))
        early = Update(partition=PARTITION, when=LeaseLapsed(clock.now_ms()), owner="verify-heir", add_epoch=1)
        if await _applied(second.store.write(early)):
            wrong.append("a lease was taken over before it lapsed")
        await asyncio.sleep(LEASE_MS / 1000 + BEYOND_SECONDS)
        late = Update(partition=PARTITION, when=LeaseLapsed(clock.now_ms()), owner="verify-heir", add_epoch=1)
        if not await _applied(second.store.write(late)):
            wrong.append("a lapsed lease could not be taken over")
        ours = OwnerIs("verify-frozen", 1)
        checkpoint = Put(Item(PARTITION, "j#1"), ABSENT)
        if await _applied(first.store.write(Update(partition=PARTITION, when=ours, body=b"late"))):
            wrong.append("a write of the frozen process was applied after the takeover")
        if await _applied(first.store.write(checkpoint, Update(partition=PARTITION, when=ours, add_revision=1))):
            wrong.append("a transaction of the frozen process was applied after the takeover")
        if (await second.store.get(PARTITION, "j#1")) is not None:
            wrong.append("half a transaction of the frozen process was applied")
    return differences(
        FROZEN, wrong, told="its lease lapsed, it was replaced, and both of its late writes were refused"
    )


def _claim(owner: str, now: int) -> Update:
    return Update(partition=PARTITION, when=UNOWNED, owner=owner, lease_until=now + LEASE_MS, add_epoch=1)


async def _applied(writing: Awaitable[object]) -> bool:
    try:
        await writing
    except Refused:
        return False
    return True
