"""Work that is not done although the stream of the table has shown it a while ago: it comes into the index.

Where the stream covers accepted work, a head that is due now is not in the index, but has the attribute ``w``, and its
owner takes that away with what it was for. So a message costs no entry of the index: two units less. The stream brings
each change of such a head to a function a minute later, and often its end with it. What is not done by then enters the
index, where sweeps find it, whichever process or wake-up was lost (G1). Every write that makes a head due is in the
stream, so none is missed; if the function is down, Lambda delivers the changes later, for up to a day ("Change data
capture for DynamoDB Streams", DynamoDB developer guide:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.backends.aws.layout import part_of, text
from holdfast.backends.aws.parts import write_settings
from holdfast.backends.aws.settings import SETTINGS_SORT, Cover, KnownSettings, settings_in
from holdfast.backends.aws.store import DynamoStore
from holdfast.backends.aws.table import STREAM_VIEW
from holdfast.backends.aws.transport import Transport
from holdfast.errors import ConfigurationError
from holdfast.ports import SALT_PARTITION

AT_ONCE: Final = 16


class StreamLaggards:
    """Brings heads into the index."""

    def __init__(self, transport: Transport, settings: KnownSettings) -> None:
        self._transport = transport
        self._settings = settings

    async def keep(self, partitions: Sequence[str]) -> int:
        """See ``Laggards.keep``."""
        parts = (await self._settings.now()).parts
        kept = 0
        for start in range(0, len(partitions), AT_ONCE):
            some = (self._index(each, part_of(each, parts)) for each in partitions[start : start + AT_ONCE])
            kept += sum(await asyncio.gather(*some))
        return kept

    async def _index(self, partition: str, part: str) -> bool:
        """False if what was to be done is done, or the head is in the index."""
        left = "attribute_exists(#w) AND attribute_not_exists(#q)"
        return await self._transport.amend(partition, "SET #q = :q", left, {"#q": "q", "#w": "w"}, {":q": text(part)})


async def change_cover(store: DynamoStore, transport: Transport, cover: Cover) -> None:
    """Have accepted work covered by the stream too, or by the index alone. Processes learn of it within minutes; what
    was written before stays covered as it was, so the function must go on reading the stream for a day.

    Raises ``ConfigurationError`` if the table has no stream to read.
    """
    item = await store.get(SALT_PARTITION, SETTINGS_SORT)
    there = settings_in(item)
    if there.cover == cover:
        return
    if cover == "stream":
        found = (await transport.call("DescribeTable", {"TableName": store.table}))["Table"]
        if found.get("StreamSpecification", {}).get("StreamViewType") != STREAM_VIEW:
            raise ConfigurationError(
                f"the table {store.table} has no stream with {STREAM_VIEW}, and so no function reads it: deploy with "
                "stream=True (--stream) first"
            )
    await write_settings(store, item, replace(there, cover=cover))
