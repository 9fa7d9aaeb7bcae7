"""DynamoDB's TTL in tests: what has expired is deleted item by item, in any order, whenever it likes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from holdfast.backends.aws.layout import ttl_seconds
from holdfast.backends.memory import MemoryData
from holdfast.items import Item


def is_doomed(item: Item, now_ms: int) -> bool:
    """Whether TTL may delete it."""
    return item.expires_at is not None and ttl_seconds(item.expires_at, item.sort) * 1000 <= now_ms


def expire(
    data: MemoryData, now_ms: int, random: Random, *, share: float = 1.0, deleted: Callable[[Item], object] = id
) -> int:
    """Delete a share of what TTL may delete by now, in random order; answers how many items went."""
    doomed = [item for entity in data.partitions.values() for item in entity.values() if is_doomed(item, now_ms)]
    random.shuffle(doomed)
    chosen = doomed[: round(share * len(doomed))]
    for item in chosen:
        data.remove(item.partition, item.sort)
        deleted(item)
    return len(chosen)
