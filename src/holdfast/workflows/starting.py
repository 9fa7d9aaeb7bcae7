"""``Workflow.start``: arguments of the workflow's own, beside options of the start, both known to type checkers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from msgspec import Struct

from holdfast.duration import Duration, milliseconds
from holdfast.workflows.record import check_new_id, check_tags

if TYPE_CHECKING:
    from holdfast.workflows.handle import Handle

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

Call = Coroutine[object, None, R]
"""What calling a step or a workflow answers. With ``Any`` in it, mypy would lose the types in ``asyncio.gather``."""

Tags = dict[str, str]


class StartOptions(Struct, frozen=True, kw_only=True):
    """What a start may say beside the workflow's arguments."""

    id: str | None = None
    tags: Tags = {}
    timeout_ms: int | None = None


class Startable(Generic[P, R]):
    """What a workflow is to whoever starts it.

    A ``ParamSpec`` takes no keyword arguments beside its own. So ``start`` has one signature without options, and one
    with options for each number of positional arguments: a workflow is callable, and the hint of ``self`` asks for the
    types of what it is called with. With options, arguments by keyword are checked at run time only.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        raise NotImplementedError

    async def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: StartOptions) -> Handle[R]:
        raise NotImplementedError

    # fmt: off
    @overload
    async def start(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[], Call[R]], /, *, id: str | None = ..., tags: Tags | None = ...,
                    timeout: Duration | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A], Call[R]], a: A, /, *, id: str | None = ..., tags: Tags | None = ...,
                    timeout: Duration | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B], Call[R]], a: A, b: B, /, *, id: str | None = ..., tags: Tags | None = ...,
                    timeout: Duration | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B, C], Call[R]], a: A, b: B, c: C, /, *, id: str | None = ...,
                    tags: Tags | None = ..., timeout: Duration | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B, C, D], Call[R]], a: A, b: B, c: C, d: D, /, *, id: str | None = ...,
                    tags: Tags | None = ..., timeout: Duration | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B, C, D, E], Call[R]], a: A, b: B, c: C, d: D, e: E, /, *, id: str | None = ...,
                    tags: Tags | None = ..., timeout: Duration | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B, C, D, E, F], Call[R]], a: A, b: B, c: C, d: D, e: E, f: F, /, *,
                    id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...) -> Handle[R]: ...
    @overload
    async def start(self, /, *, id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    **kwargs: Any) -> Handle[R]: ...
    # fmt: on
    async def start(  # type: ignore[misc]  # a workflow may have parameters of these names, to be given by position
        self,
        /,
        *args: Any,
        id: str | None = None,
        tags: Tags | None = None,
        timeout: Duration | None = None,
        **kwargs: Any,
    ) -> Handle[R]:
        """Start an execution, durably, and answer a handle on it (G1).

        The same ``id`` and input again answer the same execution, whatever became of it; another input raises
        ``IdempotencyMismatch`` (G11). Without ``id`` it gets a fresh one. Arguments are checked against the hints.
        Inside a workflow body the new execution is detached: it lives on when its starter ends.
        """
        options = StartOptions(
            id=None if id is None else check_new_id(id),
            tags=check_tags({} if tags is None else tags),
            timeout_ms=None if timeout is None else milliseconds(timeout),
        )
        return await self._start(args, kwargs, options)
