"""The declarations of an app, by name. The store has names, never import paths (G12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.errors import ConfigurationError, DuplicateName, InvalidInput, UnknownName
from holdfast.failure import ErrorRegistry
from holdfast.texts import told_place

LONGEST_NAME_CHARACTERS: Final = 100


class Registrations:
    """The workflows, steps, actors, classes of events and of errors of one app.

    The object of a name belongs to a layer above this one, which knows its type.
    """

    __slots__ = ("actors", "errors", "events", "steps", "workflows")

    def __init__(self) -> None:
        self.workflows: dict[str, Any] = {}
        self.steps: dict[str, Any] = {}
        self.actors: dict[str, Any] = {}
        self.events: dict[str, type] = {}
        self.errors = ErrorRegistry()

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

    def take_in(self, part: Registrations) -> None:
        """Add the declarations of another app. Raises ``DuplicateName`` if both have one name."""
        for workflow in part.workflows.values():
            self.add_workflow(workflow)
        for step in part.steps.values():
            self.add_step(step)
        for kind in part.actors.values():
            self.add_actor(kind)
        self.errors.take_in(part.errors)


def _add(known: dict[str, Any], kind: str, name: str, new: Any) -> None:
    check_name(kind, name)
    if name in known:
        raise DuplicateName(
            f"two {kind}s are called {name!r}: {place_of(known[name].function)} and {place_of(new.function)}. "
            f"Give one of them another name: @app.{kind}(name=...)"
        )
    known[name] = new


def check_name(kind: str, name: str) -> None:
    """Raise ``InvalidInput`` unless a name can be part of a key: short, printable, and without its separators."""
    given: Any = name  # users without a type checker
    if (
        not isinstance(given, str)
        or not name
        or len(name) > LONGEST_NAME_CHARACTERS
        or not name.isprintable()
        or set(name) & set("#/!")
    ):
        raise InvalidInput(
            f"{'an' if kind == 'app' else 'a'} {kind}'s name must have 1 to {LONGEST_NAME_CHARACTERS} printable "
            f"characters and none of # / !, got {name!r}"
        )


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written, for messages."""
    code = getattr(function, "__code__", None)
    return told_place(code.co_filename, code.co_firstlineno) if code is not None else repr(function)
