"""The settings of a home on AWS: one item in its table, which every process reads before it needs it, and again later.

``parts`` is the number of parts of the index ``due``. A part of an index takes 1,000 writes a second ("Best practices
for designing and using partition keys effectively", DynamoDB developer guide:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html).

A change is one conditional write, and takes effect at a time in the future (``since``) by which every process has read
it: the processes that read find a head wherever a process that writes puts it. Parts are numbered from 0, so heads of
an index with fewer parts stay where they are. Heads in parts that are no longer used are found until they are moved
(``settle``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.backends.aws.layout import DEFAULT_PARTS, DUE_INDEX, decode, key, part_of, text
from holdfast.backends.aws.requests import Request
from holdfast.backends.aws.transport import RequestRefused, Transport
from holdfast.clock import MS_PER_HOUR, MS_PER_MINUTE, Clock, iso, moment
from holdfast.errors import ConfigurationError, Refused, StoreUnusable
from holdfast.items import ABSENT, HEAD, Item, Put, RevisionIs
from holdfast.ports import SALT_PARTITION

if TYPE_CHECKING:
    from holdfast.backends.aws.store import DynamoStore

SETTINGS_SORT: Final = "settings"
"""The sort key of the item, beside the salt of the home."""

MOST_PARTS: Final = 200

TRUSTED_MS: Final = 5 * MS_PER_MINUTE
"""So long a process uses what it has read. Then it reads the settings again before its next write that needs them, by
the wall clock: a process that was frozen for an hour reads them first."""

ANNOUNCED_MS: Final = TRUSTED_MS + MS_PER_MINUTE
"""So long before it takes effect a change is written."""

SETTLED_MS: Final = MS_PER_HOUR
"""So long after it took effect, no request of a process that did not know of a change is under way."""

AT_ONCE: Final = 16

LAG_SECONDS: Final = 0.2
"""So long until another look, if the index still shows heads that have moved."""


class Settings(Struct, frozen=True, omit_defaults=True):
    """The settings of a home. ``parts_before`` are earlier numbers of parts, the last one of which is in use until
    ``since`` (milliseconds).

    ``cover`` is what finds accepted work whose wake-up was lost: the index alone, or the table's stream too.

    >>> Settings(parts=20, parts_before=(4,), since=1_000).at(999).parts
    4
    """

    parts: int = DEFAULT_PARTS
    parts_before: tuple[int, ...] = ()
    cover: Literal["index", "stream"] = "index"
    since: int = 0

    @property
    def read_parts(self) -> Sequence[str]:
        """The parts of the index in which there may be a head."""
        return [str(number) for number in range(max(self.parts, *self.parts_before, 0))]

    @property
    def left_parts(self) -> Sequence[str]:
        """Those in which no head is put any more."""
        return self.read_parts[self.parts :]

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
    return _decoded(decode(answer["Item"]) if answer.get("Item") else None)


async def change_parts(store: DynamoStore, parts: int, clock: Clock) -> Settings:
    """Use so many parts from ``ANNOUNCED_MS`` on, and return the new settings. Nothing is written if they are used
    already.

    Raises ``ConfigurationError`` for a number that is too large, and while an earlier change has not taken effect.
    """
    if not 1 <= parts <= MOST_PARTS:
        raise ConfigurationError(f"the index has between 1 and {MOST_PARTS} parts, and not {parts}")
    item = await store.get(SALT_PARTITION, SETTINGS_SORT)
    there, now = _decoded(item), clock.now_ms()
    if there.parts == parts:
        return there
    if there.since > now:
        raise ConfigurationError(f"a change takes effect at {iso(moment(there.since))}: change it again after that")
    before = (*(each for each in there.parts_before if each != parts), there.parts)
    wanted = replace(there, parts=parts, parts_before=before, since=now + ANNOUNCED_MS)
    await _write(store, item, wanted)
    return wanted


async def settle(store: DynamoStore, transport: Transport, clock: Clock) -> int:
    """Move the heads that are still in parts of the index that are no longer used, and forget these parts. Returns how
    many were moved.

    It may be stopped anywhere and begun again, and run while processes work: each head is moved by a write that is
    refused if it has moved by itself. Raises ``ConfigurationError`` within an hour of a change.
    """
    item = await store.get(SALT_PARTITION, SETTINGS_SORT)
    there = _decoded(item)
    if not there.parts_before:
        return 0
    if clock.now_ms() < (allowed_from := there.since + SETTLED_MS):
        raise ConfigurationError(
            f"a process may still put work into the earlier parts: settle after {iso(moment(allowed_from))}"
        )
    moved = 0
    while found := await _found_in(there.left_parts, store.table, transport):
        before = moved
        for start in range(0, len(found), AT_ONCE):
            some = (_move(each, there.parts, store.table, transport) for each in found[start : start + AT_ONCE])
            moved += sum(await asyncio.gather(*some))
        if moved == before:
            await asyncio.sleep(LAG_SECONDS)
    await _write(store, item, replace(there, parts_before=()))
    return moved


async def _found_in(parts: Sequence[str], table: str, transport: Transport) -> list[tuple[str, str]]:
    """Some of the heads in these parts, each with its part; none only if there are none."""
    for part in parts:
        answer = await transport.call(
            "Query",
            {
                "TableName": table,
                "IndexName": DUE_INDEX,
                "KeyConditionExpression": "#q = :q",
                "ExpressionAttributeNames": {"#q": "q"},
                "ExpressionAttributeValues": {":q": text(part)},
                "ReturnConsumedCapacity": "TOTAL",
            },
        )
        if answer["Items"]:
            return [(each["p"]["S"], part) for each in answer["Items"]]
    return []


async def _move(found: tuple[str, str], parts: int, table: str, transport: Transport) -> bool:
    """Put a head into its part among so many; false if it is not where it was found. Nothing else of it changes, so
    owners do not notice, and a write that is sent again still recognises itself.
    """
    partition, part = found
    parameters: dict[str, Any] = {
        "TableName": table,
        "Key": key(partition, HEAD),
        "UpdateExpression": "SET #q = :to",
        "ConditionExpression": "#q = :from",
        "ExpressionAttributeNames": {"#q": "q"},
        "ExpressionAttributeValues": {":from": text(part), ":to": text(part_of(partition, parts))},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ReturnConsumedCapacity": "TOTAL",
    }
    try:
        await transport.write(Request("UpdateItem", parameters, (0,)))
    except RequestRefused:
        return False
    return True


async def _write(store: DynamoStore, there: Item | None, wanted: Settings) -> None:
    revision = 0 if there is None else there.revision
    item = Item(SALT_PARTITION, SETTINGS_SORT, revision=revision + 1, body=msgspec.json.encode(wanted))
    try:
        await store.write(Put(item, ABSENT if there is None else RevisionIs(revision)))
    except Refused as refused:
        raise ConfigurationError("another process has just changed the settings: look at them again") from refused


def _decoded(item: Item | None) -> Settings:
    if item is None:
        return Settings()
    try:
        return msgspec.json.decode(item.body, type=Settings)
    except msgspec.DecodeError as error:
        raise StoreUnusable(f"the settings of the home cannot be read ({error}): use a newer Holdfast") from error
