"""Where code runs: in a workflow body, in a step, or in neither; and what it can ask about that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, Protocol, TypeVar

from msgspec import Struct

from holdfast.codec.parameters import INPUT_LIMIT_BYTES
from holdfast.errors import CompensationFailed, InvalidInput, NestedDurableCall
from holdfast.kernel.unit import current_unit
from holdfast.replay.loop import running_activation
from holdfast.workflows.record import partition_of, ref_of, root_of
from holdfast.workflows.runs import count_of

if TYPE_CHECKING:
    from holdfast.codec.signature import Signature
    from holdfast.replay.activation import Activation
    from holdfast.workflows.record import ExecutionRecord, ExecutionRef


P = ParamSpec("P")
T = TypeVar("T")


class Current:
    """What ``hf.current()`` tells: ``WorkflowInfo`` in a workflow body, ``StepInfo`` in a step, ``HandlerInfo`` in an
    actor's method or a consumer.

    Everything can be asked for in all of them; what does not apply raises ``InvalidInput``.
    """

    __slots__ = ()

    _place: ClassVar[str]

    workflow: str
    id: str
    run: int
    version: str
    tags: dict[str, str]
    parent: ExecutionRef | None
    root: ExecutionRef
    idempotency_key: str
    fence: int
    attempt: int
    operation: str
    last_heartbeat: Any

    @property
    def replaying(self) -> bool:
        """Whether a workflow body is catching up with its journal. A step never is."""
        return False

    def heartbeat(self, details: Any = None) -> None:
        """Report progress, in a step."""
        raise InvalidInput(f"a heartbeat ({details!r}) is for steps; a workflow body needs none")

    def __getattr__(self, name: str) -> Any:
        if name not in Current.__annotations__:
            raise AttributeError(name)
        raise InvalidInput(f"hf.current().{name} is not there in {self._place}")


@dataclass(frozen=True, slots=True)
class WorkflowInfo(Current):
    """What ``hf.current()`` tells inside a workflow body. The same on every replay, but for ``replaying``.

    ``workflow`` and ``id`` name the execution; ``run`` counts its runs (``hf.continue_as_new``) from 0. ``version`` is
    that of the code it began on, ``tags`` are those it was started with. ``parent`` is the execution that called this
    one, ``root`` the one at the top of the family: itself, if it has no parent.
    """

    workflow: str
    id: str
    run: int
    version: str
    tags: dict[str, str]
    parent: ExecutionRef | None
    root: ExecutionRef
    _place: ClassVar = "a workflow body"
    _activation: Activation = field(repr=False)

    @property
    def replaying(self) -> bool:
        """Whether the body is catching up with its journal: what it does now it has done before."""
        return self._activation.quiet


NO_FAILED_SAGAS: Final[Mapping[object, CompensationFailed]] = MappingProxyType({})
"""Those of most bodies, which share it."""


class BodyScope(Struct):
    """What operations must know of the execution whose body called them. Not for the body: it holds the secret.

    ``run`` is the number of the run in keys and tokens, ``nonce`` what was drawn at the start. ``shared`` is the body
    of the item that the execution shares with others.
    ``failed_sagas`` are the blocks whose undo gave up, with their errors: the execution ends with them.
    ``undone`` is there for a reader of the journal: the undos that the body asks for, and the steps that they undo.
    ``limit_bytes`` is how large the input of a new run may be.
    """

    record: ExecutionRecord
    signature: Signature
    activation: Activation
    shared: bytes = b""
    failed_sagas: Mapping[object, CompensationFailed] = NO_FAILED_SAGAS
    undone: dict[str, str] | None = None
    limit_bytes: int = INPUT_LIMIT_BYTES

    @property
    def partition(self) -> str:
        return partition_of(self.record.workflow, self.record.id)

    @property
    def run(self) -> int:
        return self.record.run

    @property
    def secret(self) -> str:
        return self.record.secret

    @property
    def nonce(self) -> str:
        return self.record.nonce

    def info(self) -> WorkflowInfo:
        """What ``hf.current()`` tells in the body. It is made when it is asked for: few bodies do."""
        record = self.record
        return WorkflowInfo(
            workflow=record.workflow,
            id=record.id,
            run=count_of(record.run),
            version=record.version,
            tags=dict(record.tags),
            parent=None if record.parent is None else ref_of(record.parent.partition),
            root=ref_of(root_of(record, self.partition)),
            _activation=self.activation,
        )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Arguments for a new run of this workflow, checked and encoded."""
        return self.signature.bind(args, kwargs, f"workflow {self.record.workflow!r}", self.limit_bytes)


@dataclass(frozen=True, slots=True)
class StepInfo(Current):
    """What ``hf.current()`` tells inside a step.

    ``idempotency_key`` is the same for every attempt of this step, on any machine, and different for every other
    step of any execution in any home: 40 hexadecimal digits. Hand it to whatever the step changes (G10). ``fence``
    never goes backwards from one owner of the execution to the next: whatever refuses lower ones than it has seen
    refuses a process that comes back late (G3). ``attempt`` counts from 1, failed attempts and deaths of processes
    alike. ``workflow`` and ``id`` name the execution it is for, ``operation`` its place there, as in the history.
    ``last_heartbeat`` is what an earlier attempt reported last.
    """

    idempotency_key: str
    attempt: int
    workflow: str
    id: str
    operation: str
    last_heartbeat: Any
    fence: int
    _place: ClassVar = "a step"
    _beat: Callable[[Any], None] = field(repr=False)

    def heartbeat(self, details: Any = None) -> None:
        """Say that the step is alive, and how far it is: a later attempt finds ``details`` in ``last_heartbeat``."""
        self._beat(details)


class StepScope(Protocol):
    """The attempt of a step that is running."""

    def info(self) -> StepInfo:
        """What ``hf.current()`` tells in it. It is made when it is asked for: few steps do."""
        ...


@dataclass(frozen=True, slots=True)
class HandlerInfo(Current):
    """What ``hf.current()`` tells inside an actor's method, a consumer or a tick.

    ``idempotency_key`` is the same whenever this message, request or tick is handled again, and different for every
    other: hand it to whatever the handler changes outside the store (G10). ``fence`` is the epoch of the actor, which
    never goes backwards: whatever refuses lower ones than it has seen refuses a process that comes back late (G3).
    """

    fence: int
    _place: ClassVar = "a handler"
    _key: str | None = field(repr=False)

    @property
    def idempotency_key(self) -> str:  # type: ignore[override]  # the others have it as a field
        """Raises ``InvalidInput`` in a call that nothing tells from another one."""
        if self._key is None:
            raise InvalidInput(NO_IDENTITY)
        return self._key


NO_IDENTITY: Final = (
    "this call has no identity of its own, so a repeat of it could not be told from another call: make it with a "
    "request_id, or send it"
)

IN_TRANSACTION: Final = (
    "hf.current() tells nothing inside a transaction. The SQL of an @app.transaction step commits with the step's "
    "record, exactly once, so it needs no idempotency_key. Give the function what it has to know as an argument, and "
    "change what lies outside the file in an @app.step, which has a key"
)

step_scope: ContextVar[StepScope | None] = ContextVar("holdfast_step", default=None)


current_activation: Callable[[], Activation | None] = running_activation
"""The workflow body that is running, if one is."""


def activation_for(what: str) -> Activation:
    """The workflow body that is running, or a clear error that ``what`` needs one."""
    activation = current_activation()
    if activation is None:
        refuse_in_step(what)
        raise InvalidInput(f"{what} works inside a workflow body only")
    return activation


def refused_in_queries(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse the call of a coroutine function in a query, which could not await it: at once, with a clear error."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if (activation := current_activation()) is not None:
            activation.loop.refuse_in_query(f"hf.{function.__name__}")
        return function(*args, **kwargs)

    return call


def refuse_in_step(what: str) -> None:
    """Raise if a step is running: steps are leaves, and nothing durable can hang from them."""
    if step_scope.get() is not None:
        raise NestedDurableCall(
            f"{what} was called inside a step. A step is one recorded unit: call {what} from the workflow body, "
            "or call a step's plain function as step.function(...)"
        )


def current() -> Current:
    """Where this code runs: ``WorkflowInfo`` in a workflow body, ``StepInfo`` in a step, ``HandlerInfo`` in an actor's
    method or a consumer; elsewhere ``InvalidInput``.
    """
    activation = current_activation()
    if activation is not None:
        scope: BodyScope = activation.context
        return scope.info()
    if (step := step_scope.get()) is not None:
        return step.info()
    unit = current_unit.get()
    if unit is None:
        raise InvalidInput("hf.current() works inside a workflow body, a step, an actor's method or a consumer only")
    if unit.fence is None:
        raise InvalidInput(NO_IDENTITY if unit.chain else IN_TRANSACTION)
    return HandlerInfo(unit.fence, None if unit.identity is None else unit.identity.key)
