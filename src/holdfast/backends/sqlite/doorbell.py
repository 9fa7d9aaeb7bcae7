"""The ``Doorbell`` port between processes on one machine: a Unix datagram socket per open home, in a private folder.

No process polls. A wake-up is one datagram to each other home. Whether a process lives is asked of the kernel, which
refuses a connection to a socket that no process has open. So a process killed with -9 is known to be gone at once, a
stopped one counts as alive, and process ids, which are reused, play no part.

Only that refusal proves a death: by the kernel on which the process ran, at the socket that it had made. A missing
socket or folder, or one that cannot be reached, proves nothing; then leases have to lapse. A home whose socket was
removed makes it again.

Open it after ``fork``, never before: a child that inherits the socket would answer for its dead parent.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from holdfast.backends.sqlite.bell_folder import open_bell
from holdfast.errors import StoreUnusable
from holdfast.hints import Hint, News
from holdfast.ids import fingerprint, new_id

OWNER: Final = re.compile(r"[0-9]{1,10}-([0-9a-f]{8})-[0-9a-f]{12}")
"""The form of an owner's name: process, kernel, random part. Anything else in the folder is left alone."""

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""The id of one running kernel, on Linux."""

RING_BYTES: Final = 16 * 2**10
"""A datagram that would be larger says "check all" instead."""

RINGS_PER_WAKE: Final = 100
"""How many datagrams are read before the event loop continues."""

RETRY_SECONDS: Final = (0.02, 0.2, 1.0)
"""When to repeat a wake-up to homes whose queue was full. After that only the next wake-up, or their sweep, helps."""

LOOK_AT_ALL: Final = b"null"
HELLO: Final = b"[]"
"""An empty wake-up; it makes the others list the homes again."""

_decoder: Final = msgspec.json.Decoder(list[str | News] | None)
_encode: Final = msgspec.json.Encoder().encode


def new_owner() -> str:
    """A new owner's name. The process id is for people; the kernel's id says which machine knows whether it lives."""
    return f"{os.getpid()}-{_this_kernel()}-{new_id()[:12]}"


@cache
def _this_kernel() -> str:
    """Containers on one machine share it; virtual machines that share a folder have their own."""
    try:
        running = BOOT_ID.read_bytes()
    except OSError:
        running = repr(os.uname()).encode()
    return fingerprint(running)[:8]


class SocketDoorbell:
    """Belongs to the event loop on which it was created."""

    def __init__(self, path: str, owner: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._path = path
        self._owner = owner
        self._folder, self._socket = open_bell(path, owner)
        self._heard: Callable[[Hint], None] | None = None
        self._rung: dict[str | News, None] = {}
        self._peers: frozenset[str] = frozenset()
        self._peers_as_of: int | None = None
        """When the folder was last changed, as of the listing in ``_peers``; ``None`` means list it again."""
        self._dead: set[str] = set()
        self._behind: set[str] = set()
        """Homes that missed a wake-up because their queue was full: the next one says "check all"."""
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        self._send_to(self.peers(), HELLO)

    # ── Waking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def ring(self, hint: str | News) -> None:
        """See ``Doorbell.ring``. The hints of one tick of the event loop leave together."""
        if not self._rung:
            self._loop.call_soon(self._send_rung)
        self._rung[hint] = None

    def _send_rung(self) -> None:
        rung, self._rung = list(self._rung), {}
        if not self._closed and (peers := self.peers()):
            self._send_to(peers, _message(rung))

    def _send_to(self, peers: Iterable[str], message: bytes) -> None:
        for peer in peers:
            try:
                self._socket.sendto(LOOK_AT_ALL if peer in self._behind else message, self._folder.address(peer))
            except BlockingIOError:
                self._behind.add(peer)
                self._ring_again(0)
            except ConnectionRefusedError:
                if _is_of_this_kernel(peer):
                    self._bury(peer)
            except OSError:
                # It is gone; no memory for it; no permission (a home opened by root): a wake-up may be lost.
                self._peers_as_of = None
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

    def listen(self, heard: Callable[[Hint], None]) -> None:
        """See ``Doorbell.listen``. Wake-ups since this home was opened are delivered now, up to the kernel's queue."""
        self._heard = heard
        self._loop.add_reader(self._socket, self._receive, heard)

    def _receive(self, heard: Callable[[Hint], None]) -> None:
        for _ in range(RINGS_PER_WAKE):
            try:
                datagram = self._socket.recv(RING_BYTES + 1)
            except OSError:  # nothing more to read, or closed by the listener
                return
            self._peers_as_of = None
            try:
                rung = _decoder.decode(datagram)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                continue  # not from a home
            if rung is None:
                heard(None)
                continue
            for hint in rung:
                heard(hint)

    # ── Who is there ────────────────────────────────────────────────────────────────────────────────────────────────

    def peers(self) -> frozenset[str]:
        """See ``Doorbell.peers``. Names a killed process until a wake-up to it fails."""
        try:
            if not self._is_listed():
                self._come_back()
        except (OSError, StoreUnusable):  # no process can be heard; owners count as alive
            self._peers, self._peers_as_of = frozenset(), None
        return self._peers

    def _is_listed(self) -> bool:
        """Bring the list up to date; false if our own socket was removed."""
        try:
            changed = self._folder.changed_ns()
            if changed == self._peers_as_of:
                return True
            names = self._folder.names()
        except FileNotFoundError:
            names = []
        else:
            # Two changes within the clock's resolution look like one. Hence every new home greets all others.
            self._peers_as_of = changed
        self._peers = frozenset(name for name in names if OWNER.fullmatch(name) and name != self._owner)
        return self._owner in names or self._closed

    def _come_back(self) -> None:
        """Make our socket, and the folder, again: until then other homes cannot find or wake us."""
        before, old = self._folder, self._socket
        self._folder, self._socket = open_bell(self._path, self._owner)
        if self._heard is not None:
            self._loop.remove_reader(old)
            self._loop.add_reader(self._socket, self._receive, self._heard)
        old.close()
        before.close()
        self._peers_as_of = None
        self._is_listed()
        self._send_to(self._peers, HELLO)

    def alive(self, owner: str) -> bool:
        """See ``Doorbell.alive``: false if the kernel has refused a connection to that process's socket."""
        if owner == self._owner:
            return not self._closed
        if owner in self._dead:
            return False
        if not _is_of_this_kernel(owner):
            return True  # not one of ours, or on another kernel: nothing is known
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(self._folder.address(owner))
            except ConnectionRefusedError:
                self._bury(owner)
                return False
            except FileNotFoundError:
                return not self._folder.is_buried(owner)
            except OSError:
                return True
        return True

    def _bury(self, owner: str) -> None:
        """Record that a process is dead. It is safe if others do the same: a name is never used again."""
        self._dead.add(owner)
        self._behind.discard(owner)
        self._peers_as_of = None
        self._folder.bury(owner)

    async def close(self) -> None:
        """See ``Doorbell.close``. The entry that stays in the folder proves that we are gone: we may have left leases
        behind.
        """
        if self._closed:
            return
        self._send_rung()
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._folder.bury(self._owner)
        self._folder.tidy()
        self._folder.close()


def _is_of_this_kernel(owner: str) -> bool:
    named = OWNER.fullmatch(owner)
    return named is not None and named[1] == _this_kernel()


def _message(rung: list[str | News]) -> bytes:
    try:
        message = _encode(rung)
    except UnicodeError:
        return LOOK_AT_ALL
    return message if len(message) <= RING_BYTES else LOOK_AT_ALL
