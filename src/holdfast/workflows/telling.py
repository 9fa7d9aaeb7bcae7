"""What the head of an execution tells of its body, and how much of that the store is known to have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.kernel.entity import Told
from holdfast.workflows.waits import Waits

Encode = Callable[[Waits | None], bytes]

SEAL_BYTES: Final = 512
"""What a seal adds to a body, at most."""

NOTHING: Final = hash(None)


class Telling:
    """What one execution tells. ``earlier`` is what its head said when it was taken up, until its owner knows better.

    A body that the store would keep aside for its size is not written only to tell something: that takes a request of
    its own (G14).
    """

    __slots__ = ("_next", "_stored", "earlier")

    def __init__(self, earlier: Waits | None) -> None:
        self.earlier = earlier
        self._stored: int | None = NOTHING if earlier is None else _mark(earlier)
        self._next: int | None = None

    def at_rest(self, waits: Waits | None, encode: Encode, inline_bytes: int, *, is_saved: bool) -> bytes | UnsetType:
        """The body as a release shall leave it. ``is_saved``: the store has all the rest of it."""
        self._next = mark = _mark(waits)
        if is_saved and mark == self._stored:
            return UNSET
        body = encode(waits)
        if _fits(body, inline_bytes):
            return body
        self._next = None
        if is_saved:
            return UNSET
        plain = encode(None)
        return plain if _fits(plain, inline_bytes) else body

    def saved(self) -> None:
        """The release is written."""
        self.earlier, self._stored = None, self._next

    def at_work(self, waits: Waits | None, encode: Encode, inline_bytes: int, epoch: int) -> Told | None:
        """The body as a renewal shall leave it, if that is news. Until it is known to be written, the next write of a
        body counts as news too.
        """
        mark = _mark(waits)
        if waits is None or mark == self._stored:
            return None
        body = encode(replace(waits, epoch=epoch))
        if not _fits(body, inline_bytes):
            return None
        self._stored = None
        return Told(body, partial(self._written, mark))

    def _written(self, mark: int) -> None:
        self._stored = mark


def _mark(waits: Waits | None) -> int:
    """A number that tells one content from another, within this process, whichever process has written it."""
    return hash(waits if waits is None or not waits.epoch else replace(waits, epoch=0))


def _fits(body: bytes, inline_bytes: int) -> bool:
    return len(body) <= inline_bytes - SEAL_BYTES
