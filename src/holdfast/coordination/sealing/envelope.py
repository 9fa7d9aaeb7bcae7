"""An envelope: what goes in is sealed for one place, and comes out there and nowhere else.

Bytes are compressed before they are sealed, for nothing compresses them afterwards. The version of the envelope is
part of every place, so that what an earlier release has sealed is not taken for what this one seals, or the other way
round.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Awaitable
from typing import Final, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.errors import Refused, StoreUnusable
from holdfast.items import Delete, Item, Put, Write
from holdfast.ports import BLOB_MARK, Seal
from holdfast.references import FIRST_SEAL_MARK, SEAL_MARK, keeper, kept_in

T = TypeVar("T")

VERSION: Final = b"2\n"
"""What every place begins with. Those of the first version begin with the name of a partition, or a digest."""

AS_IT_IS: Final = b"-"
PACKED: Final = b"z"
"""What the sealed bytes begin with: whether the rest is compressed. Then its length comes first."""

LENGTH_BYTES: Final = 8
PACKED_FROM_BYTES: Final = 512
COMPRESSION_LEVEL: Final = 1


class SealedOnly(Struct, frozen=True):
    """A seal for a home in which everything is sealed by now: a value that is not sealed is refused, wherever it is.

    ``hf.App(..., seal=hf.SealedOnly(Sealed(key)))``. Reading such a value raises ``StoreUnusable``. Without it a home
    may hold values from before it had a seal, and whoever can write to the store can add some.
    """

    seal: Seal


class Envelope:
    """Seals and opens. Takes what was stored before there was a seal as it is."""

    __slots__ = ("_seal",)

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def lenient(self) -> Envelope:
        """One that takes what was stored before there was a seal as it is."""
        return Envelope(self._seal)

    def repeatable(self) -> Envelope:
        """One that gives the same bytes for the same bytes at the same place, for as long as it is used."""
        return type(self)(_Repeating(self._seal))

    def close(self, data: bytes, place: str) -> bytes:
        """A body as it is stored. No body stays no body, and what keeps a blob names it as it is named when sealed."""
        if (kept := kept_in(data)) is not None:
            return keeper(replace(kept, digest=sealed_name(kept.digest)))
        return self.seal(data, place) if data else data

    def seal(self, data: bytes, place: str) -> bytes:
        """Any bytes, sealed."""
        return SEAL_MARK + self._seal.seal(_pack(data), VERSION + place.encode())

    def open(self, data: bytes, place: str) -> bytes:
        """What was sealed. Raises ``StoreUnusable`` if it does not open."""
        try:
            if data.startswith(SEAL_MARK):
                return _unpack(self._seal.unseal(data[len(SEAL_MARK) :], VERSION + place.encode()))
            if data.startswith(FIRST_SEAL_MARK):
                return self._seal.unseal(data[len(FIRST_SEAL_MARK) :], place.encode())
        except Exception as error:
            raise StoreUnusable(
                f"what is stored at {_told(place)} does not unseal ({type(error).__name__}): it was sealed with a key "
                "that is not here, or it was changed, or moved there. Bring the key back, or restore a backup"
            ) from error
        return self._plain(data, place)

    def open_value(self, data: bytes, place: str) -> bytes:
        """What is in no item, and so keeps no blob. Raises ``StoreUnusable`` if it begins as if it did."""
        if data.startswith(BLOB_MARK):
            raise StoreUnusable(
                f"what is stored at {_told(place)} is not sealed, and no value that was ever written there"
            )
        return self.open(data, place)

    def open_sealed(self, data: bytes, place: str) -> bytes:
        """What was sealed by this release. Raises ``StoreUnusable`` if it was not, whatever was there before."""
        if not data.startswith(SEAL_MARK):
            raise StoreUnusable(f"what is stored at {_told(place)} is not sealed")
        return self.open(data, place)

    def _plain(self, data: bytes, _place: str) -> bytes:
        return data

    def of_write(self, write: Write) -> Write:
        """The write as it is stored."""
        match write:
            case Put(item):
                return replace(write, item=replace(item, body=self.close(item.body, place_of(item))))
            case Delete():
                return write
            case _:
                if write.body is UNSET:
                    return write
                return replace(write, body=self.close(write.body, f"{write.partition}\n{write.sort}"))

    def of_item(self, item: Item) -> Item:
        """The item as it was written."""
        return replace(item, body=self.open(item.body, place_of(item))) if item.body else item

    async def of_answer(self, answer: Awaitable[T]) -> T:
        """The answer of a write, or its refusal, with the item as it was written."""
        try:
            return await answer
        except Refused as refused:
            if refused.item is None:
                raise
            raise Refused(refused.index, self.of_item(refused.item)) from None


class StrictEnvelope(Envelope):
    """Refuses what is not sealed."""

    __slots__ = ()

    def _plain(self, data: bytes, place: str) -> bytes:
        if data.startswith(BLOB_MARK):  # no value, but what keeps a blob, whose own content is sealed
            return data
        raise StoreUnusable(
            f"what is stored at {_told(place)} is not sealed, and this app takes only what is (hf.SealedOnly). If it "
            "is from before the seal, seal it: holdfast seal -a MODULE:APP. If it is not, somebody without the key put "
            "it there"
        )


def envelope_for(seal: Seal | SealedOnly) -> Envelope:
    """The envelope of an app that was given this seal."""
    return StrictEnvelope(seal.seal) if isinstance(seal, SealedOnly) else Envelope(seal)


def sealed_name(digest: str) -> str:
    """The name in the store of a sealed blob that its user names by ``digest``: never that of one from before."""
    return hashlib.sha256(f"holdfast sealed blob\n{digest}".encode()).hexdigest()


def place_of(item: Item) -> str:
    """Where an item's body is kept. No other place has a line break in just its middle."""
    return f"{item.partition}\n{item.sort}"


class _Repeating:
    """A seal that remembers."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._sealed: dict[tuple[bytes, bytes], bytes] = {}

    def seal(self, data: bytes, place: bytes) -> bytes:
        if (data, place) not in self._sealed:
            self._sealed[data, place] = self._seal.seal(data, place)
        return self._sealed[data, place]

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        return self._seal.unseal(sealed, place)


def _pack(data: bytes) -> bytes:
    if len(data) >= PACKED_FROM_BYTES:
        packed = zlib.compress(data, COMPRESSION_LEVEL)
        if len(packed) + LENGTH_BYTES < len(data):
            return PACKED + len(data).to_bytes(LENGTH_BYTES, "big") + packed
    return AS_IT_IS + data


def _unpack(packed: bytes) -> bytes:
    kind, rest = packed[:1], packed[1:]
    if kind == AS_IT_IS:
        return rest
    if kind != PACKED:
        raise ValueError("no envelope of this version")
    length = int.from_bytes(rest[:LENGTH_BYTES], "big")
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(rest[LENGTH_BYTES:], length)
    if len(data) != length or unpacker.unconsumed_tail:
        raise ValueError("another length than the one that was sealed")
    return data


def _told(place: str) -> str:
    return " / ".join(filter(None, place.split("\n")))
