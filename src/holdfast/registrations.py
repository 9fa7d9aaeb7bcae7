"""The declarations of an app, by name. The store has names, never import paths (G12)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from holdfast.errors import ConfigurationError, DuplicateName, UnknownName
from holdfast.failure import ErrorRegistry
from holdfast.keys import check_name
from holdfast.texts import told_place

SERVED: Final = "states"
"""The workflow of all executions of machines that requests create. Their ids are ``machine:execution``."""


class Registrations:
    """What ``app`` declares, and what its parts declare.

    The object of a name belongs to a layer above this one, which knows its type. ``events`` are the classes that
    consumers take, ``consumers`` pairs of an event's name and the actor that takes it. ``projections`` says what each
    reads. ``documents`` and ``streams`` are the type of each collection, and the collection. ``machines`` are the
    workflows that are state machines, ``queues`` what executions wait in, ``limits`` what calls wait for.
    """

    __slots__ = (
        "actors",
        "app",
        "cached",
        "consumers",
        "documents",
        "errors",
        "events",
        "from_bus",
        "idempotent",
        "jobs",
        "limits",
        "machines",
        "projections",
        "queues",
        "rebuild",
        "steps",
        "streams",
        "to_bus",
        "workflows",
    )

    def __init__(self, app: str) -> None:
        self.app = app
        self.workflows: dict[str, Any] = {}
        self.steps: dict[str, Any] = {}
        self.actors: dict[str, Any] = {}
        self.events: dict[str, type] = {}
        self.errors = ErrorRegistry()
        self.rebuild: Final = self.errors.rebuild  # one for all executions in memory, each of which has it
        self.consumers: list[tuple[str, str]] = []
        self.jobs: dict[str, Any] = {}
        self.machines: dict[str, Any] = {}
        self.to_bus: list[str] = []
        self.from_bus: dict[tuple[str, str], str] = {}
        self.idempotent: dict[str, Any] = {}
        self.cached: set[str] = set()
        self.documents: dict[str, tuple[Any, Any]] = {}
        self.streams: dict[str, tuple[Any, Any]] = {}
        self.projections: dict[str, str] = {}
        self.queues: dict[str, Any] = {}
        self.limits: dict[str, Any] = {}

    def add_workflow(self, workflow: Any) -> None:
        """Register a workflow. Raises ``DuplicateName``, or ``InvalidInput`` for a name that is not valid in a key."""
        _add(self.workflows, "workflow", workflow.name, workflow)
        workflow.steps = self.steps

    def add_step(self, step: Any) -> None:
        """Register a step. Raises as ``add_workflow``."""
        _add(self.steps, "step", step.name, step)

    def add_actor(self, kind: Any) -> None:
        """Register a class of actors, and the errors that it raises. Raises as ``add_workflow``."""
        check_name("actor", kind.name)
        if kind.name in self.actors:
            raise DuplicateName(f"two actors are called {kind.name!r}; give one of them another: name=...")
        self.add_errors(kind.policy.raises)
        self.actors[kind.name] = kind

    def add_errors(self, raises: tuple[type[Exception], ...]) -> None:
        """Rebuild errors of these classes as themselves. Raises as ``ErrorRegistry.register``."""
        given: Any = raises  # users without a type checker
        if not isinstance(given, tuple):
            raise ConfigurationError(
                f"raises must be a tuple of error classes, such as (CardDeclined,), got {raises!r}"
            )
        for error in raises:
            self.errors.register(error)

    def workflow(self, name: str) -> Any:
        """The workflow of this name. Raises ``UnknownName`` with the existing ones."""
        try:
            return self.workflows[name]
        except KeyError:
            known = ", ".join(sorted(self.workflows)) or "none"
            raise UnknownName(f"no workflow is called {name!r} here; there are: {known}") from None

    def send_to_bus(self, event: str) -> None:
        """Have events of this name sent to the bus."""
        if event not in self.to_bus:
            self.to_bus.append(event)

    def take_from_bus(self, place: tuple[str, str], event: str) -> None:
        """Have what comes from this source, with this detail type, be events of this name. Raises ``DuplicateName``."""
        if self.from_bus.setdefault(place, event) != event:
            raise DuplicateName(f"{place[1]!r} of {place[0]!r} is declared for two classes of events")

    def add_projection(self, name: str, source: str) -> None:
        """Register a projection of ``source``. Raises ``DuplicateName`` if one of another source has this name."""
        if (own := self.projections.setdefault(name, source)) != source:
            raise DuplicateName(
                f"two projections have the name {name!r}, of {own} and of {source}: each would continue where the "
                "other stopped, and skip events. Give one of them another name"
            )

    def merge(self, part: Registrations) -> None:
        """Have what another app declares here too: names are places in one store, and two owners of one would use each
        other's data. Raises ``DuplicateName``, and ``ConfigurationError`` if the other app has consumers or schedules.
        """
        if part.consumers or part.jobs:
            raise ConfigurationError(
                f"app {part.app!r} has consumers or schedules, which are named after it, so it cannot be part of "
                f"another: declare them in {self.app!r}"
            )
        for workflow in part.workflows.values():
            self.add_workflow(workflow)
        for step in part.steps.values():
            self.add_step(step)
        for kind in part.actors.values():
            self.add_actor(kind)
        self.errors.take_in(part.errors)
        self._merge_bus(part)
        self._merge_patterns(part)

    def _merge_bus(self, part: Registrations) -> None:
        for event in part.to_bus:
            self.send_to_bus(event)
        for place, event in part.from_bus.items():
            self.take_from_bus(place, event)

    def _merge_patterns(self, part: Registrations) -> None:
        _refuse_twice("idempotent handlers", self.idempotent, part.idempotent)
        _refuse_twice("cached functions", self.cached, part.cached)
        _refuse_twice("queues", self.queues, part.queues)
        _refuse_twice("limits", self.limits, part.limits)
        self.queues |= part.queues
        self.limits |= part.limits
        self.idempotent |= part.idempotent
        self.machines |= part.machines
        self.cached |= part.cached
        for name, source in part.projections.items():
            self.add_projection(name, source)
        _merge_collections("documents", self.documents, part.documents)
        _merge_collections("streams", self.streams, part.streams)


def _refuse_twice(kind: str, mine: Collection[str], theirs: Collection[str]) -> None:
    if twice := sorted(set(mine) & set(theirs)):
        raise DuplicateName(f"two {kind} have the name {twice[0]!r}; give one of them another: name=...")


def _merge_collections(kind: str, mine: dict[str, tuple[Any, Any]], theirs: dict[str, tuple[Any, Any]]) -> None:
    for name, (hint, made) in theirs.items():
        if mine.setdefault(name, (hint, made))[0] != hint:
            raise DuplicateName(
                f"two collections of {kind}, of two types, have the name {name!r}; give one of them another: name=..."
            )


def _add(known: dict[str, Any], kind: str, name: str, new: Any) -> None:
    check_name(kind, name)
    if name in known:
        raise DuplicateName(
            f"two {kind}s are called {name!r}: {place_of(known[name].function)} and {place_of(new.function)}. "
            f"Give one of them another name: @app.{kind}(name=...)"
        )
    known[name] = new


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written, for messages."""
    code = getattr(function, "__code__", None)
    return told_place(code.co_filename, code.co_firstlineno) if code is not None else repr(function)
