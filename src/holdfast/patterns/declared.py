"""Collections that an app has declared, by name and by type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import ConfigurationError, DuplicateName
from holdfast.keys import check_name

C = TypeVar("C")


def declare(
    known: dict[str, tuple[Any, C]], kind: str, hint: Any, name: str | None, make: Callable[[str], C], *, plain: bool
) -> C:
    """The collection of this type and name among the ``known`` ones of a ``kind``, such as ``"documents"``; ``make``
    makes it the first time. ``plain``: no options were given, so an earlier declaration may be meant.
    """
    if plain and (found := _find(known, kind, hint, name)) is not None:
        return found
    own = name or _default_name(kind, hint)
    check_name("collection", own)
    if own in known:
        raise DuplicateName(f"two collections of {kind} have the name {own!r}; give one of them another: name=...")
    made = make(own)
    known[own] = (hint, made)
    return made


def _find(known: dict[str, tuple[Any, C]], kind: str, hint: Any, name: str | None) -> C | None:
    found = [each for own, (held, each) in known.items() if held == hint and name in {None, own}]
    if len(found) > 1:
        raise ConfigurationError(
            f"several collections of {kind} hold {_default_name(kind, hint)}: choose one with name=..."
        )
    return found[0] if found else None


def _default_name(kind: str, hint: Any) -> str:
    if not isinstance(hint, type):
        raise ConfigurationError(f"{kind} of {hint!r} need a name: name=...")
    return hint.__name__
