"""Steps without a decorator, and steps under names that the caller gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast, overload

from holdfast.errors import InvalidInput
from holdfast.keys import check_name
from holdfast.workflows.definition import Step
from holdfast.workflows.operations.step import call_step
from holdfast.workflows.scope import activation_for

P = ParamSpec("P")
R = TypeVar("R")


@overload
async def step(name: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
@overload
async def step(name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
@overload
async def step(function: Callable[..., Awaitable[R]], /, *args: Any, name: str, **kwargs: Any) -> R: ...
@overload
async def step(function: Callable[..., R], /, *args: Any, name: str, **kwargs: Any) -> R: ...
async def step(first: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function as a step, or a step, under a name of your own.

    ``hf.step("title", title_of, path)`` calls any function as a step called ``title``, with the default policy. Its
    type hints decide how its result is recorded; without hints it is plain JSON. As every step, it is identified by
    the task that asks for it, its name, and how often that task has asked for it.

    ``hf.step(charge, order, name=f"charge:{order.id}")`` calls a step, or any function, and ``name`` alone identifies
    it in this run, wherever the body asks for it: it may be moved, wrapped in ``gather`` or asked for in another order
    (G13). A name can be asked for once in a run; ``InvalidInput`` if it comes twice.
    """
    activation = activation_for("hf.step")
    if isinstance(first, str):
        if not args:
            raise InvalidInput(f"hf.step({first!r}, function, ...) calls a function, and none was given")
        function, *rest = args
        check_name("step", first)
        return await call_step(activation, Step(function, name=first), tuple(rest), kwargs)
    id = kwargs.pop("name", None)
    if id is None:
        raise InvalidInput(
            'hf.step takes a name: hf.step("title", function, ...) or hf.step(function, ..., name="title")'
        )
    check_name("step", id)
    called = cast("Step[..., Any]", first) if isinstance(first, Step) else Step(first, name=id)
    return await call_step(activation, called, args, kwargs, id)
