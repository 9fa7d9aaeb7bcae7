"""Modules that are imported when something in them is first asked for: by a function, or as a method of a class.

Type checkers read the imports themselves, which stand under ``TYPE_CHECKING``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar, cast

T = TypeVar("T")


def made_when_used(make: Callable[[Any], T], described: str) -> T:
    """An attribute that ``make`` makes of an instance when it is first used; for type checkers, what it makes."""
    made = cached_property(make)
    made.__doc__ = described
    return cast("T", made)


class LazyModule:
    """Stands for a module among the ``names`` of one that uses it, its ``globals()``. The first use puts the module
    itself in its place.
    """

    __slots__ = ("_module", "_names")

    def __init__(self, module: str, names: dict[str, Any]) -> None:
        self._module = module
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Python itself asks, to copy it say
            raise AttributeError(name)
        module = import_module(self._module)
        self._names.update({each: module for each, value in tuple(self._names.items()) if value is self})
        return getattr(module, name)


class MethodsOf:
    """Stands for a module in the body of a class: its functions become methods there, and it is not imported yet."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> DeferredMethod:
        return DeferredMethod(self._module, name)


class DeferredMethod:
    """A function of another module as a method. Asking for it puts the function itself in its place."""

    def __init__(self, module: str, function: str) -> None:
        self._module, self._function = module, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself: for what keeps it to call it once, such as ``cached_property``."""
        return self._found()(*args, **kwargs)

    def __set_name__(self, owner: type, name: str) -> None:
        """Python says of which class it is a method, and under which name."""
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        """The function, bound if it is asked for of an instance."""
        function = self._found()
        setattr(self._owner, self._name, function)
        return function if instance is None else function.__get__(instance, owner)

    def _found(self) -> Any:
        return getattr(import_module(self._module), self._function)
