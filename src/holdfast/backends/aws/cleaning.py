"""Cleaning up, which nothing does by itself here: expired entities with all their items, and blobs without references.

One scan of the table finds both. It reads everything, and a projection would not make that cheaper ("Scan", API
reference), so this is for a cron job once a day or a week: half a read unit for each 4 KB, $0.016 for each GB; then two
write units for each item that is deleted, and $0.005 for each million blobs to list them. Deleting objects is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.backends.aws.blobs import KEPT_MS, S3Blobs, modified_ms
from holdfast.backends.aws.layout import decode, number, text
from holdfast.backends.aws.objects import ObjectChanged, ObjectMissing
from holdfast.backends.aws.requests import BOUNDS
from holdfast.backends.aws.store import DynamoStore
from holdfast.backends.aws.transport import Transport
from holdfast.clock import Clock
from holdfast.errors import Refused
from holdfast.items import HEAD, AllOf, Delete, EpochIs, Expired, Item, RevisionIs, Update, Write, parts_of
from holdfast.ports import BLOB_MARK

DIGEST_CHARACTERS: Final = 64
AT_ONCE: Final = 8


class Cleaned(Struct):
    """What was deleted: expired heads, the items that belonged to them, and blobs."""

    heads: int = 0
    items: int = 0
    blobs: int = 0


Tell = Callable[[int, Cleaned], object]
"""Hears how many items have been looked at, and what was deleted by then."""


class Hands:
    """What deletes; with ``dry_run`` it does not, and answers as if it had."""

    def __init__(self, store: DynamoStore, blobs: S3Blobs | None, *, dry_run: bool = False) -> None:
        self.store = store
        self.blobs = blobs
        self._dry_run = dry_run

    async def write(self, *writes: Write) -> None:
        """Apply these writes. Raises ``Refused``."""
        if not self._dry_run:
            await self.store.write(*writes)

    async def delete(self, described: dict[str, Any], blobs: S3Blobs) -> bool:
        """Delete a blob as it was listed; false if it was stored anew since, or is gone."""
        if self._dry_run:
            return True
        try:
            await blobs.objects.call("DeleteObject", Key=described["Key"], IfMatch=described["ETag"])
        except (ObjectChanged, ObjectMissing):
            return False
        return True


def untold(_items: int, _cleaned: Cleaned) -> None:
    """Nobody waits."""


async def clean(transport: Transport, hands: Hands, clock: Clock, tell: Tell = untold) -> Cleaned:
    """Delete heads that have expired with all their items, and then blobs that nothing refers to, nor has for two days.

    It may stop, or be stopped, anywhere, and be begun again, and several may run. In memory it has 32 bytes and some
    for each blob that is referred to. Blobs of what is deleted now go the next time.

    No reference is overlooked although the scan is no snapshot: whoever writes one has stored its blob just before, so
    that blob was last stored too short a time before the scan began to be collected after it.
    """
    began = clock.now_ms()
    cleaned, needed, looked_at = Cleaned(), set[bytes](), 0
    after: dict[str, Any] | None = None
    while True:
        answer = await transport.call("Scan", _scan(hands.store.table, began, after))
        for wire in answer["Items"]:
            body = bytes(wire["b"]["B"]) if "b" in wire else b""
            if body.startswith(BLOB_MARK):
                needed.add(bytes.fromhex(body[len(BLOB_MARK) :][:DIGEST_CHARACTERS].decode()))
            if "xm" in wire:
                await _delete_entity(decode(wire), hands, began, cleaned)
        looked_at += answer["ScannedCount"]
        tell(looked_at, cleaned)
        if (after := answer.get("LastEvaluatedKey")) is None:
            break
    if hands.blobs is not None:
        await _collect(hands.blobs, hands, needed, began - KEPT_MS, cleaned)
    return cleaned


def _scan(table: str, now: int, after: dict[str, Any] | None) -> dict[str, Any]:
    # Of an item with a reference that has not expired the times are left out: they are not needed.
    parameters: dict[str, Any] = {
        "TableName": table,
        "FilterExpression": "(#s = :head AND #xm <= :now) OR begins_with(#b, :mark)",
        "ProjectionExpression": "#p, #s, #r, #e, #xm, #b",
        "ExpressionAttributeNames": {f"#{name}": name for name in ("p", "s", "r", "e", "xm", "b")},
        "ExpressionAttributeValues": {":head": text(HEAD), ":now": number(now), ":mark": {"B": BLOB_MARK}},
        "ReturnConsumedCapacity": "TOTAL",
    }
    return parameters if after is None else parameters | {"ExclusiveStartKey": after}


async def _delete_entity(head: Item, hands: Hands, now: int, cleaned: Cleaned) -> None:
    """Delete an entity, its head last, and each part only while the head is as it was found: who begins anew under its
    name writes another one.
    """
    if head.sort != HEAD or head.expires_at is None or head.expires_at > now:
        return
    as_found = AllOf((Expired(now), EpochIs(head.epoch), RevisionIs(head.revision)))
    still_there = Update(partition=head.partition, when=as_found)
    after: str | None = HEAD
    try:
        while True:
            page = await hands.store.query(head.partition, after=after)
            deletes: list[Write] = [Delete(head.partition, item.sort) for item in page.items if item.sort != HEAD]
            for part in parts_of(deletes, BOUNDS):
                await hands.write(still_there, *part)
                cleaned.items += len(part)
            if (after := page.cursor) is None:
                break
        await hands.write(Delete(head.partition, HEAD, as_found))
        cleaned.heads += 1
    except Refused:
        return  # somebody has begun it anew, or is cleaning up as well


async def _collect(blobs: S3Blobs, hands: Hands, needed: set[bytes], before_ms: int, cleaned: Cleaned) -> None:
    more: dict[str, str] = {}
    while True:
        page = await blobs.objects.call("ListObjectsV2", Prefix=blobs.folder, **more)
        doomed = [each for each in page.get("Contents", ()) if _is_unneeded(each, blobs, needed, before_ms)]
        for start in range(0, len(doomed), AT_ONCE):
            some = (hands.delete(each, blobs) for each in doomed[start : start + AT_ONCE])
            cleaned.blobs += sum(await asyncio.gather(*some))
        if not page.get("IsTruncated"):
            return
        more = {"ContinuationToken": page["NextContinuationToken"]}


def _is_unneeded(described: dict[str, Any], blobs: S3Blobs, needed: set[bytes], before_ms: int) -> bool:
    digest = described["Key"][len(blobs.folder) :]
    if len(digest) != DIGEST_CHARACTERS or not set(digest) <= set("0123456789abcdef"):
        return False  # it is none of ours
    return modified_ms(described) < before_ms and bytes.fromhex(digest) not in needed
