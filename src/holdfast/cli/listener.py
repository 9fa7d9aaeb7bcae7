"""Which user listens on an address of this machine, as the tables of its kernel say."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.errors import ConfigurationError
from holdfast.file_owner import ROOT_USER

TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Linux has them (proc_pid_net(5)). Other systems do not, so nothing can be checked there."""

LISTENS: Final = "0A"
WORD_BYTES: Final = 4

Address = IPv4Address | IPv6Address
ANY_4: Final = IPv4Address(0)
ANY_6: Final = IPv6Address(0)


class Place(Struct, frozen=True):
    """An address and a port."""

    address: Address
    port: int


def check_listener(connection: socket.socket, url: str) -> None:
    """Check that nothing private goes to another user of the machine. Raises ``ConfigurationError`` unless this user,
    or root, owns the far end of the connection.
    """
    tables = _tables(url)
    if not tables:
        return
    users = users_at(_end(connection.getpeername()), _end(connection.getsockname()), tables)
    elsewhere = "serve on a port that is free (holdfast serve --port), and name it with --at"
    if not users:
        raise ConfigurationError(
            f"the user that listens at {url} cannot be determined, so the database's token is not sent: {elsewhere}"
        )
    strangers = sorted(users - {os.geteuid(), ROOT_USER})
    if strangers:
        raise ConfigurationError(
            f"another user of this machine (uid {strangers[0]}) listens at {url}, and this command runs as uid "
            f"{os.geteuid()}: the token of the database is not sent there. If it is your server, ask as its user; "
            f"else {elsewhere}"
        )


def users_at(there: Place, here: Place, tables: Iterable[str]) -> set[int]:
    """The users that listen at the far end of a connection or have accepted it, as the kernel's tables say. Empty if
    there is no listener: the tables assign a connection that was not accepted yet to root.
    """
    listening: dict[Address, set[int]] = {}
    accepted: set[int] = set()
    for table in tables:
        for line in table.splitlines()[1:]:
            _, local, remote, state, _, _, _, uid, *_ = line.split()
            near = _place(local)
            if near.port != there.port:
                continue
            if state == LISTENS:
                listening.setdefault(near.address, set()).add(int(uid))
            elif near == there and _place(remote) == here:
                accepted.add(int(uid))
    for address in (there.address, ANY_4, ANY_6) if there.address.version == ANY_4.version else (there.address, ANY_6):
        if address in listening:  # the kernel too prefers a listener at the address itself to one at any address
            return listening[address] | accepted
    return set()


def _tables(url: str) -> list[str]:
    found: list[str] = []
    for table in TABLES:
        try:
            with suppress(FileNotFoundError):
                found.append(table.read_text("ascii"))
        except OSError as error:
            raise ConfigurationError(
                f"{table}, which names the listener at {url}, cannot be read ({error.strerror or error}), so the token "
                "of the database is not sent"
            ) from error
    return found


def _place(text: str) -> Place:
    """``0100007F:1F90``: words of four bytes, each in the order of this machine."""
    address, _, port = text.partition(":")
    raw = bytes.fromhex(address)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + WORD_BYTES][::-1] for at in range(0, len(raw), WORD_BYTES))
    return Place(_plain(ip_address(raw)), int(port, 16))


def _end(name: tuple[str, int]) -> Place:
    """One end of a connection. What follows the port is ignored."""
    return Place(_plain(ip_address(name[0].partition("%")[0])), name[1])


def _plain(address: Address) -> Address:
    """An IPv4 address mapped into IPv6 becomes the IPv4 address."""
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
