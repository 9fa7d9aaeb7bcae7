"""Addresses: which of them belong to this machine."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback_address(address: str) -> bool:
    """Whether this is an address of the loopback interface.

    >>> is_loopback_address("127.0.0.1"), is_loopback_address("::1"), is_loopback_address("10.0.0.7")
    (True, True, False)
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback if mapped is None else mapped.is_loopback


def is_loopback_host(host: str) -> bool:
    """Whether a ``Host`` header, or a host name, can only mean this machine.

    >>> is_loopback_host("localhost:8080"), is_loopback_host("[::1]:80"), is_loopback_host("127.0.0.1.evil.example")
    (True, True, False)
    """
    name = _name_in(host)
    return name.lower() == "localhost" or is_loopback_address(name)


def is_below_localhost(host: str) -> bool:
    """Whether a ``Host`` header has a name below ``localhost``, which no other machine can have (RFC 6761, 6.3).

    >>> is_below_localhost("sync-states.localhost:8080"), is_below_localhost("localhost.evil.example")
    (True, False)
    """
    return _name_in(host).lower().endswith(".localhost")


def _name_in(host: str) -> str:
    if host.startswith("["):
        return host.rpartition("]")[0].removeprefix("[")
    return host.partition(":")[0] if host.count(":") == 1 else host
