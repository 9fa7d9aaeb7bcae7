"""Cleaning up, which nothing on AWS does by itself: expired entities with all their items, and blobs without
references.

One scan of the table finds both. It reads everything; a projection would not make that cheaper ("Scan", API
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
from holdfast.paging import Pages
from holdfast.ports import BLOB_MARK

DIGEST_CHARACTERS: Final = 64
AT_ONCE: Final = 8


class Cleaned(Struct):
    """What was deleted: expired heads, the items that belonged to them, and blobs."""

    heads: int = 0
    items: int = 0
    blobs: int = 0


Tell = Callable[[int, Cleaned], object]
"""Gets how many items were read so far, and what was deleted."""


class Hands:
    """The deleter; with ``dry_run`` it deletes nothing and answers as if it had."""

    def __init__(self, store: DynamoStore, blobs: S3Blobs | None, *, dry_run: bool = False) -> None:
        self.store = store
        self.blobs = blobs
        self._dry_run = dry_run

    async def write(self, *writes: Write) -> None:
        """Apply these writes. Raises ``Refused``."""
        if not self._dry_run:
            await self.store.write(*writes)

    async def delete(self, described: dict[str, Any], blobs: S3Blobs) -> bool:
        """Delete a blob as it was listed; false if it was stored again since, or is gone."""
        if self._dry_run:
            return True
        try:
            await blobs.objects.call("DeleteObject", Key=described["Key"], IfMatch=described["ETag"])
        except (ObjectChanged, ObjectMissing):
            return False
        return True


def untold(_items: int, _cleaned: Cleaned) -> None:
    """Report nothing."""


async def clean(transport: Transport, hands: Hands, clock: Clock, tell: Tell = untold) -> Cleaned:
    """Delete expired heads with all their items, then blobs that have had no reference for two days.

    It may stop, or be stopped, anywhere, and be started again, and several may run. It needs some 32 bytes of memory
    for each blob that has a reference. Blobs of what is deleted now are deleted the next time.

    No reference is overlooked although the scan is no snapshot: a writer stores the blob just before its reference, so
    that blob was last stored too recently to be collected after this scan.
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
    # The times of an unexpired item with a reference are left out: they are not needed.
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
    """Delete an entity, its head last, and each part only while the head is as it was found: an entity that starts
    again under its name writes another head.
    """
    if head.sort != HEAD or head.expires_at is None or head.expires_at > now:
        return
    as_found = AllOf((Expired(now), EpochIs(head.epoch), RevisionIs(head.revision)))
    still_there = Update(partition=head.partition, when=as_found)
    try:
        async for page in Pages(lambda after: hands.store.query(head.partition, after=after), HEAD):
            deletes: list[Write] = [Delete(head.partition, item.sort) for item in page.items if item.sort != HEAD]
            for part in parts_of(deletes, BOUNDS):
                await hands.write(still_there, *part)
                cleaned.items += len(part)
        await hands.write(Delete(head.partition, HEAD, as_found))
        cleaned.heads += 1
    except Refused:
        return  # it was started again, or another clean-up is at work


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
        return False  # it is not one of ours
    return modified_ms(described) < before_ms and bytes.fromhex(digest) not in needed
