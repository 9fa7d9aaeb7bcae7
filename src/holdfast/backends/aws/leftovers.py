"""What executions have left that have expired: found in the order of a scan, and deleted in batches.

DynamoDB's TTL deletes expired heads, and all other items with an end. A journal has none: how
long its execution lives is not known when it is written. It is deleted when the head has expired, or is gone.

What is found without a head is not taken for left over at once: a scan is no snapshot, and may show an item of a start
whose head comes in the same transaction. But an owner's item (it names its writer, and has no lease) was written after
the head was there. If a later, consistent read finds no head, it has expired and is gone, and these keys are never used
again: a new execution in the same place has others (``workflows.runs``). So they are deleted without a condition, 25 in
a request. Any other item is deleted as it was found and not otherwise, and without a head only after a second look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.backends.aws.batches import read_heads
from holdfast.backends.aws.layout import Attributes
from holdfast.backends.aws.requests import Request
from holdfast.backends.aws.transport import RequestRefused, Transport
from holdfast.items import HEAD, Item
from holdfast.keys import EXECUTIONS, IMPORT_PARTITION
from holdfast.ports import LATE_MS

BATCH_WRITES: Final = 25
"""The most items that one BatchWriteItem deletes."""

FLUSHED_ITEMS: Final = 1_000
"""How many items are found before some are deleted."""

MOST_STRAYS: Final = 50_000
"""The most items that wait for a second look; further ones are left to the next clean-up."""

SECOND_LOOK_SECONDS: Final = 5.0
"""A transaction that shows in parts is complete long before that: it takes milliseconds."""

PAUSE_SECONDS: Final = 0.05
"""How long to wait before items are deleted that a request has left unprocessed."""


class Found(Struct, frozen=True):
    """An item that may be left over. ``owned``: an owner of its head has written it. ``nonce``: of its last write."""

    place: Attributes
    owned: bool
    nonce: dict[str, Any] | None


class Leftovers:
    """The leftovers among the items of one scan, or of one segment of it.

    ``heads`` counts the expired heads that TTL does not delete, because earlier releases wrote them, and that were
    deleted here; ``items`` all other deleted items. With ``dry_run`` nothing is deleted, and all is counted.
    """

    def __init__(self, transport: Transport, table: str, now_ms: int, *, dry_run: bool) -> None:
        self.heads = self.items = 0
        self._transport = transport
        self._table = table
        self._before_ms = now_ms - LATE_MS
        self._dry_run = dry_run
        self._living = ""
        self._found: dict[str, list[Found]] = {}
        self._count = 0
        self._strays: dict[str, list[Found]] = {}
        self._stray_count = 0
        self._strayed_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether it is time to ``flush``."""
        return self._count >= FLUSHED_ITEMS

    def note(self, wire: Attributes) -> None:
        """The next item of the scan. It shows the items of a partition in their order: the head comes first."""
        partition = wire["p"]["S"]
        if wire["s"]["S"] != HEAD:
            if partition != self._living and partition.startswith(EXECUTIONS):
                self._add(partition, Found(_place(wire), "o" in wire and "lu" not in wire, wire.get("n")))
        elif not self._has_expired(int(wire["xm"]["N"]) if "xm" in wire else None):
            self._living = partition
        elif "x" not in wire:
            self._add(partition, Found(_place(wire), owned=False, nonce=wire.get("n")))

    def _add(self, partition: str, found: Found) -> None:
        self._found.setdefault(partition, []).append(found)
        self._count += 1

    def _has_expired(self, expires_at: int | None) -> bool:
        return expires_at is not None and expires_at <= self._before_ms

    async def flush(self) -> None:
        """Delete what was found so far, if it is left over."""
        found, self._found, self._count = self._found, {}, 0
        heads = await self._heads(tuple(found))
        if heads is None:
            return
        owned: list[Found] = []
        others: list[Found] = []
        for partition, items in found.items():
            head = heads.get(partition)
            if not self._is_over(head):
                continue
            owned += (each for each in items if each.owned)
            rest = [each for each in items if not each.owned]
            if head is not None:
                others += rest
            elif rest and self._stray_count < MOST_STRAYS:
                self._strays.setdefault(partition, []).extend(rest)
                self._stray_count += len(rest)
                self._strayed_at = asyncio.get_running_loop().time()
        await self._delete(owned, others)

    async def finish(self) -> None:
        """Delete the rest: what had no head, and still has none some seconds later."""
        await self.flush()
        if not self._strays:
            return
        await asyncio.sleep(max(0.0, self._strayed_at + SECOND_LOOK_SECONDS - asyncio.get_running_loop().time()))
        strays, self._strays, self._stray_count = self._strays, {}, 0
        heads = await self._heads(tuple(strays))
        if heads is None:
            return
        headless = (items for partition, items in strays.items() if self._is_over(heads.get(partition)))
        await self._delete((), [each for items in headless for each in items])

    def _is_over(self, head: Item | None) -> bool:
        return head is None or self._has_expired(head.expires_at)

    async def _heads(self, partitions: Sequence[str]) -> dict[str, Item] | None:
        """The heads of these partitions as they are now; ``None`` if there may be more, because an import is under way:
        it brings the items of a partition in any order.

        What has no head is looked at again after that mark: an import that has ended by then has brought all heads, and
        one that begins later has brought nothing of what was found.
        """
        if not partitions:
            return {}
        found = await read_heads(self._transport, self._table, [*partitions, IMPORT_PARTITION])
        if IMPORT_PARTITION in found:
            return None
        missing = [each for each in partitions if each not in found]
        return found | await read_heads(self._transport, self._table, missing)

    async def _delete(self, owned: Sequence[Found], others: Sequence[Found]) -> None:
        if not self._dry_run:
            batches = [owned[start : start + BATCH_WRITES] for start in range(0, len(owned), BATCH_WRITES)]
            await asyncio.gather(*map(self._delete_batch, batches))
        self.items += len(owned)
        gone = others if self._dry_run else await asyncio.gather(*map(self._delete_as_found, others))
        for each, is_gone in zip(others, gone, strict=True):
            self.heads += bool(is_gone) and each.place["s"]["S"] == HEAD
            self.items += bool(is_gone) and each.place["s"]["S"] != HEAD

    async def _delete_batch(self, batch: Sequence[Found]) -> None:
        left: list[dict[str, Any]] = [{"DeleteRequest": {"Key": each.place}} for each in batch]
        while left:
            asked = {"RequestItems": {self._table: left}, "ReturnConsumedCapacity": "TOTAL"}
            answer = await self._transport.call("BatchWriteItem", asked)
            left = answer.get("UnprocessedItems", {}).get(self._table, [])
            if left:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _delete_as_found(self, found: Found) -> bool:
        """Delete one item; false if it has changed, or is gone."""
        parameters: dict[str, Any] = {
            "TableName": self._table,
            "Key": found.place,
            "ConditionExpression": "attribute_not_exists(n)" if found.nonce is None else "n = :n",
            "ReturnConsumedCapacity": "TOTAL",
        }
        if found.nonce is not None:
            parameters["ExpressionAttributeValues"] = {":n": found.nonce}
        try:
            await self._transport.write(Request("DeleteItem", parameters, (0,)))
        except RequestRefused:
            return False
        return True


def _place(wire: Attributes) -> Attributes:
    return {"p": wire["p"], "s": wire["s"]}
