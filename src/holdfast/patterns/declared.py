"""What an app has declared of one kind of pattern, by name and by type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdfast.errors import ConfigurationError, DuplicateName
from holdfast.registrations import check_name

C = TypeVar("C")


class Declared(Generic[C]):
    """The collections of one kind. ``kind`` names it in messages: ``"documents"``."""

    __slots__ = ("_by_name", "_kind")

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._by_name: dict[str, tuple[Any, C]] = {}

    def declare(self, hint: Any, name: str | None, make: Callable[[str], C], *, plain: bool) -> C:
        """The collection of this type and name; ``make`` makes it the first time. ``plain``: no options were given, so
        an earlier declaration may be meant.
        """
        if plain and (found := self._find(hint, name)) is not None:
            return found
        own = name or self._default_name(hint)
        check_name("collection", own)
        if own in self._by_name:
            raise DuplicateName(
                f"two collections of {self._kind} have the name {own!r}; give one of them another: name=..."
            )
        made = make(own)
        self._by_name[own] = (hint, made)
        return made

    def take_in(self, other: Declared[C]) -> None:
        """Add the collections of another app. Raises ``DuplicateName`` if those of one name hold two types."""
        for name, (hint, made) in other._by_name.items():
            if self._by_name.setdefault(name, (hint, made))[0] != hint:
                raise DuplicateName(
                    f"two collections of {self._kind}, of two types, have the name {name!r}; give one of them another: "
                    "name=..."
                )

    def _find(self, hint: Any, name: str | None) -> C | None:
        found = [each for own, (held, each) in self._by_name.items() if held == hint and name in {None, own}]
        if len(found) > 1:
            raise ConfigurationError(
                f"several collections of {self._kind} hold {self._default_name(hint)}: choose one with name=..."
            )
        return found[0] if found else None

    def _default_name(self, hint: Any) -> str:
        if not isinstance(hint, type):
            raise ConfigurationError(f"{self._kind} of {hint!r} need a name: name=...")
        return hint.__name__
