"""Changing the number of parts of the index ``due`` while processes work. See ``settings``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.backends.aws.layout import DUE_INDEX, part_of, text
from holdfast.backends.aws.settings import SETTINGS_SORT, TRUSTED_MS, KnownSettings, Settings, settings_in
from holdfast.backends.aws.store import DynamoStore
from holdfast.backends.aws.transport import Transport
from holdfast.clock import MS_PER_HOUR, MS_PER_MINUTE, Clock, iso, moment
from holdfast.errors import ConfigurationError, Refused
from holdfast.items import ABSENT, Item, Put, RevisionIs
from holdfast.ports import SALT_PARTITION

MOST_PARTS: Final = 200

ANNOUNCED_MS: Final = TRUSTED_MS + MS_PER_MINUTE
"""A change is written this long before it takes effect."""

SETTLED_MS: Final = MS_PER_HOUR
"""This long after a change took effect, no request of a process that did not know of it is under way."""

AT_ONCE: Final = 16

LAG_SECONDS: Final = 0.2
"""The pause before another look, if the index still shows heads that have moved."""


async def change_parts(store: DynamoStore, parts: int, clock: Clock) -> Settings:
    """Use this number of parts from ``ANNOUNCED_MS`` on, and return the new settings. Nothing is written if it is the
    number that is used already.

    Raises ``ConfigurationError`` for a number that is too large, and while an earlier change has not taken effect.
    """
    if not 1 <= parts <= MOST_PARTS:
        raise ConfigurationError(f"the index has between 1 and {MOST_PARTS} parts, and not {parts}")
    item = await store.get(SALT_PARTITION, SETTINGS_SORT)
    there, now = settings_in(item), clock.now_ms()
    if there.parts == parts:
        return there
    if there.since > now:
        raise ConfigurationError(f"a change takes effect at {iso(moment(there.since))}: change it again after that")
    before = (*(each for each in there.parts_before if each != parts), there.parts)
    wanted = replace(there, parts=parts, parts_before=before, since=now + ANNOUNCED_MS)
    await write_settings(store, item, wanted)
    return wanted


async def keep_parts(store: DynamoStore, known: KnownSettings, parts: int) -> None:
    """Have the index in this number of parts. It asks for nothing while the settings that this process knows say so,
    and does nothing while an earlier change has not taken effect.

    Raises ``ConfigurationError`` as ``change_parts`` does.
    """
    if (await known.now()).parts == parts:
        return
    there, now = settings_in(await store.get(SALT_PARTITION, SETTINGS_SORT)), store.clock.now_ms()
    if there.parts != parts and there.since <= now:
        await change_parts(store, parts, store.clock)


async def settle(store: DynamoStore, transport: Transport, clock: Clock) -> int:
    """Move the heads that are still in parts of the index that are no longer used, and forget these parts. Returns how
    many were moved.

    It may be stopped anywhere and begun again, and run while processes work: each head is moved by a write that is
    refused if it has moved by itself. Raises ``ConfigurationError`` within an hour of a change.
    """
    item = await store.get(SALT_PARTITION, SETTINGS_SORT)
    there = settings_in(item)
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
            some = (_move(each, there.parts, transport) for each in found[start : start + AT_ONCE])
            moved += sum(await asyncio.gather(*some))
        if moved == before:
            await asyncio.sleep(LAG_SECONDS)
    await write_settings(store, item, replace(there, parts_before=()))
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


async def _move(found: tuple[str, str], parts: int, transport: Transport) -> bool:
    """Put a head into its part, of this number of parts; false if it is not where it was found."""
    partition, part = found
    values = {":from": text(part), ":to": text(part_of(partition, parts))}
    return await transport.amend(partition, "SET #q = :to", "#q = :from", {"#q": "q"}, values)


async def write_settings(store: DynamoStore, there: Item | None, wanted: Settings) -> None:
    """Replace the settings that were read. Raises ``ConfigurationError`` if another process has changed them since."""
    revision = 0 if there is None else there.revision
    item = Item(SALT_PARTITION, SETTINGS_SORT, revision=revision + 1, body=msgspec.json.encode(wanted))
    try:
        await store.write(Put(item, ABSENT if there is None else RevisionIs(revision)))
    except Refused as refused:
        raise ConfigurationError("another process has just changed the settings: look at them again") from refused
