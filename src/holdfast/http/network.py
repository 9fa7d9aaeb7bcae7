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
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host
    if not host.startswith("[") and host.count(":") == 1:
        name = host.partition(":")[0]
    return name.lower() == "localhost" or is_loopback_address(name)
