"""Actors as users declare them: a class whose annotated fields are its state and whose methods are its messages."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Coroutine, Mapping
from operator import attrgetter
from typing import Any, ClassVar, Final, Self, TypeVar, cast, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType, defstruct

from holdfast.actors.kind import (
    MAILBOX_MESSAGES,
    MESSAGE_RETRY,
    ORDERED_RETRY,
    REPLY_WINDOW_MS,
    Instance,
    Kind,
    Method,
    Policy,
    Registrar,
    state_of,
)
from holdfast.actors.limited import check_method, declared_limit, declared_uses, limit_in_seconds
from holdfast.actors.reference import Reference
from holdfast.actors.timers import Timer
from holdfast.codec.signature import signature_of
from holdfast.codec.typed import codec_for
from holdfast.codec.upcasting import Upcaster, check_upcasters
from holdfast.duration import Duration, milliseconds
from holdfast.errors import ConfigurationError, SerializationError
from holdfast.kernel.runtime import Connect
from holdfast.retry import Retry

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

_RESERVED: Final = frozenset({"at", "key", "kind", "partition", "request_id", "timeout_seconds"})
"""What an actor, or its address, has under these names itself."""
_READ: Final = "__holdfast_read__"


@overload
def field(*, default: T) -> T: ...
@overload
def field(*, default_factory: Callable[[], T]) -> T: ...
def field(**given: Any) -> Any:
    """A field of an actor's state with its default; a mutable default needs ``default_factory``."""
    return msgspec.field(**given)


def read(method: F) -> F:
    """Declare a method that only reads: it runs next to the others, costs no write, and may not change the state."""
    check_method("hf.read", method)
    setattr(method, _READ, True)
    return method


class Actor(Instance):
    """The base of actors. Annotated fields are the state, public ``async def`` methods the messages.

    One call at a time changes an actor; the state, the reply and whatever the call sends commit together, or not at
    all: an exception rolls all of it back (G4).

        class Cart(hf.Actor, app=app):
            items: dict[str, int] = hf.field(default_factory=dict)

            async def add(self, sku: str, n: int = 1) -> int:
                self.items[sku] = self.items.get(sku, 0) + n
                return len(self.items)

        await Cart.at("u1").add("sku-9")

    ``optimistic`` runs calls without a lease, and again if another was faster: for handlers without effects. A method
    that calls another actor is run again under a lease.
    ``timeout`` is how long a method may run before it is cancelled, as long as a lease by default (15 s); ``None`` sets
    no limit, and ``@hf.method(timeout=...)`` one for a single method. ``mailbox`` bounds the messages that wait,
    ``reply_window`` how long replies are kept for repeats, ``retry`` and ``poison`` (``"park"`` or ``"halt"``) say what
    becomes of a message that fails; ``ordered_retry`` does so for those of an ordered queue of SQS. ``raises`` lists
    the error classes that come back to callers as themselves; others arrive as ``CallFailed``. ``upcasters`` maps a
    schema version to the function that turns its state into the next version's; the class is then one version ahead of
    them.
    """

    __slots__ = ()

    kind: ClassVar[Kind]

    def __init_subclass__(  # noqa: PLR0913 - each is an option of the class, and given by its name
        cls,
        *,
        app: Registrar | None = None,
        name: str | None = None,
        optimistic: bool = False,
        mailbox: int = MAILBOX_MESSAGES,
        reply_window: Duration = REPLY_WINDOW_MS / 1000,
        retry: Retry = MESSAGE_RETRY,
        ordered_retry: Retry = ORDERED_RETRY,
        poison: str = "park",
        raises: tuple[type[Exception], ...] = (),
        timeout: Duration | UnsetType | None = UNSET,
        upcasters: Mapping[int, Upcaster] | None = None,
    ) -> None:
        super().__init_subclass__()
        if app is None:  # a base of others
            return
        if poison not in {"park", "halt"}:
            raise ConfigurationError(f"poison is 'park' or 'halt', not {poison!r}")
        given: Any = mailbox  # whatever its annotation says
        if not isinstance(given, int) or given < 1:
            raise ConfigurationError(f"mailbox is how many messages may wait, 1 or more, not {mailbox!r}")
        policy = Policy(
            optimistic=optimistic,
            mailbox=mailbox,
            reply_window_ms=milliseconds(reply_window),
            retry=retry,
            ordered_retry=ordered_retry,
            poison=poison,
            raises=raises,
            limit=limit_in_seconds(timeout, f"actor {name or cls.__name__!r}"),
        )
        for each, made in _members(cls):
            if _is_message(each, made) and (given_to := app.inject(made)) is not made:
                setattr(cls, each, given_to)
        cls.kind = _kind_of(
            cls, name or cls.__name__, app.runtime, policy, check_upcasters(upcasters or {}, "an actor")
        )
        for each in cls.kind.state.hint.__struct_fields__:
            setattr(cls, each, _Field(each, _default_of(cls, each)))
        app.registry.add_actor(cls.kind)

    def __init__(self) -> None:
        raise TypeError(f"an actor lives in the store: write {type(self).__name__}.at(key)")

    @classmethod
    def at(cls, key: str, *, request_id: str | None = None, timeout: Duration | None = None) -> Self:
        """The actor under this key, to call its methods. Looks nothing up: an actor begins with its first call.

        With ``request_id`` a call is applied once however often it is sent, and a repeat gets the same reply (G5).
        After ``timeout`` the caller stops waiting; the call may still be applied: ``status`` tells.
        """
        return cast("Self", Reference(cls.kind, key, request_id=request_id, timeout=timeout))

    @property
    def key(self) -> str:
        """This actor's key."""
        return cast("str", self._turn.key)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).kind.state.hint.__struct_fields__:
            raise AttributeError(
                f"{type(self).__name__} has no field {name!r}: only annotated fields are kept. Declare it in the class"
            )
        setattr(state_of(self), name, value)


class _Field(property):
    """An attribute of an actor that lives in its state. ``default`` is as it was declared, for actors that derive."""

    def __init__(self, name: str, default: Any) -> None:
        def put(actor: Instance, value: Any) -> None:
            setattr(state_of(actor), name, value)

        super().__init__(attrgetter(f"_state.{name}"), put, doc=f"The field {name!r} of the state.")
        self.default = default


def _members(cls: type[Actor]) -> list[tuple[str, Any]]:
    """What a class and its bases define, the most derived definition of each name."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(Actor)]):
        found |= vars(base)
    return list(found.items())


def _default_of(cls: type[Actor], name: str) -> Any:
    """What the class, or the actor it inherits from, gives the field as its default."""
    declared = dict(_members(cls))[name]
    return declared.default if isinstance(declared, _Field) else declared


def _kind_of(cls: type[Actor], name: str, connect: Connect, policy: Policy, upcasters: Mapping[int, Upcaster]) -> Kind:
    members = _members(cls)
    return Kind(
        cls,
        name,
        connect,
        policy,
        state=codec_for(_state_type(cls, name)),
        upcasters=upcasters,
        methods={each: _method(name, each, made) for each, made in members if _is_message(each, made)},
        timers={each: made for each, made in members if isinstance(made, Timer)},
    )


def _is_message(name: str, made: Any) -> bool:
    return inspect.iscoroutinefunction(made) and not name.startswith("_")


def _method(actor: str, name: str, function: Any) -> Method:
    if name in _RESERVED:
        raise ConfigurationError(f"{actor}.{name}: every actor has a {name!r} of its own; give the method another name")
    signature = signature_of(function, f"{actor}.{name}", given=1)
    reads = bool(getattr(function, _READ, False))
    uses = declared_uses(function, signature)
    if reads and uses:
        raise ConfigurationError(
            f"{actor}.{name} only reads, next to others and as often as it likes: what a limit is for belongs in a "
            "method that does not"
        )
    return Method(name, function, signature, reads, declared_limit(function), uses)


def _state_type(cls: type[Actor], name: str) -> type[Struct]:
    if "__init__" in {each for each, _ in _members(cls)}:
        raise ConfigurationError(f"actor {name} has an __init__: an actor begins with the defaults of its fields")
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise ConfigurationError(
            f"a field of actor {name} has an annotation that cannot be resolved: {error}. Import or define it at "
            "module level: hints are read at run time"
        ) from error
    members = dict(_members(cls))
    fields: list[tuple[str, Any, Any]] = []
    for each, hint in hints.items():
        if typing.get_origin(hint) is ClassVar or hint is ClassVar:
            continue
        if each in _RESERVED:
            raise ConfigurationError(f"{name}.{each}: every actor has a {each!r} of its own; name the field otherwise")
        if hasattr(Actor, each):
            continue
        if each not in members:
            raise ConfigurationError(
                f"field {each!r} of actor {name} has no default, and an actor begins with defaults"
            )
        _check_field(name, each, hint)
        fields.append((each, hint, _default_of(cls, each)))
    try:
        state = defstruct(f"{name}State", fields, forbid_unknown_fields=True, module=cls.__module__)
        state()
    except TypeError as error:
        raise ConfigurationError(f"the fields of actor {name}: {error}; use hf.field(default_factory=...)") from error
    return state


def _check_field(actor: str, name: str, hint: Any) -> None:
    try:
        codec_for(hint)
    except SerializationError as error:
        raise SerializationError(f"field {name!r} of actor {actor}: {error}") from None
