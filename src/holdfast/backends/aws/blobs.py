"""The ``Blobs`` port on S3: one object for each blob, under the home's prefix and the blob's digest.

A blob is collected two days after it was last stored, if it has no reference then (``cleaning``). A writer that stores
an existing blob may be about to refer to it, so it is put again once less time is left than the writer needs. S3 counts
from ``LastModified``, which only a put renews.

Each put begins with a new stamp. So the tag of the object (ETag) changes too, and a deletion that
was decided before, and names the old tag, is refused: "How to perform conditional deletes" (user guide).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from holdfast.backends.aws.meter import Meter
from holdfast.backends.aws.objects import ObjectChanged, ObjectMissing, Objects
from holdfast.errors import StoreUnavailable
from holdfast.ids import new_id

INLINE_BYTES: Final = 9 * 1024 - 256
"""The largest body, packed, that stays in its item on AWS.

A put costs as much as eight write units, and the reference to the blob one more. So a body that makes its item larger
than nine kilobytes is cheaper in S3, and a smaller one is cheaper, and faster, in DynamoDB. The rest is room for the
item's keys and header. A hundred such bodies also fit into one transaction."""

KEPT_MS: Final = 48 * 3600 * 1000
"""How long a blob stays after it was last stored, with or without a reference. No writer asks for more than half of it.
"""

STAMP_BYTES: Final = 16
PIECE_BYTES: Final = 4 * 1024 * 1024


class S3Blobs:
    """Blobs in a bucket. A new one costs a put; an existing one a refused put, a read and, seldom, another put."""

    def __init__(self, objects: Objects, prefix: str) -> None:
        self.objects = objects
        self.folder = f"{prefix}/"

    @property
    def meter(self) -> Meter:
        """How many requests were sent, by operation."""
        return self.objects.meter

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """See ``Blobs.put``. ``keep_until`` is about a day from now."""
        key, body = self.folder + digest, bytes.fromhex(new_id()) + data
        while True:
            try:
                await self.objects.call("PutObject", Key=key, Body=body, IfNoneMatch="*")
                return
            except ObjectChanged:
                pass  # it exists, perhaps by our own put whose answer was lost
            try:
                there = await self.objects.call("HeadObject", Key=key)
            except ObjectMissing:
                continue  # it was collected just now
            is_whole = there["ContentLength"] == len(body)
            if not is_whole or modified_ms(there) + KEPT_MS < keep_until:
                await self.objects.call("PutObject", Key=key, Body=body)
            return

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """See ``Blobs.read``. A piece is a request. Raises ``StoreUnavailable`` if it is stored again meanwhile."""
        start, condition = STAMP_BYTES, dict[str, str]()
        while True:
            wanted = f"bytes={start}-{start + PIECE_BYTES - 1}"
            try:
                answer = await self.objects.call("GetObject", Key=self.folder + digest, Range=wanted, **condition)
            except (ObjectMissing, ObjectChanged):
                if not condition:
                    return
                raise StoreUnavailable(f"blob {digest} was stored again, or collected, while it was read") from None
            yield answer["Body"]
            start += len(answer["Body"])
            if start >= int(answer["ContentRange"].rpartition("/")[2]):
                return
            condition = {"IfMatch": answer["ETag"]}

    def close(self) -> None:
        """Send nothing more."""
        self.objects.close()


def modified_ms(described: dict[str, Any]) -> int:
    """When an object was last put, by S3's clock, in milliseconds."""
    return int(described["LastModified"].timestamp() * 1000)
