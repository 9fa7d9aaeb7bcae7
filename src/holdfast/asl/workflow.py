"""The workflow that runs executions of state machines."""

from __future__ import annotations

from typing import Any

from holdfast.asl.about import begun_with
from holdfast.workflows.definition import Workflow


class MachineWorkflow(Workflow[..., Any]):
    """A workflow whose input holds the definition and what the machine is given.

    A redrive attempts a Task that waits for a token again, with another token, as Step Functions does.
    """

    renews_callbacks = True

    def begins_alike(self, began: bytes, input: bytes) -> bool:
        """Whether the machine is given the same: the definition is code, and code may have changed since (G11, G13)."""
        return begun_with(began).input == begun_with(input).input
