"""The settings of a home on AWS: one item in its table, which every process reads before it needs it, and again later.

``parts`` is the number of parts of the index ``due``. A part of an index takes 1,000 writes a second ("Best practices
for designing and using partition keys effectively", DynamoDB developer guide:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html).

A change is one conditional write, and takes effect at a time in the future (``since``) by which every process has read
it: the processes that read find a head wherever a process that writes puts it. Parts are numbered from 0, so heads of
an index with fewer parts stay where they are. Heads in parts that are no longer used are found until they are moved
(``parts.settle``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.backends.aws.layout import DEFAULT_PARTS, decode, key
from holdfast.backends.aws.transport import Transport
from holdfast.clock import MS_PER_MINUTE, Clock
from holdfast.errors import StoreUnusable
from holdfast.items import Item
from holdfast.ports import SALT_PARTITION

SETTINGS_SORT: Final = "settings"
"""The sort key of the item, next to the salt of the home."""

TRUSTED_MS: Final = 5 * MS_PER_MINUTE
"""So long a process uses what it has read. Then it reads the settings again before its next write that needs them, by
the wall clock: a process that was frozen for an hour reads them first."""


Cover = Literal["index", "stream"]

Listing = Literal["scan", "index"]

STREAMED_MS: Final = MS_PER_MINUTE
"""What is due sooner than this is covered by the stream, if it covers anything: the index would be told in vain."""


class Settings(Struct, frozen=True, omit_defaults=True):
    """The settings of a home. ``parts_before`` are earlier numbers of parts, the last one of which is in use until
    ``since`` (milliseconds).

    ``cover`` is what finds accepted work whose wake-up was lost: the index alone, or the table's stream too, which
    brings into the index what is still to be done a minute later (``laggards``).

    ``listing`` is how heads are listed: by a scan of the table, or by the index ``heads``, which then has all of them
    (``listing``).

    >>> Settings(parts=20, parts_before=(4,), since=1_000).at(999).parts
    4
    """

    parts: int = DEFAULT_PARTS
    parts_before: tuple[int, ...] = ()
    cover: Cover = "index"
    listing: Listing = "scan"
    since: int = 0

    @property
    def read_parts(self) -> Sequence[str]:
        """The parts of the index in which there may be a head."""
        return [str(number) for number in range(max(self.parts, *self.parts_before, 0))]

    @property
    def left_parts(self) -> Sequence[str]:
        """Those in which no head is put any more."""
        return self.read_parts[self.parts :]

    def streamed_until(self, now: int) -> int | None:
        """The stream covers what is due until then (milliseconds); ``None`` if it covers nothing."""
        return now + STREAMED_MS if self.cover == "stream" else None

    def at(self, now: int) -> Settings:
        """As they apply at a time (milliseconds): before ``since`` the earlier number of parts is used."""
        if now >= self.since or not self.parts_before:
            return self
        return replace(self, parts=self.parts_before[-1], parts_before=(*self.parts_before[:-1], self.parts))


class KnownSettings:
    """The settings as this process knows them: read when they are first needed, and again when that was long ago."""

    def __init__(self, transport: Transport, table: str, clock: Clock) -> None:
        self._transport = transport
        self._table = table
        self._clock = clock
        self._known: tuple[Settings, int] | None = None
        self._reading = asyncio.Lock()

    @property
    def clock(self) -> Clock:
        """The clock by which they apply."""
        return self._clock

    async def now(self) -> Settings:
        """The settings that apply now. Raises like every request to the table."""
        if self._is_stale():
            async with self._reading:
                if self._is_stale():
                    asked_at = self._clock.now_ms()
                    self._known = (await read_settings(self._transport, self._table), asked_at)
        assert self._known is not None
        return self._known[0].at(self._clock.now_ms())

    def _is_stale(self) -> bool:
        return self._known is None or not 0 <= self._clock.now_ms() - self._known[1] < TRUSTED_MS


async def read_settings(transport: Transport, table: str) -> Settings:
    """The settings in a table; the defaults if it has none."""
    asked = {"TableName": table, "Key": key(SALT_PARTITION, SETTINGS_SORT), "ConsistentRead": True}
    answer = await transport.call("GetItem", asked | {"ReturnConsumedCapacity": "TOTAL"})
    return settings_in(decode(answer["Item"]) if answer.get("Item") else None)


def settings_in(item: Item | None) -> Settings:
    """The settings in their item. Raises ``StoreUnusable`` for what this release cannot read."""
    if item is None:
        return Settings()
    try:
        return msgspec.json.decode(item.body, type=Settings)
    except msgspec.DecodeError as error:
        raise StoreUnusable(f"the settings of the home cannot be read ({error}): use a newer Holdfast") from error
