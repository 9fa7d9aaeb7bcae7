"""Cursors of listings, sealed for callers: a store's own cursors hold row numbers or keys of all tenants.

A tenant could count the rows between two of its own and so learn how much others do. The key is derived from the home's
salt, which is secret, and from the tenant, so a cursor is useless to another tenant. Only the standard library is
needed: the bytes are encrypted with SHAKE-256 of the key and of their own keyed digest, which also detects changes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from holdfast.errors import InvalidInput

DIGEST_BYTES: Final = 16
BLOCK_BYTES: Final = 64
"""Cursors are padded to a multiple of this size, so that their lengths tell little."""


class Cursors:
    """Seals and opens the cursors of one tenant. The empty tenant is for callers that are not confined."""

    __slots__ = ("_key",)

    def __init__(self, salt: str, tenant: str) -> None:
        secret = hashlib.sha256(salt.encode()).digest()
        self._key = hashlib.blake2b(tenant.encode(), key=secret, person=b"holdfast cursor").digest()

    def of(self, listing: str) -> Cursors:
        """The cursors of one listing: no other one opens them.

        >>> Cursors("salt", "").of("machines").open(Cursors("salt", "").of("machines").seal("17"))
        '17'
        """
        found = Cursors("", "")
        found._key = hashlib.blake2b(listing.encode(), key=self._key, person=b"holdfast listing").digest()
        return found

    def seal(self, cursor: str) -> str:
        """The sealed form of a store's cursor.

        >>> Cursors("salt", "acme/").open(Cursors("salt", "acme/").seal("17"))
        '17'
        """
        data = cursor.encode()
        padded = data.ljust(-(-len(data) // BLOCK_BYTES) * BLOCK_BYTES, b"\0")
        digest = self._digest(padded)
        return base64.urlsafe_b64encode(digest + self._hidden(padded, digest)).rstrip(b"=").decode()

    def open(self, told: str) -> str:
        """The store's cursor in a sealed one. Raises ``InvalidInput`` if it was not sealed for this tenant."""
        try:
            data = base64.b64decode(told.encode() + b"=" * (-len(told) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeError):
            data = b""
        digest, hidden = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
        padded = self._hidden(hidden, digest)
        if not hmac.compare_digest(self._digest(padded), digest):
            raise InvalidInput("after= must be the cursor of the previous page, as this caller received it")
        return padded.rstrip(b"\0").decode()

    def sealed(self, cursor: str | None) -> str | None:
        """The sealed form of a cursor, if there is one."""
        return None if cursor is None else self.seal(cursor)

    def opened(self, told: str | None) -> str | None:
        """The store's cursor, if one is given. Raises ``InvalidInput``."""
        return None if told is None else self.open(told)

    def _digest(self, padded: bytes) -> bytes:
        return hashlib.blake2b(padded, key=self._key, digest_size=DIGEST_BYTES).digest()

    def _hidden(self, data: bytes, digest: bytes) -> bytes:
        """Encrypt bytes. Doing it again decrypts them."""
        stream = hashlib.shake_256(self._key + digest).digest(len(data))
        return bytes(one ^ other for one, other in zip(data, stream, strict=True))
