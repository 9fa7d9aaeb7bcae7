"""What a command is performed with: the open app, how names are found in it, and the id of the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct

from holdfast.actors.admin.handle import ActorHandle
from holdfast.actors.kind import kind_named, shown_kind_named
from holdfast.client import CallbackHandle
from holdfast.workflows.definition import Workflow
from holdfast.workflows.handle import Handle

if TYPE_CHECKING:
    from holdfast.actors.kind import Kind
    from holdfast.messaging.publishing import Publishes

A_co = TypeVar("A_co", covariant=True)


class Names(Struct, frozen=True):
    """How the names in a command are found. ``workflow`` and ``actor`` are asked where the code is not needed."""

    workflow: Callable[[Publishes, str], Workflow[..., Any]]
    actor: Callable[[Publishes, str], object]
    kind: Callable[[Publishes, str], Kind]


def _declared(app: Publishes, workflow: str) -> Workflow[..., Any]:
    found: Workflow[..., Any] = app.registry.workflow(workflow)
    return found


def _shown(app: Publishes, actor: str) -> Kind:
    return shown_kind_named(app.registry.actors, actor)


def _of_any_code(app: Publishes, workflow: str) -> Workflow[..., Any]:
    return Workflow(_unknown, app.runtime, name=workflow, version="unknown")


def _of_any_actor(app: Publishes, actor: str) -> Kind:
    return kind_named(app.registry.actors, actor)


async def _unknown(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError((args, kwargs))


IN_CODE: Final = Names(_declared, _shown, _shown)
"""The names of the app's code, without the actors of its consumers: for callers who are served by it."""

IN_HOME: Final = Names(_of_any_code, lambda _app, _actor: None, _of_any_actor)
"""Whatever name the home holds, for its operators; results are plain JSON. Only what runs code asks the app's."""


class Context(Struct, frozen=True):
    """What one command is performed with.

    ``own_id`` is the id of the request that brought it, for a command that names none. ``verified`` is the callback
    that the command is about, if its token was verified before.
    """

    app: Publishes
    names: Names = IN_CODE
    own_id: str = ""
    verified: CallbackHandle | None = None

    def id_of(self, given: str | None) -> str | None:
        """The id that a command names, else that of the request."""
        return given or self.own_id or given

    def handle(self, workflow: str, id: str) -> Handle[Any]:
        """The execution that a command is about."""
        return self.names.workflow(self.app, workflow).handle(id)

    def actor(self, actor: str, key: str) -> ActorHandle:
        """The actor that a command is about."""
        self.names.actor(self.app, actor)
        return ActorHandle(actor, key, self.app.runtime)

    def callback(self, token: str) -> CallbackHandle:
        """The callback that a command is about."""
        return self.verified or CallbackHandle(token, self.app.runtime)


class Command(Struct, Generic[A_co], frozen=True, tag_field="holdfast", forbid_unknown_fields=True):
    """Something that can be done from outside. Its JSON, with its tag as ``holdfast``, is what functions of Lambda
    take.
    """

    def check(self, context: Context) -> None:
        """Raise if it cannot be performed, whatever the home holds. The app need not be open."""

    async def perform(self, context: Context) -> A_co:
        """Do it; answers what there is to tell."""
        raise NotImplementedError
