"""One class of actors, as the engine sees it: its name, its methods, its policy, and how its state is stored."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

from msgspec import UNSET, Raw, Struct

from holdfast.actors.limited import Leave, Limit, Limited, default_seconds
from holdfast.actors.record import HIDDEN_MARK, NOT_BEGUN
from holdfast.codec.signature import Signature
from holdfast.codec.typed import Codec
from holdfast.codec.upcasting import Schema, Upcaster
from holdfast.errors import InvalidState, UnknownName
from holdfast.flow.limits import LimitUse
from holdfast.retry import Retry

if TYPE_CHECKING:
    from holdfast.actors.record import Call
    from holdfast.actors.scope import Turn
    from holdfast.actors.timers import Timer
    from holdfast.kernel.runtime import Connect, Runtime

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

MAILBOX_MESSAGES: Final = 1_000
REPLY_WINDOW_MS: Final = 24 * 3600 * 1000
"""How long a request's reply is kept, so that a repeat of the request gets it instead of being applied again (G5)."""

MESSAGE_RETRY: Final = Retry(max_attempts=5, initial=0.2, backoff=4, max_delay=60.0)
"""How often a message without a caller is tried before it counts as poison."""

ORDERED_RETRY: Final = Retry(max_attempts=20, initial=1.0, backoff=2, max_delay=60.0)
"""The same for a message that a queue of another service keeps, in order, until it is done: for some 14 minutes."""


class Registers(Protocol):
    """What keeps the classes of actors of an app by name."""

    def add_actor(self, kind: Kind) -> None: ...


class Registrar(Protocol):
    """What an actor class is registered with: the app."""

    @property
    def registry(self) -> Registers: ...

    def runtime(self) -> Runtime: ...

    def inject(self, function: F) -> F: ...


class Instance:
    """An actor in memory, as its methods see it: its state, and the turn that runs one of them."""

    __slots__ = ("_state", "_turn")

    _state: Any
    _turn: Any


class _Outlived:
    """The state of an actor for code that has outlived the method that started it, such as a task."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise _outlived()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise _outlived()


def _outlived() -> InvalidState:
    return InvalidState(
        "this task has outlived the method of the actor that started it: nothing that it does to the actor has a "
        "commit to go with. Await it in the method, or call a method from it"
    )


_OUTLIVED: Final = _Outlived()

state_of: Final[Callable[[Instance], Any]] = attrgetter("_state")
"""The state of an actor in memory: the fields of an actor are its users', its state is ours."""


class Method(Struct, frozen=True):
    """One message an actor understands."""

    name: str
    function: Callable[..., Coroutine[Any, Any, Any]]
    signature: Signature
    reads: bool
    limit: Limit = UNSET
    uses: tuple[LimitUse, ...] = ()


class Policy(Struct, frozen=True, kw_only=True):
    """How an actor's messages are treated. ``poison`` is ``park`` (out of the way) or ``halt`` (stop, keep the order).

    ``raises`` are the classes of errors that come to callers as themselves.
    """

    optimistic: bool = False
    mailbox: int = MAILBOX_MESSAGES
    reply_window_ms: int = REPLY_WINDOW_MS
    retry: Retry = MESSAGE_RETRY
    ordered_retry: Retry = ORDERED_RETRY
    poison: str = "park"
    raises: tuple[type[Exception], ...] = ()
    limit: Limit = UNSET


class Kind:
    """One class of actors: its state, its messages, its policy."""

    def __init__(
        self,
        cls: type[Instance],
        name: str,
        connect: Connect,
        policy: Policy,
        *,
        state: Codec[Any],
        upcasters: Mapping[int, Upcaster],
        methods: dict[str, Method],
        timers: dict[str, Timer[Any]],
    ) -> None:
        self.cls = cls
        self.name = name
        self.connect = connect
        self.policy = policy
        self.state = state
        self.forms: Schema[Any] = Schema(state, upcasters)
        self.schema = self.forms.version
        self.methods = methods
        self.timers = timers
        self.keys: Callable[[str], bool] = lambda _key: True
        """Whether there is code here for the actor of this key."""
        self.passing: Callable[[str], bool] = lambda _key: False
        """Whether the actor of this key is only there for a while: it is forgotten with its last reply."""
        self.limit_of: Callable[[str], Limit] | None = None
        """How long a method of the actor of this key may run, if neither the method nor the class says so."""
        self.note_parked: Callable[[Instance, Call], None] | None = None
        """Tells an actor that a message was parked."""
        self.is_repeat: Callable[[Instance, Call], bool] | None = None
        """Whether an actor knows by its state that a message is a repeat, for which no users' code runs."""

    def fresh(self) -> Instance:
        """An actor as it begins."""
        return self.restore(self.state.hint())

    def restore(self, state: Struct) -> Instance:
        """An actor with this state."""
        actor = object.__new__(self.cls)
        object.__setattr__(actor, "_state", state)
        return actor

    def decoded(self, state: bytes) -> Instance:
        """An actor from its state as this code has encoded it."""
        return self.restore(self.state.decode(state))

    def after(self, actor: Instance) -> Instance:
        """The actor for what runs next. What has run keeps none: a task of it may still be running (G4)."""
        state = state_of(actor)
        object.__setattr__(actor, "_state", _OUTLIVED)
        return self.restore(state)

    def load(self, state: Raw, schema: int) -> Instance:
        """An actor from its stored state, brought up to the schema of this code. Raises ``SerializationError``."""
        if state == NOT_BEGUN:
            return self.fresh()
        return self.restore(self.forms.decode(bytes(state), schema, f"the state of {self.name}"))

    def encode(self, actor: Instance) -> bytes:
        """The actor's state as it is stored."""
        return self.state.encode(state_of(actor), f"the state of {self.name}")

    def prove(self, actor: Instance, limit_bytes: int) -> None:
        """Raise ``SerializationError`` or ``PayloadTooLarge`` if the state would not come back as it is (G12)."""
        self.state.copy(state_of(actor), f"the state of {self.name}", limit_bytes)

    def run(
        self,
        method: Method | Timer[Any],
        actor: Instance,
        turn: Turn,
        args: bytes,
        runtime: Runtime,
        leave: Leave | None = None,
    ) -> Limited[Any]:
        """Run one of the actor's methods as ``turn``, in its time; see ``Limited``."""
        object.__setattr__(actor, "_turn", turn)
        positional, named = method.signature.unbind(args)
        limit = self.policy.limit if method.limit is UNSET else method.limit
        if limit is UNSET and self.limit_of is not None:
            limit = self.limit_of(turn.key)
        seconds = default_seconds(runtime) if limit is UNSET else limit

        def late() -> None:
            runtime.emit("method_timed_out", partition=turn.partition, method=method.name)

        code = method.function(actor, *positional, **named)
        turn.run = run = Limited(code, f"{self.name}.{method.name}", seconds, late, leave)
        return run


def kind_named(kinds: Mapping[str, Kind], actor: str) -> Kind:
    """A class of actors. Raises ``UnknownName`` that names those there are."""
    kind = kinds.get(actor)
    if kind is None:
        names = sorted(name for name in kinds if not name.startswith(HIDDEN_MARK))
        raise UnknownName(f"the app has no actor {actor!r}; it has: {', '.join(names) or 'none'}")
    return kind


def shown_kind_named(kinds: Mapping[str, Kind], actor: str) -> Kind:
    """A class of actors that may be called from outside: consumers are actors, too, and are called by events alone.

    Raises ``UnknownName`` that names those there are.
    """
    if actor.startswith(HIDDEN_MARK):
        raise UnknownName(f"the app has no actor {actor!r}")
    return kind_named(kinds, actor)
