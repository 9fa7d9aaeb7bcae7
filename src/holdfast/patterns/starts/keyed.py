"""What asks for a start by key, and the hidden actor that decides on it."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, Final, Generic, ParamSpec, TypeVar, cast

from holdfast.actors.definition import Actor
from holdfast.actors.kind import Kind
from holdfast.actors.record import HIDDEN_MARK
from holdfast.duration import Duration
from holdfast.errors import DuplicateName
from holdfast.kernel.runtime import Declares
from holdfast.keys import check_name
from holdfast.messaging.declarations import hidden
from holdfast.workflows.definition import Workflow
from holdfast.workflows.handle import Handle

P = ParamSpec("P")
T = TypeVar("T")

STARTER_MARK: Final = ":"
"""Between a pattern and its name, in the names of the hidden actors."""

REPLY_WINDOW: Final = "1h"
"""How long the answer to a ``request_id`` is kept, and then the actor, once it waits for nothing."""

LOOK_WITHIN: Final = "1m"
"""How long a method may take: it looks at an execution, on a store that may be slow."""


class Starter(Actor):
    """The base of the hidden actors. ``ask`` answers the id of the execution that does what was asked for, or nothing
    if none does.
    """

    workflow: ClassVar[Workflow[..., Any]]

    async def ask(self, input: str) -> str:
        """Take in one request to start the workflow, with its input as canonical JSON."""
        raise NotImplementedError

    @property
    def now_ms(self) -> int:
        """The time of the method that runs, in milliseconds."""
        return cast("int", self._turn.now_ms())

    async def launch(self, id: str, input: str) -> None:
        """Start the workflow with the commit of the method that runs."""
        args, kwargs = self.workflow.signature.unbind(input.encode())
        await self.workflow.options(id=id).start(*args, **kwargs)


class KeyedStart(Generic[P, T]):
    """The starts of one key."""

    __slots__ = ("_answer", "_ask", "_encode")

    def __init__(
        self,
        ask: Callable[[str], Coroutine[Any, Any, str]],
        encode: Callable[[tuple[Any, ...], Mapping[str, Any]], bytes],
        answer: Callable[[str], T],
    ) -> None:
        self._ask = ask
        self._encode = encode
        self._answer = answer

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask for a start, durably: a worker has noted it when this returns (G1, G5).

        Raises what a call of an actor raises: ``InvalidInput`` for arguments that do not fit, ``WaitTimeout`` if no
        worker has answered in time, ``MailboxFull``.
        """
        return self._answer(await self._ask(self._encode(args, kwargs).decode()))


class Starts(Generic[P, T]):
    """Starts of a workflow by key. What ``at(key).start(...)`` answers depends on what declared it."""

    def __init__(
        self,
        actor: type[Starter],
        encode: Callable[[tuple[Any, ...], Mapping[str, Any]], bytes],
        answer: Callable[[str], T],
    ) -> None:
        self._actor = actor
        self._encode = encode
        self._answer = answer

    def at(self, key: str, *, request_id: str | None = None, timeout: Duration | None = None) -> KeyedStart[P, T]:
        """The starts of this key. With ``request_id`` one start counts once, however often it is asked for (G5); after
        ``timeout`` the caller stops waiting, and what it has asked for may still be done.
        """
        address = self._actor.at(key, request_id=request_id, timeout=timeout)
        return KeyedStart(address.ask, self._encode, self._answer)


def hidden_starter(
    app: Declares, base: type[Starter], pattern: str, name: str | None, workflow: Workflow[..., Any], **rules: Any
) -> type[Starter]:
    """Register the hidden actors of a pattern for a workflow. ``rules`` are the class variables of ``base``.

    Raises ``DuplicateName`` if the pattern is declared under this name.
    """
    own = name or workflow.name
    check_name(pattern, own)
    called = f"{HIDDEN_MARK}{app.name}{HIDDEN_MARK}{pattern}{STARTER_MARK}{own}"
    if called in app.registry.actors:
        raise DuplicateName(f"app.{pattern} is declared twice for {own!r}; give one of them another name: name=...")
    options = {"app": hidden(app), "name": called, "reply_window": REPLY_WINDOW, "timeout": LOOK_WITHIN}
    fixed = {"workflow": workflow, **rules}
    made: Any = types.new_class(called, (base,), options, lambda namespace: namespace.update(fixed))
    kind: Kind = made.kind
    kind.passing = lambda _key: True
    return cast("type[Starter]", made)


def handle_if_any(workflow: Workflow[..., T]) -> Callable[[str], Handle[T] | None]:
    """Turns the id of an execution into its handle; ``None`` if there is no id."""
    return lambda id: workflow.handle(id) if id else None
