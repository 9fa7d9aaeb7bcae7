"""Descriptions of values passed as functions, for messages."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.texts import told_place

LAMBDA = "<lambda>"
LOCALS = "<locals>"


def class_of_method(function: Any) -> str:
    """The class in whose body a function with a ``self`` is written; empty for any other function.

    >>> from collections import UserList
    >>> class_of_method(UserList.append), class_of_method(UserList().append), class_of_method(told)
    ('UserList', '', '')
    """
    if not inspect.isfunction(function):
        return ""
    of_class = function.__qualname__.rpartition(".")[0]
    if not of_class or of_class.endswith(LOCALS) or next(iter(inspect.signature(function).parameters), "") != "self":
        return ""
    return of_class.rpartition(f"{LOCALS}.")[2]


def told(given: Any) -> str:
    """A description of the value, for a message that says what it should be.

    >>> told(len), told(int), told(7)
    ('the builtin len', 'the class int', '7')
    """
    if isinstance(given, functools.partial):
        return f"a functools.partial of {told(given.func)}"
    name = getattr(given, "__qualname__", None) or repr(given)
    if (kind := given.__class__.__name__) in {"classmethod", "staticmethod"}:
        return f"the {kind} {name}"
    if name.endswith(LAMBDA):
        return f"a lambda ({told_place(given.__code__.co_filename, given.__code__.co_firstlineno)})"
    if isinstance(given, type):
        return f"the class {name}"
    if inspect.iscoroutine(given):
        return f"a call of {name}, which is to be given uncalled"
    if is_generator(given):
        return f"the generator {name}, which yields"
    if inspect.ismethod(given):
        return f"the method {name}"
    if inspect.isfunction(given):
        return f"{'the async def' if inspect.iscoroutinefunction(given) else 'the def'} {name}"
    return f"the builtin {name}" if inspect.isbuiltin(given) else name


def is_generator(given: Any) -> bool:
    """Whether a call of it makes a generator of either kind, and runs nothing."""
    return inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given)


def own_name(function: Any, what: str) -> str:
    """The name of a function. Raises ``ConfigurationError`` if it has none: a lambda, a partial, an object."""
    name: str = getattr(function, "__name__", LAMBDA)
    if name == LAMBDA:
        raise ConfigurationError(
            f"{what} is stored under its name, and {told(function)} has none: write a def, or give it a name: name=..."
        )
    return name
