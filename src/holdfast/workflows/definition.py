"""Steps and workflows as users declare them: what calling them means where."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from msgspec.structs import replace

from holdfast import ids
from holdfast.deferred import LazyModule
from holdfast.duration import Duration, seconds
from holdfast.errors import InvalidInput
from holdfast.functions import told
from holdfast.replay.tasks import named
from holdfast.retry import Retry
from holdfast.workflows.declared import DeclaredStep, DeclaredWorkflow, StepPolicy, Undo, WorkflowPolicy
from holdfast.workflows.options import NO_OPTIONS, StartOptions
from holdfast.workflows.scope import current_activation, refuse_in_step
from holdfast.workflows.starting import Call, Startable

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Connect, Runtime
    from holdfast.registrations import Registrations
    from holdfast.workflows import handle as handles
    from holdfast.workflows import launch as launching
    from holdfast.workflows import wait_for_end as waiting
    from holdfast.workflows.handle import Handle
    from holdfast.workflows.launch import Launch
    from holdfast.workflows.operations import child, step
else:  # what is only declared is neither started nor run
    handles, launching, waiting = (
        LazyModule(f"holdfast.workflows.{name}", globals()) for name in ("handle", "launch", "wait_for_end")
    )
    child, step = (LazyModule(f"holdfast.workflows.operations.{name}", globals()) for name in ("child", "step"))

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
U = TypeVar("U")

Inject = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes of a function one without the parameters that the app gives it."""


class Step(DeclaredStep, Generic[P, R]):
    """A function whose result is recorded: inside a workflow it runs once it is awaited, and never again after that.

    Outside a workflow, awaiting it just runs the function. ``function`` is the function itself.

    In the body of a class it is a method: called on an object, it has that object at hand. Only the other arguments are
    recorded.
    """

    def __init__(
        self,
        function: Callable[P, Coroutine[Any, Any, R]] | Callable[P, R],
        *,
        name: str | None = None,
        policy: StepPolicy | None = None,
        inject: Inject | None = None,
    ) -> None:
        super().__init__(function if inject is None else inject(function), name, policy)
        self._inject = inject
        self.__doc__ = self.function.__doc__
        self.__name__ = self.name
        self.__wrapped__ = self.function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        activation = current_activation()
        if activation is not None:
            if activation.loop.asking:
                activation.loop.refuse_in_query(f"step {self.name!r}")
            return named(step.call_step(activation, self, args, kwargs), self.name)
        refuse_in_step(f"step {self.name!r}")
        return self._plainly(args, kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self: Step[Concatenate[Any, Q], U], instance: object, owner: type) -> Step[Q, U]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None or not self.unbound_of else self.bound_to(instance)

    async def _plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        self.refuse_unbound()
        if self.policy.transactional:
            raise InvalidInput(
                f"step {self.name!r} runs inside a transaction of the store, which only a workflow opens; to test it "
                f"alone, call {self.name}.function(cursor, ...)"
            )
        result: Any = self.function(*args, **kwargs)
        return cast("R", await result if inspect.isawaitable(result) else result)

    @overload
    def undo(self, function: Callable[[R], U], /) -> Callable[[R], U]: ...
    @overload
    def undo(self, function: Callable[[], U], /) -> Callable[[], U]: ...
    @overload
    def undo(self, function: Callable[[Any, R], U], /) -> Callable[[Any, R], U]: ...  # first an object, or the cursor
    @overload
    def undo(
        self, /, *, ambiguous: bool = ..., retry: Retry | None = ..., timeout: Duration | None = ...
    ) -> Callable[[Callable[..., U]], Callable[..., U]]: ...
    def undo(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        ambiguous: bool = False,
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """Declare how this step is undone when a saga fails. The function takes the step's result, or nothing.

        With ``ambiguous`` it also runs when it is not known whether the step took effect (a timeout, an interrupted
        at-most-once step, retries that ran out); its argument is then ``None``. It is retried ten times by default.
        The undo of a transactional step is transactional too, and takes the SQL cursor first. A method may be the undo
        of a method, for the same object.
        """

        def declare(undo_function: Any) -> Any:
            if not callable(undo_function) or isinstance(undo_function, type):
                raise InvalidInput(f"the undo of step {self.name!r} is a def or async def, not {told(undo_function)}")
            if self.undone_by is not None:
                raise InvalidInput(f"step {self.name!r} already has an undo: {self.undone_by.step.name!r}")
            own = (
                undo_function.policy
                if isinstance(undo_function, Step)
                else StepPolicy(transactional=self.policy.transactional)
            )
            limit_seconds = own.timeout_seconds if timeout is None else seconds(timeout)
            policy = replace(own, retry=retry or UNDO_RETRY, timeout_seconds=limit_seconds)
            plain = undo_function.function if isinstance(undo_function, Step) else undo_function
            undo: Step[..., Any] = Step(plain, name=f"{self.name}.undo", policy=policy, inject=self._inject)
            if sum(parameter.required for parameter in undo.signature.parameters) > 1:
                raise InvalidInput(
                    f"the undo of step {self.name!r} takes the step's result, or nothing; {plain.__qualname__} wants "
                    "more"
                )
            self.undone_by = Undo(undo, ambiguous)
            return cast("Any", undo_function)

        return declare if function is None else declare(function)


UNDO_RETRY = Retry(max_attempts=10, initial=0.5, max_delay=60.0)


class StepDecorator:
    """``@app.step(...)`` with options; keeps the signature of what it decorates."""

    def __init__(self, registry: Registrations, name: str | None, policy: StepPolicy, inject: Inject) -> None:
        self._registry = registry
        self._inject = inject
        self._name = name
        self._policy = policy

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        step: Step[..., Any] = Step(function, name=self._name, policy=self._policy, inject=self._inject)
        self._registry.add_step(step)
        return step


class Workflow(DeclaredWorkflow, Startable[P, R]):
    """A durable function. Start it for a handle, or await it: in a workflow that makes a child."""

    def __init__(
        self,
        function: Callable[P, Coroutine[Any, Any, R]],
        connect: Connect,
        *,
        name: str | None = None,
        version: str | None = None,
        policy: WorkflowPolicy | None = None,
    ) -> None:
        super().__init__(function, name, version, policy)
        self._connect = connect
        self.__doc__ = function.__doc__
        self.__name__ = self.name
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        return self._call(args, kwargs, NO_OPTIONS)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: StartOptions) -> Call[R]:
        activation = current_activation()
        if activation is not None:
            if activation.loop.asking:
                activation.loop.refuse_in_query(self.signature.what)
            return named(child.call_child(activation, self, args, kwargs, options), self.name)
        refuse_in_step(self.signature.what)
        return self._start_and_wait(args, kwargs, options)

    async def _start_and_wait(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: StartOptions) -> R:
        if current_activation() is not None:  # it was called elsewhere, and is awaited in a body
            return await (await self._start(args, kwargs, options)).result()
        refuse_in_step(self.signature.what)
        runtime = self._connect()
        order = self._ordered(runtime, args, kwargs, options)
        head = await launching.launch(runtime.home, runtime.host, self, order, runtime.clock)
        result: R = handles.result_of(self, await waiting.ended(runtime, head.partition), runtime)
        return result

    async def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: StartOptions) -> Handle[R]:
        activation = current_activation()
        if activation is not None:
            return self.handle(await child.start_child(activation, self, args, kwargs, options))
        refuse_in_step(f"{self.name}.start")
        runtime = self._connect()
        order = self._ordered(runtime, args, kwargs, options)
        await launching.launch(runtime.home, runtime.host, self, order, runtime.clock)
        return self.handle(order.id)

    def _ordered(
        self, runtime: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any], options: StartOptions
    ) -> Launch:
        """What to start, from outside of a body."""
        input = self.signature.bind(args, kwargs, limit_bytes=runtime.limit_bytes)
        now = runtime.clock.now_ms()
        return options.order(input, now, new_id=ids.new_ordered_id(now), tags={})

    def handle(self, id: str) -> Handle[R]:
        """A handle on an execution that was started earlier, here or elsewhere. Looks nothing up."""
        return handles.Handle(self, id, self._connect)
