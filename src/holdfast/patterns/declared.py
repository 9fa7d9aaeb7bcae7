"""What an app has declared of one kind of pattern: each by its name, and found again by its type."""

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
        """The collection of this type and name; ``make`` makes it the first time. ``plain``: nothing else was said
        about it, so it may be one that was declared before.
        """
        if plain and (found := self._find(hint, name)) is not None:
            return found
        own = name or self._default_name(hint)
        check_name("collection", own)
        if own in self._by_name:
            raise DuplicateName(
                f"two collections of {self._kind} are called {own!r}; give one of them another: name=..."
            )
        made = make(own)
        self._by_name[own] = (hint, made)
        return made

    def take_in(self, other: Declared[C]) -> None:
        """Know the collections of another app, too. Raises ``DuplicateName`` if those of one name hold two types."""
        for name, (hint, made) in other._by_name.items():
            if self._by_name.setdefault(name, (hint, made))[0] != hint:
                raise DuplicateName(
                    f"two collections of {self._kind}, of two types, are called {name!r}; give one of them another: "
                    "name=..."
                )

    def _find(self, hint: Any, name: str | None) -> C | None:
        found = [each for own, (held, each) in self._by_name.items() if held == hint and name in {None, own}]
        if len(found) > 1:
            raise ConfigurationError(
                f"several collections of {self._kind} hold {self._default_name(hint)}: say which, with name=..."
            )
        return found[0] if found else None

    def _default_name(self, hint: Any) -> str:
        if not isinstance(hint, type):
            raise ConfigurationError(f"{self._kind} of {hint!r} need a name of their own: name=...")
        return hint.__name__
