"""Queries: a body lets its live state be asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import InvalidInput
from holdfast.functions import told
from holdfast.workflows.scope import activation_for

T = TypeVar("T")


def query(function: Callable[[], T]) -> Callable[[], T]:
    """Let ``handle.query(function's name)`` call this function of the body to look at its live state. It must not wait
    or change anything.
    """
    activation = activation_for("hf.query")
    name = getattr(function, "__name__", "")
    if isinstance(function, type) or inspect.iscoroutinefunction(function) or not name:
        raise InvalidInput(f"a query is a plain def, asked for by its name, and was given {told(function)}")
    activation.queries = {**activation.queries, name: function}
    return function
