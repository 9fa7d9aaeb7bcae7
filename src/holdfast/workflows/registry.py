"""What an app knows by name: its workflows and its steps. Names, never import paths, are what the store holds (G12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import DuplicateName, InvalidInput, UnknownName
from holdfast.failure import ErrorRegistry
from holdfast.texts import told_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.workflows.definition import Step, Workflow

LONGEST_NAME_CHARACTERS: Final = 100


class Registry:
    """The workflows, steps and error classes of one app."""

    def __init__(self) -> None:
        self.workflows: dict[str, Workflow[..., Any]] = {}
        self.steps: dict[str, Step[..., Any]] = {}
        self.errors = ErrorRegistry()

    def add_workflow(self, workflow: Workflow[..., Any]) -> None:
        _add(self.workflows, "workflow", workflow.name, workflow)
        workflow.steps = self.steps

    def add_step(self, step: Step[..., Any]) -> None:
        _add(self.steps, "step", step.name, step)

    def take_in(self, other: Registry) -> None:
        """Know what another registry knows, too. Raises ``DuplicateName`` if both have something of one name."""
        for workflow in other.workflows.values():
            self.add_workflow(workflow)
        for step in other.steps.values():
            self.add_step(step)
        self.errors.take_in(other.errors)

    def workflow(self, name: str) -> Workflow[..., Any]:
        """The workflow of this name, or ``UnknownName`` with the ones there are."""
        try:
            return self.workflows[name]
        except KeyError:
            raise UnknownName(f"no workflow is called {name!r} here; there are: {_listed(self.workflows)}") from None


def _add(known: dict[str, Any], kind: str, name: str, new: Any) -> None:
    check_name(kind, name)
    if name in known:
        raise DuplicateName(
            f"two {kind}s are called {name!r}: {place_of(known[name].function)} and {place_of(new.function)}. "
            f"Give one of them another name: @app.{kind}(name=...)"
        )
    known[name] = new


def check_name(kind: str, name: str) -> None:
    """Names become keys in the store: short, printable, and without its separators."""
    given: Any = name  # whatever its annotation says
    if (
        not isinstance(given, str)
        or not name
        or len(name) > LONGEST_NAME_CHARACTERS
        or not name.isprintable()
        or set(name) & set("#/!")
    ):
        raise InvalidInput(
            f"{'an' if kind == 'app' else 'a'} {kind}'s name has 1 to {LONGEST_NAME_CHARACTERS} printable characters "
            f"and none of # / ! — not {name!r}"
        )


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written, for messages."""
    code = getattr(function, "__code__", None)
    return told_place(code.co_filename, code.co_firstlineno) if code is not None else repr(function)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
