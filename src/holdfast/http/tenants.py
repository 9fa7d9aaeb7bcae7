"""Tenants: a caller is confined to its own ids and keys."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.http.authentication import Caller, check_place


def check_tenant(caller: Caller, names: Mapping[str, str]) -> None:
    """Raise ``Problem`` if the path leads to an execution or an actor that is not the caller's."""
    place = names.get("key") if "actor" in names else names.get("id")
    if place is not None:
        check_place(caller, place)
