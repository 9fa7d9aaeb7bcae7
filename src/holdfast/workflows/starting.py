"""``Workflow.start``: arguments of the workflow's own, next to options of the start, both known to type checkers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from holdfast.duration import Duration
from holdfast.errors import InvalidInput
from holdfast.workflows.options import StartOptions, Tags, start_options
from holdfast.workflows.record import OnParentEnd

if TYPE_CHECKING:
    from holdfast.flow.declarations import Queued
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


class Startable(Generic[P, R]):
    """A workflow, as its callers see it: what starts it.

    A ``ParamSpec`` takes no keyword arguments next to its own. So ``start`` has one signature without options, and one
    with options for each number of positional arguments: a workflow is callable, and the hint of ``self`` asks for the
    types of what it is called with. With options, arguments by keyword are checked at run time only.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        raise NotImplementedError

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: StartOptions) -> Call[R]:
        raise NotImplementedError

    async def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: StartOptions) -> Handle[R]:
        raise NotImplementedError

    # fmt: off
    @overload
    async def start(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[], Call[R]], /, *,
                    id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    delay: Duration | None = ..., at: datetime | None = ...,
                    queued: Queued | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A], Call[R]], a: A, /, *,
                    id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    delay: Duration | None = ..., at: datetime | None = ...,
                    queued: Queued | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B], Call[R]], a: A, b: B, /, *,
                    id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    delay: Duration | None = ..., at: datetime | None = ...,
                    queued: Queued | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B, C], Call[R]], a: A, b: B, c: C, /, *,
                    id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    delay: Duration | None = ..., at: datetime | None = ...,
                    queued: Queued | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B, C, D], Call[R]], a: A, b: B, c: C, d: D, /, *,
                    id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    delay: Duration | None = ..., at: datetime | None = ...,
                    queued: Queued | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B, C, D, E], Call[R]], a: A, b: B, c: C, d: D, e: E, /, *,
                    id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    delay: Duration | None = ..., at: datetime | None = ...,
                    queued: Queued | None = ...) -> Handle[R]: ...
    @overload
    async def start(self: Callable[[A, B, C, D, E, F], Call[R]], a: A, b: B, c: C, d: D, e: E, f: F, /, *,
                    id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    delay: Duration | None = ..., at: datetime | None = ...,
                    queued: Queued | None = ...) -> Handle[R]: ...
    @overload
    async def start(self, /, *, id: str | None = ..., tags: Tags | None = ..., timeout: Duration | None = ...,
                    delay: Duration | None = ..., at: datetime | None = ...,
                    queued: Queued | None = ..., **kwargs: Any) -> Handle[R]: ...
    # fmt: on
    async def start(  # type: ignore[misc]  # a workflow may have parameters of these names, to be given by position
        self,
        /,
        *args: Any,
        id: str | None = None,
        tags: Tags | None = None,
        timeout: Duration | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        queued: Queued | None = None,
        **kwargs: Any,
    ) -> Handle[R]:
        """Start an execution, durably, and answer a handle on it (G1).

        The same ``id`` and input again answer the same execution, whatever became of it; another input raises
        ``IdempotencyMismatch`` (G11). Without ``id`` it gets a fresh one. Arguments are checked against the hints.
        The body begins after ``delay``, or at the time ``at``; until then it can be signalled, cancelled and looked at
        like any other, and ``timeout`` counts from then. ``queued`` says how it waits in the queue of its workflow; if
        that is full, ``QueueFull`` is raised and nothing is written. Inside a workflow body the new execution is
        detached: it lives on when its starter ends.
        """
        options = start_options(id=id, tags=tags, timeout=timeout, delay=delay, at=at, queued=queued)
        return await self._start(args, kwargs, options)

    def options(
        self,
        *,
        id: str | None = None,
        tags: Tags | None = None,
        timeout: Duration | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        on_parent_end: OnParentEnd | None = None,
        queued: Queued | None = None,
    ) -> Configured[P, R]:
        """This workflow with options: call, or ``start``, the answer with the workflow's own arguments.

        ``await ship.options(id="s-17", timeout="1h")(order)`` in a body is a child with that id and timeout; the other
        options are those of ``start``. A child whose tags are not given has its parent's. The id of a child is one that
        ``start`` could find: if such an execution is there already, it is awaited (G11), and left alone if the parent
        ends. ``on_parent_end`` says what becomes of a child that is still running when its parent ends: it is asked to
        stop (``"cancel"``), or goes on (``"leave"``).
        """
        given = start_options(
            id=id, tags=tags, timeout=timeout, delay=delay, at=at, on_parent_end=on_parent_end, queued=queued
        )
        return Configured(partial(self._call, options=given), partial(self._start, options=given), given)


class Configured(Generic[P, R]):
    """A workflow with the options of its next calls and starts, which take the workflow's own arguments."""

    __slots__ = ("_call", "_options", "_start")

    def __init__(
        self,
        call: Callable[[tuple[Any, ...], dict[str, Any]], Call[R]],
        start: Callable[[tuple[Any, ...], dict[str, Any]], Coroutine[Any, Any, Handle[R]]],
        options: StartOptions,
    ) -> None:
        self._call = call
        self._start = start
        self._options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Run it as a child and await its result; outside of workflows, start it and wait."""
        return self._call(args, kwargs)

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """``start`` with these options. ``on_parent_end`` is none of them: what is started has no parent."""
        if self._options.on_parent_end is not None:
            raise InvalidInput("what is started lives on by itself: on_parent_end is for children, which are called")
        return await self._start(args, kwargs)
