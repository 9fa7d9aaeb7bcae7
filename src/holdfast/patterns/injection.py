"""Injection of resources into functions: a parameter annotated with a resource's type is not passed by the caller."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from holdfast.errors import ConfigurationError, DuplicateName
from holdfast.patterns.resource import Resource

F = TypeVar("F", bound=Callable[..., Any])


class _Injected:
    def __repr__(self) -> str:
        return "hf.injected"


injected: Final[Any] = _Injected()
"""The default of a parameter that is injected, so that type checkers let callers omit it."""


class Resources:
    """The resources of an app, by type."""

    def __init__(self) -> None:
        self._by_type: dict[Any, Resource[Any]] = {}

    def add(self, resource: Resource[Any]) -> None:
        """Add it. Raises ``DuplicateName`` if there is another one of its type."""
        if resource.type in self._by_type:
            raise DuplicateName(
                f"resources {self._by_type[resource.type].name!r} and {resource.name!r} are both of type "
                f"{_name_of(resource.type)}; give one of them a type of its own, such as a subclass or a NewType"
            )
        self._by_type[resource.type] = resource

    def inject(self, function: F) -> F:
        """The function without the parameters that are injected; itself if there are none.

        They come after all others, or are keywords; a caller may still pass one by its name, as tests do. Raises
        ``ConfigurationError`` for one that is marked ``hf.injected`` but has no resource's type.
        """
        wanted = self._wanted(function)
        if not wanted:
            return function
        called = _awaiting(function, wanted) if inspect.iscoroutinefunction(function) else _waiting(function, wanted)
        return cast("F", _without(called, function, wanted))

    def _wanted(self, function: Any) -> dict[str, Resource[Any]]:
        if not inspect.isfunction(function):
            return {}
        parameters = inspect.signature(function).parameters
        marked = [each.name for each in parameters.values() if each.default is injected]
        if not marked and not self._by_type:
            return {}
        try:
            hints = typing.get_type_hints(function)
        except Exception:  # noqa: BLE001 - the reader of the other hints has the better error
            hints = {}
        wanted = {name: found for name in parameters if (found := self._found(hints.get(name))) is not None}
        for name in marked:
            if name not in wanted:
                raise ConfigurationError(
                    f"parameter {name!r} of {function.__qualname__} is injected, but no resource of this app is of "
                    f"type {_name_of(hints.get(name))}; declare the resource before the function: @app.resource"
                )
        _check_order(function, wanted)
        return wanted

    def _found(self, hint: Any) -> Resource[Any] | None:
        try:
            return self._by_type.get(hint)
        except TypeError:  # a hint that cannot be hashed is not a resource's
            return None


def _awaiting(function: Any, wanted: dict[str, Resource[Any]]) -> Any:
    @functools.wraps(function)
    async def called(*args: Any, **kwargs: Any) -> Any:
        for name, resource in wanted.items():
            if name not in kwargs:
                kwargs[name] = await resource.get()
        return await function(*args, **kwargs)

    return called


def _waiting(function: Any, wanted: dict[str, Resource[Any]]) -> Any:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name, resource in wanted.items():
            if name not in kwargs:
                kwargs[name] = resource.get_in_thread()
        return function(*args, **kwargs)

    return called


def _check_order(function: Any, wanted: dict[str, Resource[Any]]) -> None:
    seen: str | None = None
    for each in inspect.signature(function).parameters.values():
        if each.kind in {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}:
            return
        if each.name in wanted and each.kind is not inspect.Parameter.POSITIONAL_ONLY:
            seen = seen or each.name
        elif seen is not None or each.name in wanted:
            raise ConfigurationError(
                f"parameter {seen or each.name!r} of {function.__qualname__} is injected, so it must come after all "
                "others, and can be passed by name"
            )


def _without(called: Any, function: Any, wanted: dict[str, Resource[Any]]) -> Any:
    signature = inspect.signature(function)
    called.__signature__ = signature.replace(
        parameters=[each for each in signature.parameters.values() if each.name not in wanted]
    )
    called.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if name not in wanted}
    return called


def _name_of(hint: Any) -> str:
    return getattr(hint, "__qualname__", repr(hint))
