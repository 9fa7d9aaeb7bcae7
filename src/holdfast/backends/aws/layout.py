"""How an item is stored in the table: its attributes, its indexes, its size.

Names of attributes are billed bytes, so they are short; zero, empty values and ``None`` are left out.

| attribute | holds |
|---|---|
| ``p``, ``s`` | partition and sort key: the key of the table |
| ``r``, ``e`` | revision, epoch |
| ``st`` | status |
| ``o``, ``lu`` | owner, lease_until (milliseconds) |
| ``d`` | due_at (milliseconds); with ``q``, of heads only, the key of the index ``due`` |
| ``xm`` | expires_at (milliseconds) |
| ``x`` | when DynamoDB's TTL may delete it, in whole seconds: then, and of heads an hour later |
| ``h``, ``c`` | the key of the index ``heads``, of heads that are listed: kind and part; when created (ms) |
| ``b``, ``y`` | body; ``y`` if it is packed (``packing``), ``z`` if earlier code has packed it |
| ``n`` | the nonce of the last write, by which a write that is sent again is recognised |
| ``i#…``, ``o#…`` | of heads only: the body of a small message, under its sort key (``enclosing``) |
| ``w`` | of heads only, instead of ``q``: it is due now, and the stream of the table shows it (``laggards``) |
| ``lc``, ``si``, ``so`` | of heads only: the bytes of these, and how often messages became items instead |

TTL deletes an expired head and leaves the journal of its execution. One that is started again under the same id has
other keys (``workflows.runs``), and the clean-up finds what was left (``leftovers``).
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from holdfast.backends.aws.packing import packed, unpacked
from holdfast.errors import InvalidInput, PayloadTooLarge, StoreUnusable
from holdfast.items import HEAD, Item
from holdfast.keys import LISTED, SEPARATOR
from holdfast.ports import LATE_MS

Attributes = dict[str, dict[str, Any]]
"""An item in DynamoDB's interface: the value of each attribute under the name of its type."""

DUE_INDEX: Final = "due"

HEADS_INDEX: Final = "heads"
"""The index by which heads are listed. A table need not have it."""

LISTED_PARTS: Final = 16
"""The number of its parts for each kind: 16,000 heads can be created a second. Never change it: a head stays in its
part."""

DEFAULT_PARTS: Final = 4
"""The number of parts of the index unless the settings of the home say otherwise: one part takes 1,000 writes a
second. Never change it: heads of homes without settings would not be found."""

LARGEST_ITEM_BYTES: Final = 380 * 1024
"""Our limit, below the 400 KB of DynamoDB: its count and our estimate may differ a little."""

LONGEST_PARTITION_BYTES: Final = 2048
LONGEST_SORT_BYTES: Final = 1024


def number(value: int) -> dict[str, Any]:
    """A number on the wire."""
    return {"N": str(value)}


def text(value: str) -> dict[str, Any]:
    """A string on the wire."""
    return {"S": value}


def key(partition: str, sort: str) -> Attributes:
    """The key of an item. Raises ``InvalidInput`` if DynamoDB would refuse it."""
    for value, longest in ((partition, LONGEST_PARTITION_BYTES), (sort, LONGEST_SORT_BYTES)):
        if not 0 < len(_utf8(value)) <= longest:
            raise InvalidInput(
                f"a key must have between 1 and {longest} bytes, and {value[:50]!r}… has {len(_utf8(value))}"
            )
    return {"p": text(partition), "s": text(sort)}


def part_of(partition: str, parts: int) -> str:
    """The part of the index to which a head belongs, of this number of parts.

    >>> part_of("wf#checkout#order-17", 4), part_of("wf#checkout#order-17", 20)
    ('3', '11')
    """
    return str(zlib.crc32(partition.encode()) % parts)


def listed_part(partition: str) -> str | None:
    """The part of the index ``heads`` to which a head belongs; ``None`` if it is of no kind that is listed.

    >>> listed_part("wf#checkout#order-17"), listed_part("stream#clicks")
    ('wf#15', None)
    """
    kind = partition.partition(SEPARATOR)[0] + SEPARATOR
    return f"{kind}{zlib.crc32(partition.encode()) % LISTED_PARTS}" if kind in LISTED else None


STREAMED: Final = text("1")
"""What ``w`` holds. A filter of a stream finds a string that exists."""


def is_streamed(due_at: int | None, until: int | None) -> bool:
    """Whether the stream covers a head that is due then, so that it need not be in the index."""
    return due_at is not None and until is not None and due_at <= until


def encode(
    item: Item,
    nonce: bytes,
    parts: int = DEFAULT_PARTS,
    streamed_until: int | None = None,
    *,
    created_at: int = 0,
) -> Attributes:
    """An item as the write with this nonce stores it, where the index has this number of parts, and the stream covers
    what is due until then (milliseconds), if it covers anything. A head is listed as created at ``created_at``
    (milliseconds).

    Raises ``PayloadTooLarge``, ``InvalidInput``.
    """
    wire = key(item.partition, item.sort) | {"n": {"B": nonce}}
    if item.status:
        wire["st"] = text(item.status)
    if item.owner is not None:
        wire["o"] = text(item.owner)
    numbers = {"r": item.revision or None, "e": item.epoch or None}
    numbers |= {"lu": item.lease_until, "d": item.due_at, "xm": item.expires_at}
    wire |= {name: number(value) for name, value in numbers.items() if value is not None}
    if item.sort == HEAD:
        if is_streamed(item.due_at, streamed_until):
            wire["w"] = STREAMED
        elif item.due_at is not None:
            wire["q"] = text(part_of(item.partition, parts))
        if (listed := listed_part(item.partition)) is not None:
            wire |= {"h": text(listed), "c": number(created_at)}
    if item.expires_at is not None:
        wire["x"] = number(ttl_seconds(item.expires_at, item.sort))
    if item.body:
        name, value = packed(item.body)
        wire[name] = {"B": value}
    check_size(size_bytes(wire), item.partition, item.sort)
    return wire


def decode(wire: Attributes) -> Item:
    """The item of these stored attributes. Raises ``StoreUnusable`` if it was damaged."""
    return Item(
        partition=wire["p"]["S"],
        sort=wire["s"]["S"],
        revision=_number(wire, "r") or 0,
        status=wire["st"]["S"] if "st" in wire else "",
        owner=wire["o"]["S"] if "o" in wire else None,
        lease_until=_number(wire, "lu"),
        epoch=_number(wire, "e") or 0,
        due_at=_number(wire, "d"),
        expires_at=_number(wire, "xm"),
        body=_body(wire),
    )


def ttl_seconds(expires_at: int, sort: str) -> int:
    """When TTL may delete an item that expires then: never earlier, and a head later (``LATE_MS``)."""
    return -(-(expires_at + (LATE_MS if sort == HEAD else 0)) // 1000)


def size_bytes(wire: Attributes) -> int:
    """The size of an item as DynamoDB counts it, or a little more ("Item sizes and formats", developer guide)."""
    return sum(len(name) + _value_bytes(value) for name, value in wire.items())


def check_size(size: int, partition: str, sort: str) -> None:
    """Raise ``PayloadTooLarge`` for an item that DynamoDB would refuse, before it is sent."""
    if size > LARGEST_ITEM_BYTES:
        raise PayloadTooLarge(
            f"the item {partition!r} / {sort!r} would have {size:,} bytes, and DynamoDB stores {LARGEST_ITEM_BYTES:,} "
            "of ours. Nothing was written. Store large values elsewhere, and their names here"
        )


def _value_bytes(value: dict[str, Any]) -> int:
    match value:
        case {"S": str(string)}:
            return len(_utf8(string))
        case {"N": str(digits)}:
            return len(digits) // 2 + 2
        case {"B": binary}:
            return len(binary)
        case _:
            return 1


def _utf8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"a value cannot be stored: {error}") from error


def _number(wire: Attributes, name: str) -> int | None:
    return int(wire[name]["N"]) if name in wire else None


def _body(wire: Attributes) -> bytes:
    try:
        return unpacked(wire)
    except zlib.error as error:
        place = f"{wire['p']['S']!r} / {wire['s']['S']!r}"
        raise StoreUnusable(f"the body of {place} is damaged ({error}): restore the table from a backup") from error
