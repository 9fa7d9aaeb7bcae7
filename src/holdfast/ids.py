"""Ids and secrets, the only place that uses the operating system's randomness (lint enforces it)."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Final

import msgspec

SECRET_BYTES: Final = 24


def new_id() -> str:
    """A fresh, unguessable id: 128 bits as 32 hexadecimal digits."""
    return os.urandom(16).hex()


def new_ordered_id(now_ms: int) -> str:
    """A fresh, unguessable id (80 random bits) that sorts behind the ids of earlier milliseconds.

    Rows under such ids go to the end of an index instead of all over it, which makes a commit of many rows a fifth
    cheaper.
    """
    return f"{now_ms:012x}{os.urandom(10).hex()}"


def new_secret() -> str:
    """A fresh secret for signing tokens: 192 bits as hexadecimal digits."""
    return os.urandom(SECRET_BYTES).hex()


def new_seed() -> int:
    """A fresh seed for a generator of pseudo-random numbers, 64 bits."""
    return int.from_bytes(os.urandom(8), "big")


def new_nonce() -> str:
    """Distinguishes one start from every other start of the same id: 64 random bits as 16 hexadecimal digits."""
    return os.urandom(8).hex()


def derive(*parts: str) -> str:
    """An identity derived from others: 160 bits of BLAKE2b as 40 hexadecimal digits, for parts of any length.

    >>> derive("ab", "c") == derive("a", "bc")
    False
    """
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=20).hexdigest()


def fingerprint(data: bytes) -> str:
    """A short digest that distinguishes two inputs: 64 bits of BLAKE2b as 16 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def sign(secret: str, message: str) -> str:
    """A signature over ``message`` (HMAC-SHA256, hexadecimal) that only a holder of ``secret`` can make."""
    return hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()


def signature_matches(secret: str, message: str, signature: str) -> bool:
    """Whether ``signature`` is the signature of ``message``; takes the same time whichever digit differs."""
    return hmac.compare_digest(sign(secret, message).encode(), signature.encode())
