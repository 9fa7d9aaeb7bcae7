"""The workflows that run states of machines."""

from __future__ import annotations

from typing import Any

from holdfast.asl.about import begun_with
from holdfast.workflows.definition import Workflow


class StatesWorkflow(Workflow[..., Any]):
    """A workflow whose body runs states. A redrive attempts a Task that waits for a token again, with another token, as
    Step Functions does.
    """

    renews_callbacks = True


class MachineWorkflow(StatesWorkflow):
    """A workflow that runs a whole machine. Its input holds the definition and what the machine is given."""

    def given(self, input: bytes) -> bytes:
        """What the machine is given. The definition is code, and code may have changed since (G11, G13)."""
        return begun_with(input).input.encode()
