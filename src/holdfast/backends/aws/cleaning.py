"""Cleaning up what TTL does not delete: the journals of executions that have expired, and blobs without references.

One scan of the table finds both. It reads everything; a projection would not make that cheaper ("Scan", API
reference): half a read unit for each 4 KB, $0.016 for each GB. Then one write unit for each kilobyte that is deleted,
and $0.005 for each million blobs to list them. Deleting objects is free. The function of the template is called for it
once a day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final, Literal

from msgspec import Struct

from holdfast.backends.aws.blobs import KEPT_MS, S3Blobs, modified_ms
from holdfast.backends.aws.layout import Attributes, number, text
from holdfast.backends.aws.leftovers import Leftovers
from holdfast.backends.aws.objects import ObjectChanged, ObjectMissing
from holdfast.backends.aws.transport import Transport
from holdfast.clock import Clock
from holdfast.items import HEAD
from holdfast.keys import EXECUTIONS
from holdfast.ports import BLOB_MARK, LATE_MS

DIGEST_CHARACTERS: Final = 64
AT_ONCE: Final = 8
MARK: Final = {"B": BLOB_MARK}


SEGMENTS: Final = 4
"""How many parts of the table are read concurrently."""

DONE: Final = "done"

End = Attributes | Literal["done"] | None
"""How far a segment was read: behind an item, all of it, or nothing of it."""

Position = Sequence[End]
"""How far each segment was read."""


class Cleaned(Struct):
    """What was deleted: items of executions that have expired, blobs, and expired heads that TTL does not delete.

    ``position`` is where the next clean-up goes on; empty if this one has read all of the table.
    """

    heads: int = 0
    items: int = 0
    blobs: int = 0
    position: Position = ()


Tell = Callable[[int, Cleaned], object]
"""Gets how many items were read so far, and what was deleted."""


class Hands(Struct, frozen=True):
    """What is cleaned; with ``dry_run`` nothing is deleted, and all is counted as if it had been."""

    transport: Transport
    table: str
    blobs: S3Blobs | None = None
    dry_run: bool = False

    async def delete(self, described: dict[str, Any], blobs: S3Blobs) -> bool:
        """Delete a blob as it was listed; false if it was stored again since, or is gone."""
        if self.dry_run:
            return True
        try:
            await blobs.objects.call("DeleteObject", Key=described["Key"], IfMatch=described["ETag"])
        except (ObjectChanged, ObjectMissing):
            return False
        return True


def untold(_items: int, _cleaned: Cleaned) -> None:
    """Report nothing."""


async def clean(
    hands: Hands, clock: Clock, tell: Tell = untold, *, position: Position = (), until: float = inf
) -> Cleaned:
    """Delete what is left of executions that have expired, then blobs that have had no reference for two days.

    It may stop, or be stopped, anywhere, and be started again, and several may run. It needs some 32 bytes of memory
    for each blob that has a reference. Blobs of what is deleted now are deleted the next time.

    It begins at the position that an earlier one has left, and stops at ``until``, in the loop's time. Blobs are
    collected only by one that reads all of the table.

    No reference is overlooked although the scan is no snapshot: a writer stores the blob just before its reference, so
    that blob was last stored too recently to be collected after this scan.
    """
    this = _Pass(hands, clock.now_ms(), tell, until)
    segments = enumerate(position or (None,) * SEGMENTS)
    ends = await asyncio.gather(*(this.scan(segment, after) for segment, after in segments))
    if any(end != DONE for end in ends):
        this.cleaned.position = ends
    elif hands.blobs is not None and not position:
        await _collect(hands.blobs, hands, this.needed, this.began_ms - KEPT_MS, this.cleaned)
    return this.cleaned


class _Pass:
    """One scan of the table, and what has come of it."""

    def __init__(self, hands: Hands, began_ms: int, tell: Tell, until: float) -> None:
        self.cleaned = Cleaned()
        self.needed = set[bytes]()
        self.began_ms = began_ms
        self._hands = hands
        self._tell = tell
        self._until = until
        self._items = 0

    async def scan(self, segment: int, after: End) -> End:
        """Read one segment, and delete what is left over in it; answers how far it has come."""
        hands, loop = self._hands, asyncio.get_running_loop()
        left = Leftovers(hands.transport, hands.table, self.began_ms, dry_run=hands.dry_run)
        while after != DONE and loop.time() < self._until:
            answer = await hands.transport.call("Scan", self._parameters(segment, after))
            for wire in answer["Items"]:
                self._note_reference(wire)
                left.note(wire)
            after = answer.get("LastEvaluatedKey", DONE)
            if left.is_full:
                await left.flush()
                self._count(left)
            self._items += answer["ScannedCount"]
            self._tell(self._items, self.cleaned)
        await left.finish()
        self._count(left)
        return after

    def _count(self, left: Leftovers) -> None:
        self.cleaned.heads += left.heads
        self.cleaned.items += left.items
        left.heads = left.items = 0

    def _note_reference(self, wire: Attributes) -> None:
        body = bytes(wire["b"]["B"]) if "b" in wire else b""
        if body.startswith(BLOB_MARK):
            self.needed.add(bytes.fromhex(body[len(BLOB_MARK) :][:DIGEST_CHARACTERS].decode()))

    def _parameters(self, segment: int, after: Attributes | None) -> dict[str, Any]:
        filters = "begins_with(#p, :executions) OR (#s = :head AND #xm <= :late)"
        names = ["p", "s", "o", "lu", "x", "xm", "n"]
        values = {":executions": text(EXECUTIONS), ":head": text(HEAD), ":late": number(self.began_ms - LATE_MS)}
        if self._hands.blobs is not None:
            filters, names, values = f"{filters} OR begins_with(#b, :mark)", [*names, "b"], values | {":mark": MARK}
        parameters: dict[str, Any] = {
            "TableName": self._hands.table,
            "Segment": segment,
            "TotalSegments": SEGMENTS,
            "FilterExpression": filters,
            "ProjectionExpression": ", ".join(f"#{name}" for name in names),
            "ExpressionAttributeNames": {f"#{name}": name for name in names},
            "ExpressionAttributeValues": values,
            "ReturnConsumedCapacity": "TOTAL",
        }
        return parameters if after is None else parameters | {"ExclusiveStartKey": after}


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
