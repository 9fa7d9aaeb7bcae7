"""Methods whose module is imported when one of them is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class DeferredModule:
    """Stands for a module in the body of a class: its functions become methods there, and it is not imported yet."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> DeferredMethod:
        return DeferredMethod(self._module, name)


class DeferredMethod:
    """A function of another module as a method. Asking for it puts the function itself in its place."""

    def __init__(self, module: str, function: str) -> None:
        self._module, self._function = module, function

    def __set_name__(self, owner: type, name: str) -> None:
        """Python says of which class it is a method, and under which name."""
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        """The function, bound if it is asked for of an instance."""
        function = getattr(import_module(self._module), self._function)
        setattr(self._owner, self._name, function)
        return function if instance is None else function.__get__(instance, owner)
