"""How a body is packed into its item: by zlib, with a dictionary of what records of executions are written with.

A head holds little but names of fields, times and digests, and the last result. The dictionary takes the names out of
it, some 140 bytes, which decides whether it is one write unit or two.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

PLAIN: Final = "b"
PACKED: Final = "y"
PACKED_BEFORE: Final = "z"
"""The attributes of a body: as it is, packed with the dictionary, and packed without one, as earlier code did it."""

ATTRIBUTES: Final = (PLAIN, PACKED, PACKED_BEFORE)

PACKED_FROM_BYTES: Final = 512
"""A body of this many bytes may be what makes an item two kilobytes instead of one. Packing a kilobyte takes some 20
microseconds; the request takes milliseconds."""

LARGEST_PACKED_BYTES: Final = 64 * 2**20
"""No larger body is packed or unpacked: 400 KB can become 400 MB."""

LEVEL: Final = 3
WINDOW_BITS: Final = 15
MEMORY_LEVEL: Final = 8
"""The defaults of zlib, which its interface wants before the dictionary."""

DICTIONARY: Final = (
    b'"attempts":"error":{"type":"builtins.","message":"traceback":"again_at":"others":["tags":{"parent":{"partition":"wf#'
    b'"root":"wf#"deadline_at":17"awaited_by":["seen":["starter":{"partition":"published":"trace":"00-'
    b'"result":null,"ended_at":17,"tail":[{"type":"done","op":"sleep#0","at":17,"kind":"timer","fingerprint":"'
    b'{"workflow":"","id":"","version":"","input":{},"fingerprint":"","created_at":17,"secret":"","nonce":"","run":'
    b'000000,"run_at":17,"waits":{"w":[{"k":"timer","o":"sleep#0","u":17,"p":".py: in "}]},"notes":['
    b'{"type":"done","op":"#0","at":17,"kind":"step","value":"","fingerprint":"","began":17},'
    b'{"type":"pending","operations":{"#0":""},"waits":["sleep#0"]}],"notes_at":'
)
"""Never change it: what was packed with it could not be read. Another one needs another attribute."""


def packed(body: bytes) -> tuple[str, bytes]:
    """The name of the attribute for a body, and its value: packed if that makes it smaller."""
    if PACKED_FROM_BYTES < len(body) <= LARGEST_PACKED_BYTES:
        packer = zlib.compressobj(
            LEVEL, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, zdict=DICTIONARY
        )
        smaller = packer.compress(body) + packer.flush()
        if len(smaller) < len(body):
            return PACKED, smaller
    return PLAIN, body


def unpacked(wire: dict[str, dict[str, Any]]) -> bytes:
    """The body in these attributes. Raises ``zlib.error`` for one that was damaged."""
    if PACKED in wire:
        return _unpack(wire[PACKED]["B"], zlib.decompressobj(zdict=DICTIONARY))
    if PACKED_BEFORE in wire:
        return _unpack(wire[PACKED_BEFORE]["B"], zlib.decompressobj())
    return bytes(wire[PLAIN]["B"]) if PLAIN in wire else b""


def _unpack(value: bytes, unpacker: Any) -> bytes:
    body: bytes = unpacker.decompress(value, LARGEST_PACKED_BYTES)
    if not unpacker.eof:
        raise zlib.error(f"it is cut off, or becomes more than {LARGEST_PACKED_BYTES:,} bytes")
    return body
