"""Steps and workflows as the engine sees them: their code, their signature and their policy. Callers are above."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codec.signature import Signature, signature_of
from holdfast.deferred import LazyModule
from holdfast.errors import InvalidInput
from holdfast.functions import LAMBDA, class_of_method, is_generator, told
from holdfast.retry import Retry
from holdfast.workflows.versioning import VersionPolicy, code_version, old_code_version

if TYPE_CHECKING:
    from holdfast.flow import limits as limited
    from holdfast.flow.declarations import Queue
    from holdfast.flow.limits import LimitUse
    from holdfast.ports import Home
else:  # most steps have no limit
    limited = LazyModule("holdfast.flow.limits", globals())

AtMostOnce = bool | Literal["attempt"]


class StepPolicy(Struct, frozen=True, kw_only=True):
    """How a step is performed. Times are in seconds; ``None`` means no limit.

    ``at_most_once`` holds of the step as a whole, or, as ``"attempt"``, of each of its attempts. An attempt needs a
    permit of each of the ``limits``.
    """

    retry: Retry = Retry()
    timeout_seconds: float | None = None
    heartbeat_seconds: float | None = None
    at_most_once: AtMostOnce = False
    transactional: bool = False
    limits: tuple[LimitUse, ...] = ()


class Undo(Struct, frozen=True):
    """How a step is undone. ``ambiguous``: also when it is not known whether the step took effect."""

    step: DeclaredStep
    ambiguous: bool


class DeclaredStep:
    """What is known of a step before it is called: ``function`` under its ``name``.

    In the body of a class it is a method. ``unbound_of`` is the class until ``bound_to`` names an object.
    """

    def __init__(self, function: Callable[..., Any], name: str | None, policy: StepPolicy | None) -> None:
        own_name: Any = getattr(function, "__name__", "")
        self.function = function
        self.name: str = name or own_name
        self.policy = policy or StepPolicy()
        _check_step(function, self.name, self.policy)
        self.unbound_of = class_of_method(function)
        given = (1 if self.policy.transactional else 0) + (1 if self.unbound_of else 0)
        self.signature: Signature = signature_of(function, f"step {self.name!r}", given=given)
        if self.policy.limits:
            limited.check_uses(self.policy.limits, self.signature.parameter_names, f"step {self.name!r}")
        self.is_async = inspect.iscoroutinefunction(function)
        self.undone_by: Undo | None = None
        if self.policy.transactional and self.is_async:
            raise InvalidInput(
                f"step {self.name!r}: a transactional step runs inside the store's transaction, where nothing can be "
                "awaited; write it as a plain def"
            )

    def bound_to(self, instance: object) -> Self:
        """The same step as a method of this object, and its undo with it."""
        bound = copy.copy(self)
        bound.function, bound.unbound_of = MethodType(self.function, instance), ""
        if (undo := self.undone_by) is not None and undo.step.unbound_of:
            bound.undone_by = replace(undo, step=undo.step.bound_to(instance))
        return bound

    def refuse_unbound(self) -> None:
        """Raise ``InvalidInput`` if it is a method and was called without an object."""
        if self.unbound_of:
            raise InvalidInput(
                f"step {self.name!r} is a method of {self.unbound_of}: call it on an object, as in "
                f"{self.unbound_of}(...).{self.name}(...)"
            )


def _check_step(function: Any, name: str, policy: StepPolicy) -> None:
    if not callable(function) or isinstance(function, type):
        raise InvalidInput(
            f"a step is a def or async def, and was given {told(function)}. Wrap it in a function of its own: "
            "def make(x: int) -> Thing: return Thing(x)"
        )
    if is_generator(function):
        raise InvalidInput(
            f"a step answers once, so that its answer can be recorded, and was given {told(function)}. Return a list, "
            "or report progress with hf.current().heartbeat(...)"
        )
    if name == LAMBDA:
        raise InvalidInput(
            f"a step is recorded under its name, and {told(function)} has none: write a def, or give it a name: "
            "app.step(name=...)"
        )
    retry: Any = policy.retry  # whatever its annotation says
    if not isinstance(retry, Retry):
        raise InvalidInput(f"the retry policy of step {name!r} is an hf.Retry(...), not {retry!r}")
    if policy.at_most_once not in (False, True, "attempt"):
        raise InvalidInput(f"at_most_once of step {name!r} is True, False or 'attempt', not {policy.at_most_once!r}")
    if policy.at_most_once == "attempt" and not retry.only and retry.when is None:
        raise InvalidInput(
            f"step {name!r} is at most once per attempt, so its retry policy has to name the errors after which "
            "nothing has happened: retry=hf.Retry(only=(...)) or when=..."
        )


class WorkflowPolicy(Struct, frozen=True, kw_only=True):
    """How a workflow's executions are kept. ``None`` means no limit. ``queue_key`` is a path into the arguments."""

    timeout_ms: int | None = None
    queue: Queue | None = None
    queue_key: str | None = None
    versions: VersionPolicy = VersionPolicy.COMPATIBLE
    retention_ms: int | None = None


class DeclaredWorkflow:
    """What is known of a workflow before it is started: ``function`` under its ``name``.

    ``renews_callbacks``: a retry makes its body open other callbacks in place of those that it waits for, or has failed
    by. The body is told by an answer with the error ``RENEWED``, and the old ones are closed.
    """

    renews_callbacks: ClassVar[bool] = False
    shares: ClassVar[bool] = False
    """Whether its executions may keep a part of their input in an item that they share with others."""

    def __init__(
        self,
        function: Callable[..., Coroutine[Any, Any, Any]],
        name: str | None,
        version: str | None,
        policy: WorkflowPolicy | None,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise InvalidInput(
                f"a workflow is an async def, and was given {told(function)}. Blocking code and generators belong in "
                "a step that it awaits"
            )
        if of_class := class_of_method(function):
            raise InvalidInput(
                f"a workflow is a function of its own, and {function.__name__!r} is a method of {of_class}: another "
                "process that goes on with it would not know of which object. Write it outside of the class; the "
                "methods it awaits may be steps"
            )
        self.function = function
        self.name = name or function.__name__
        self._named_version = version
        self.policy = policy or WorkflowPolicy()
        self.is_pinned = self.policy.versions is VersionPolicy.PINNED
        """Whether only the code that began an execution may go on with it."""
        self.is_plain = bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & inspect.CO_COROUTINE)
        """Whether a call of it runs none of its code, as that of an ``async def``: it may only be marked as one."""
        self.signature: Signature = signature_of(function, f"workflow {self.name!r}")
        self.steps: Mapping[str, Any] = {}  # those of its app, by name

    @cached_property
    def version(self) -> str:
        """The version of its code: its name if it has one, else a digest, taken when all it calls is defined."""
        return self._named_version or code_version(self.function)

    def is_version(self, version: str) -> bool:
        """Whether this is the code of that version. Records of the old format have the digest of the body alone."""
        return version == self.version or (not self._named_version and version == old_code_version(self.function))

    def given(self, input: bytes) -> bytes:
        """The part of an input by which a repeated start, or a replayed call, is the same one (G11, G13): all of it,
        unless a part of it is code.
        """
        return input

    async def sharing(self, input: bytes, home: Home) -> tuple[bytes, str]:
        """An input as an execution keeps it, and the partition of the item that it shares with others, which is stored
        when this returns: it holds what the input refers to. Called if it ``shares``.
        """
        raise NotImplementedError
