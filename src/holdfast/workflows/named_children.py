"""Children whose parent gives them an id: where they are, which nothing that is recorded of the operation tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.replay.activation import Activation
from holdfast.workflows.record import partition_of
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.registrations import Registrations
    from holdfast.replay.requests import Operation
    from holdfast.workflows.declared import DeclaredWorkflow
    from holdfast.workflows.history import Recorded
    from holdfast.workflows.options import StartOptions


class AwaitedChild(Struct, frozen=True):
    """What a body asks for when it awaits a child."""

    workflow: DeclaredWorkflow
    input: bytes
    options: StartOptions

    @property
    def named(self) -> str | None:
        """The partition of a child that has been given an id."""
        return None if self.options.id is None else partition_of(self.workflow.name, self.options.id)


class _Asked(Activation):
    """Keeps where the children are that the body has named."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.children: dict[str, str] = {}

    def request(self, kind: str, name: str, command: Any, **more: Any) -> Operation:
        operation = super().request(kind, name, command, **more)
        if isinstance(command, AwaitedChild) and command.named is not None:
            self.children[operation.id] = command.named
        return operation


def named_children(recorded: Recorded, registry: Registrations) -> dict[str, str]:
    """The partitions of the children that the body has named, by operation; those of code that is not here are not
    found.
    """
    if recorded.record.workflow not in registry.workflows:
        return {}
    workflow = registry.workflow(recorded.record.workflow)
    with looked_into(recorded, recorded.entries, workflow, registry.errors.rebuild, _Asked) as activation:
        activation.begin()
        return activation.children if isinstance(activation, _Asked) else {}
