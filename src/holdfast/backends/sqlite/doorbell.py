"""The ``Doorbell`` port between processes on one machine: a Unix datagram socket per open home, in a private folder.

Nobody polls. A ring is one datagram to each other home; whether a process lives is asked of the kernel, which refuses
a connection to a socket that nobody has open. So a process killed with -9 is known to be gone at once, a stopped one
counts as alive, and process ids, which are used again, play no part.

Open after ``fork``, never before: a child that inherits the socket would answer for its dead parent.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from holdfast.backends.sqlite.bell_folder import bell_folder
from holdfast.errors import StoreUnusable
from holdfast.ids import new_id

OWNER: Final = re.compile(r"[0-9]{1,10}-[0-9a-f]{12}")
"""What an owner name looks like. Anything else in the folder is not a bell, and is left alone."""

RING_BYTES: Final = 16 * 2**10
"""A datagram that would be larger says "look at all" instead."""

RINGS_PER_WAKE: Final = 100
"""How many datagrams are read before the event loop gets its turn."""

RETRY_SECONDS: Final = (0.02, 0.2, 1.0)
"""When to ring again at homes whose queue was full. After that only the next ring, or their sweep, tells them."""

BIND_TRIES: Final = 100
"""How often a folder may vanish between its making and its use."""

LOOK_AT_ALL: Final = b"null"
HELLO: Final = b"[]"
"""Rings for nothing; makes the others look for new homes."""

_decoder: Final = msgspec.json.Decoder(list[str] | None)
_encode: Final = msgspec.json.Encoder().encode


def new_owner() -> str:
    """A fresh owner name: the process id is for people to read, the rest makes it unique."""
    return f"{os.getpid()}-{new_id()[:12]}"


class SocketDoorbell:
    """Belongs to the event loop on which it was made."""

    def __init__(self, path: str, owner: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._folder, self._socket = _bind(path, owner)
        self._rung: set[str] = set()
        self._peers: frozenset[str] = frozenset()
        self._peers_as_of: int | None = None
        """When the folder was last changed, as of the listing in ``_peers``; ``None`` means list it again."""
        self._dead: set[str] = set()
        self._behind: set[str] = set()
        """Homes that missed a ring because their queue was full: the next one says "look at all"."""
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        self._send_to(self.peers(), HELLO)

    # ── Ringing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def ring(self, partition: str) -> None:
        """See ``Doorbell.ring``. The rings of one tick of the event loop leave together."""
        if not self._rung:
            self._loop.call_soon(self._send_rung)
        self._rung.add(partition)

    def _send_rung(self) -> None:
        rung, self._rung = self._rung, set()
        if not self._closed and (peers := self.peers()):
            self._send_to(peers, _message(rung))

    def _send_to(self, peers: Iterable[str], message: bytes) -> None:
        for peer in peers:
            try:
                self._socket.sendto(LOOK_AT_ALL if peer in self._behind else message, str(self._folder / peer))
            except BlockingIOError:
                self._behind.add(peer)
                self._ring_again(0)
            except (ConnectionRefusedError, FileNotFoundError):
                self._bury(peer)
            except OSError:
                # No memory for it, no permission (a home opened by root): a ring may be lost.
                continue
            else:
                self._behind.discard(peer)

    def _ring_again(self, attempt: int) -> None:
        if self._retry is None and attempt < len(RETRY_SECONDS):
            self._retry = self._loop.call_later(RETRY_SECONDS[attempt], self._send_again, attempt)

    def _send_again(self, attempt: int) -> None:
        # While this runs `_retry` stays set, so that a queue that is still full leads to the next attempt below.
        self._send_to(sorted(self._behind), LOOK_AT_ALL)
        self._retry = None
        if self._behind:
            self._ring_again(attempt + 1)

    # ── Listening ───────────────────────────────────────────────────────────────────────────────────────────────────

    def listen(self, heard: Callable[[str | None], None]) -> None:
        """See ``Doorbell.listen``. Rings since this home was opened are heard now, up to the kernel's queue."""
        self._loop.add_reader(self._socket, self._receive, heard)

    def _receive(self, heard: Callable[[str | None], None]) -> None:
        for _ in range(RINGS_PER_WAKE):
            try:
                datagram = self._socket.recv(RING_BYTES + 1)
            except OSError:  # nothing more to read, or closed by what was heard
                return
            self._peers_as_of = None
            try:
                rung = _decoder.decode(datagram)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                continue  # not from one of us
            if rung is None:
                heard(None)
                continue
            for partition in rung:
                heard(partition)

    # ── Who is there ────────────────────────────────────────────────────────────────────────────────────────────────

    def peers(self) -> frozenset[str]:
        """See ``Doorbell.peers``. Names a process that was killed until somebody rings it in vain."""
        try:
            changed = self._folder.stat().st_mtime_ns
            if changed != self._peers_as_of:
                names = [path.name for path in self._folder.iterdir()]
                self._peers = frozenset(name for name in names if OWNER.fullmatch(name) and name != self._owner)
                # Two changes within the clock's grain look like one. Hence every new home says hello to all.
                self._peers_as_of = changed
        except OSError:  # somebody removed the folder: nobody can be heard
            self._peers = frozenset()
        return self._peers

    def alive(self, owner: str) -> bool:
        """See ``Doorbell.alive``: whether the kernel knows of a process that has that home open."""
        if owner == self._owner:
            return not self._closed
        if owner in self._dead:
            return False
        if not OWNER.fullmatch(owner):
            return True  # not one of ours, so nothing is known
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(str(self._folder / owner))
            except (ConnectionRefusedError, FileNotFoundError):
                self._bury(owner)
                return False
            except OSError:
                return True
        return True

    def _bury(self, owner: str) -> None:
        """Remove what a dead process left. Safe although others may do the same: a name is never used again."""
        self._dead.add(owner)
        self._behind.discard(owner)
        self._peers_as_of = None
        with suppress(OSError):
            (self._folder / owner).unlink()

    async def close(self) -> None:
        """See ``Doorbell.close``."""
        if self._closed:
            return
        self._send_rung()
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        with suppress(OSError):
            (self._folder / self._owner).unlink()
        for peer in self.peers():
            self.alive(peer)  # buries the dead: the folder would stay for their sake
        with suppress(OSError):
            self._folder.rmdir()  # fails, as it should, while others have the file open


def _bind(path: str, owner: str) -> tuple[Path, socket.socket]:
    for _ in range(BIND_TRIES):
        # When the last of the others closes, the folder goes, even from under our feet.
        with suppress(FileNotFoundError):
            folder = bell_folder(path)
            return folder, _bind_in(folder, owner)
    raise StoreUnusable(f"the folder for the bells of {path} keeps disappearing; does something clean up there?")


def _bind_in(folder: Path, owner: str) -> socket.socket:
    bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        bell.settimeout(0)
        # Under a name that others overlook, then renamed: between its creation and the end of `bind` the socket
        # refuses connections, and would be taken for a dead one's.
        unnoticed = folder / f".{owner}"
        bell.bind(str(unnoticed))
        unnoticed.chmod(0o600)
        unnoticed.rename(folder / owner)
    except BaseException:
        bell.close()
        raise
    return bell


def _message(rung: set[str]) -> bytes:
    try:
        message = _encode(sorted(rung))
    except UnicodeError:
        return LOOK_AT_ALL
    return message if len(message) <= RING_BYTES else LOOK_AT_ALL
