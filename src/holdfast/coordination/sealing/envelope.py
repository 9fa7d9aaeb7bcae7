"""An envelope: bytes are sealed for one place, and open there and nowhere else.

Bytes are compressed before they are sealed, because sealed bytes do not compress. The version of the envelope is part
of every place, so bytes that an earlier release has sealed are not taken for bytes of this one, or the other way round.
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
"""The beginning of every place. Places of the first version begin with the name of a partition, or a digest."""

AS_IT_IS: Final = b"-"
PACKED: Final = b"z"
"""The beginning of the sealed bytes: whether the rest is compressed. If it is, its length comes first."""

LENGTH_BYTES: Final = 8
PACKED_FROM_BYTES: Final = 512
COMPRESSION_LEVEL: Final = 1


class SealedOnly(Struct, frozen=True):
    """A seal for a home in which everything is sealed: a value that is not sealed is refused, wherever it is.

    ``hf.App(..., seal=hf.SealedOnly(Sealed(key)))``. Reading such a value raises ``StoreUnusable``. Without it a home
    may hold values from before it had a seal, and anyone who can write to the store can add some.
    """

    seal: Seal


class Envelope:
    """Seals and opens. Values stored before there was a seal are returned as they are."""

    __slots__ = ("_seal",)

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def lenient(self) -> Envelope:
        """An envelope that returns values stored before there was a seal as they are."""
        return Envelope(self._seal)

    def repeatable(self) -> Envelope:
        """An envelope that seals the same bytes for the same place to the same bytes, as long as it is used."""
        return type(self)(_Repeating(self._seal))

    def close(self, data: bytes, place: str) -> bytes:
        """A body as it is stored. No body stays no body. A body that refers to a blob names the sealed blob."""
        if (kept := kept_in(data)) is not None:
            return keeper(replace(kept, digest=sealed_name(kept.digest)))
        return self.seal(data, place) if data else data

    def seal(self, data: bytes, place: str) -> bytes:
        """Any bytes, sealed."""
        return SEAL_MARK + self._seal.seal(_pack(data), VERSION + place.encode())

    def open(self, data: bytes, place: str) -> bytes:
        """The bytes before they were sealed. Raises ``StoreUnusable`` if they do not open."""
        try:
            if data.startswith(SEAL_MARK):
                return _unpack(self._seal.unseal(data[len(SEAL_MARK) :], VERSION + place.encode()))
            if data.startswith(FIRST_SEAL_MARK):
                return self._seal.unseal(data[len(FIRST_SEAL_MARK) :], place.encode())
        except Exception as error:
            raise StoreUnusable(
                f"what is stored at {_told(place)} does not unseal ({type(error).__name__}): it was sealed with a key "
                "that is not here, or it was changed or moved. Bring the key back, or restore a backup"
            ) from error
        return self._plain(data, place)

    def open_value(self, data: bytes, place: str) -> bytes:
        """Bytes that are in no item, so refer to no blob. Raises ``StoreUnusable`` if they begin like a reference."""
        if data.startswith(BLOB_MARK):
            raise StoreUnusable(
                f"what is stored at {_told(place)} is not sealed, and is no value that Holdfast wrote there"
            )
        return self.open(data, place)

    def open_sealed(self, data: bytes, place: str) -> bytes:
        """Bytes that this release has sealed. Raises ``StoreUnusable`` for all others, those of earlier releases
        included.
        """
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
    """Refuses values that are not sealed."""

    __slots__ = ()

    def _plain(self, data: bytes, place: str) -> bytes:
        if data.startswith(BLOB_MARK):  # no value, but a reference to a blob, whose own content is sealed
            return data
        raise StoreUnusable(
            f"what is stored at {_told(place)} is not sealed, and this app takes sealed values only (hf.SealedOnly). "
            "If it is from before the seal: holdfast seal -a MODULE:APP. If not, it was written without the key"
        )


def envelope_for(seal: Seal | SealedOnly) -> Envelope:
    """The envelope of an app that was given this seal."""
    return StrictEnvelope(seal.seal) if isinstance(seal, SealedOnly) else Envelope(seal)


def sealed_name(digest: str) -> str:
    """The name in the store of a sealed blob that its user names by ``digest``: never the name of an unsealed one."""
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
        raise ValueError("not the length that was sealed")
    return data


def _told(place: str) -> str:
    return " / ".join(filter(None, place.split("\n")))
