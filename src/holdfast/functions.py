"""What was given where a function belongs, in words."""

from __future__ import annotations

import functools
import inspect
from typing import Any

LAMBDA = "<lambda>"


def told(given: Any) -> str:
    """What this is, for a message that says what it should be.

    >>> told(len), told(int), told(7)
    ('the builtin len', 'the class int', '7')
    """
    name = getattr(given, "__qualname__", None) or repr(given)
    if name.endswith(LAMBDA):
        return f"a lambda (line {given.__code__.co_firstlineno} of {given.__code__.co_filename})"
    if isinstance(given, type):
        return f"the class {name}"
    if inspect.iscoroutine(given):
        return f"a call of {name}, which is to be given uncalled"
    if inspect.isasyncgenfunction(given) or inspect.isgeneratorfunction(given):
        return f"the generator {name}, which yields"
    if inspect.ismethod(given):
        return f"the method {name}"
    if isinstance(given, functools.partial):
        return "a functools.partial"
    if inspect.isfunction(given):
        return f"{'the async def' if inspect.iscoroutinefunction(given) else 'the def'} {name}"
    return f"the builtin {name}" if inspect.isbuiltin(given) else name
