"""The arguments in a command, as JSON: an object by name, an array in order, or the one argument itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Raw

from holdfast.codec.parameters import INPUT_LIMIT_BYTES

if TYPE_CHECKING:
    from holdfast.codec.signature import Signature

NO_ARGUMENTS: Final = Raw(b"[]")

LEFT_OUT: Final = Raw(b"")
"""In place of arguments: the caller has sent none. It is this object itself, and nothing that equals it."""


def given(data: bytes) -> Raw:
    """Arguments that may be left out by sending nothing."""
    return Raw(data) if data.strip() else LEFT_OUT


def arguments_of(signature: Signature, args: Raw, limit_bytes: int = INPUT_LIMIT_BYTES) -> bytes:
    """Arguments, checked, as every source of a call writes them, so that the same input gives the same bytes (G11).

    Raises ``InvalidInput``.
    """
    if args is LEFT_OUT:
        return signature.bind((), {}, limit_bytes=limit_bytes)
    return signature.parse(bytes(args), limit_bytes=limit_bytes)
