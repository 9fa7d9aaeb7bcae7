"""The arguments in a command, as JSON: an object by name, an array in order, or the one argument itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Raw

from holdfast.codec.parameters import INPUT_LIMIT_BYTES

if TYPE_CHECKING:
    from holdfast.codec.signature import Signature

NO_ARGUMENTS: Final = Raw(b"[]")

UNCHANGED: Final = Raw(b"")
"""In place of new arguments for a parked message: it keeps those it has."""


def arguments_of(signature: Signature, given: Raw, limit_bytes: int = INPUT_LIMIT_BYTES) -> bytes:
    """Arguments, checked, as every source of a call writes them, so that the same input gives the same bytes (G11).

    Nothing at all is no arguments. Raises ``InvalidInput``.
    """
    data = bytes(given)
    if data.strip():
        return signature.parse(data, limit_bytes=limit_bytes)
    return signature.bind((), {}, limit_bytes=limit_bytes)
