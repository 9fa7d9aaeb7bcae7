"""Randomness with a seed, where the library uses the operating system's: ids and secrets repeat."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, Final, cast
from unittest import mock

from holdfast import ids

ONE_NONCE: Final = "nonce"

_nonces_are_fresh: Final = ContextVar("_nonces_are_fresh", default=False)

LONGEST_READABLE_BYTES: Final = 200
"""Longer identities are digests here too: readable ones grow with the texts from which they are derived."""


class _SeededSystem:
    """Replaces the module ``os`` inside ``holdfast.ids``."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def urandom(self, count: int) -> bytes:
        return self._random.randbytes(count)


_digest: Final = ids.derive


def _readable(*parts: str) -> str:
    whole = "/".join(parts)
    return whole if len(whole.encode()) <= LONGEST_READABLE_BYTES else _digest(*parts)


@contextmanager
def fresh_nonces() -> Generator[None]:
    """Let every start inside the block draw its own nonce: if an id is used again, its keys differ."""
    token = _nonces_are_fresh.set(True)
    try:
        yield
    finally:
        _nonces_are_fresh.reset(token)


def _nonce() -> str:
    return f"{ONE_NONCE} {ids.new_id()}" if _nonces_are_fresh.get() else ONE_NONCE


@contextmanager
def seeded_entropy(seed: int) -> Generator[None]:
    """Let ``holdfast.ids`` draw from a generator inside the block. Never for anything that must stay secret.

    Every start gets the same nonce, and derived identities are readable, except long ones: the keys of an execution
    follow from its id, so runs can be compared although they start their executions in another order.

    >>> with seeded_entropy(7):
    ...     first = ids.new_id()
    >>> with seeded_entropy(7):
    ...     first == ids.new_id()
    True
    """
    with (
        mock.patch.object(ids, "os", cast("Any", _SeededSystem(Random(seed)))),
        mock.patch.object(ids, "new_nonce", _nonce),
        mock.patch.object(ids, "derive", _readable),
    ):
        yield
