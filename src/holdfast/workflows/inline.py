"""A step without a decorator: for one-off calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, overload

from holdfast.workflows.definition import Step
from holdfast.workflows.operations.step import call_step
from holdfast.workflows.registry import check_name
from holdfast.workflows.scope import activation_for

P = ParamSpec("P")
R = TypeVar("R")


@overload
async def step(name: str, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R: ...
@overload
async def step(name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
async def step(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function`` as a step called ``name``, with the default policy. Its type hints decide how its result is
    recorded; without hints it is plain JSON.
    """
    activation = activation_for("hf.step")
    check_name("step", name)
    return await call_step(activation, Step(function, name=name), args, kwargs)
