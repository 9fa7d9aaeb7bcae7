"""Declaring workflows and their steps: the decorators of an app."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

from holdfast.deferred import LazyModule
from holdfast.duration import Duration, milliseconds, seconds
from holdfast.kernel.runtime import Declares
from holdfast.ports import SqlCursor
from holdfast.retry import Retry
from holdfast.workflows.declared import AtMostOnce, StepPolicy, WorkflowPolicy
from holdfast.workflows.definition import Step, StepDecorator, Workflow
from holdfast.workflows.versioning import VersionPolicy, policy_named

if TYPE_CHECKING:
    from holdfast.flow import declarations as queues
    from holdfast.flow import limits as limited
    from holdfast.flow.declarations import Queue
    from holdfast.flow.limits import AnyLimit
else:  # most steps have no limit, and most workflows no queue
    queues, limited = LazyModule("holdfast.flow.declarations", globals()), LazyModule("holdfast.flow.limits", globals())

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


@overload
def step(app: Declares, function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...


@overload
def step(app: Declares, function: Callable[P, R], /) -> Step[P, R]: ...


@overload
def step(
    app: Declares,
    /,
    *,
    name: str | None = ...,
    retry: Retry | None = ...,
    timeout: Duration | None = ...,
    heartbeat: Duration | None = ...,
    at_most_once: AtMostOnce = ...,
    raises: tuple[type[Exception], ...] = ...,
    limit: AnyLimit | None = ...,
) -> StepDecorator: ...


def step(  # noqa: PLR0913 - one for each decision about a step
    app: Declares,
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    heartbeat: Duration | None = None,
    at_most_once: AtMostOnce = False,
    raises: tuple[type[Exception], ...] = (),
    limit: AnyLimit | None = None,
) -> Any:
    """Declare a step: ``async def``, or ``def`` for blocking code, which gets a thread.

    Its result is recorded once and never computed again (G2). An attempt may be repeated if a process dies before
    the record: use ``hf.current().idempotency_key`` with the outside world, or ``at_most_once`` (G10).
    With ``at_most_once="attempt"`` each attempt is, and another one follows only the errors that ``retry`` names.
    ``timeout`` limits an attempt, ``heartbeat`` the silence within one. ``raises`` lists the error classes that
    the body may catch by class; others arrive as ``StepFailed``. An attempt begins when it has a permit of each
    ``limit``, and gives it back when it ends (G16). In every case await the call.
    """
    app.registry.add_errors(raises)
    policy = StepPolicy(
        retry=retry or Retry(),
        timeout_seconds=None if timeout is None else seconds(timeout),
        heartbeat_seconds=None if heartbeat is None else seconds(heartbeat),
        at_most_once=at_most_once,
        limits=() if limit is None else limited.uses_of(limit, "the step" if name is None else f"step {name!r}"),
    )
    decorate = StepDecorator(app.registry, name, policy, app.inject)
    return decorate if function is None else decorate(function)


@overload
def transaction(app: Declares, function: Callable[Concatenate[SqlCursor, P], R], /) -> Step[P, R]: ...


@overload
def transaction(
    app: Declares,
    /,
    *,
    name: str | None = ...,
    retry: Retry | None = ...,
    raises: tuple[type[Exception], ...] = ...,
) -> Callable[[Callable[Concatenate[SqlCursor, P], R]], Step[P, R]]: ...


def transaction(
    app: Declares,
    function: Callable[Concatenate[SqlCursor, P], R] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    raises: tuple[type[Exception], ...] = (),
) -> Any:
    """Declare a step that runs the user's own SQL on the app's SQLite file, exactly once (G10).

    The function is a plain ``def``; its first parameter executes SQL. What it writes commits in the same
    transaction as the step's record, or not at all. Keep it short: it runs under the file's write lock. ``retry``
    and ``raises`` are as for ``step``.
    """
    app.registry.add_errors(raises)
    policy = StepPolicy(retry=retry or Retry(), transactional=True)

    def decorate(function: Callable[Concatenate[SqlCursor, P], R]) -> Step[P, R]:
        plain = cast("Callable[P, R]", function)  # the cursor is given by the store, not by the caller
        step: Step[P, R] = Step(plain, name=name, policy=policy)
        app.registry.add_step(step)
        return step

    return decorate if function is None else decorate(function)


@overload
def workflow(app: Declares, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...


@overload
def workflow(
    app: Declares,
    /,
    *,
    name: str | None = ...,
    version: str | None = ...,
    versions: VersionPolicy | str = ...,
    timeout: Duration | None = ...,
    retention: Duration | None = ...,
    queue: Queue | None = ...,
    queue_key: str | None = ...,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Workflow[P, R]]: ...


def workflow(  # noqa: PLR0913 - one for each decision about a workflow
    app: Declares,
    function: Callable[P, Coroutine[Any, Any, R]] | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    versions: VersionPolicy | str = VersionPolicy.COMPATIBLE,
    timeout: Duration | None = None,
    retention: Duration | None = None,
    queue: Queue | None = None,
    queue_key: str | None = None,
) -> Any:
    """Declare a workflow: an ``async def`` of plain asyncio whose waits are durable.

    ``version`` names its code, else a digest of the body does. ``versions`` says whether other code may continue
    its executions (``compatible``) or not (``pinned``). ``timeout`` limits each execution, ``retention`` how long
    an ended one is kept (for ever by default). With a ``queue`` each execution waits there until it may begin, under
    the key to which the path ``queue_key`` leads in its arguments.
    """
    is_queued = queue is not None or queue_key is not None
    if is_queued:
        queues.check_queue(queue, queue_key)
    policy = WorkflowPolicy(
        queue=queue,
        queue_key=queue_key,
        timeout_ms=None if timeout is None else milliseconds(timeout),
        versions=policy_named(versions),
        retention_ms=None if retention is None else milliseconds(retention),
    )

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Workflow[P, R]:
        workflow = Workflow(function, app.runtime, name=name, version=version, policy=policy)
        if is_queued:
            queues.check_key_parameter(queue_key, workflow.signature.parameter_names, workflow.signature.what)
        app.registry.add_workflow(workflow)
        return workflow

    return decorate if function is None else decorate(function)
