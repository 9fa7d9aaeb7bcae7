"""One visit of a state: everything that its expressions can see, and the notes that an inspection wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.asl.definition import State
from holdfast.asl.environment import Environment
from holdfast.asl.randomness import Randomness

Inspection = dict[str, Any]
"""What ``TestState`` answers as ``inspectionData``: each stage of a state's data under AWS's name for it."""

NO_RESULT: Final = object()


class Visit(Struct, frozen=True):
    """A state with its input, as ``processing`` needs it.

    ``$states.result`` and ``$states.errorOutput`` are bound where the state has come to them.
    """

    state: State
    input: Any
    context: Mapping[str, Any]
    variables: Mapping[str, Any]
    randomness: Randomness
    now_ms: int = 0
    result: Any = NO_RESULT
    error_output: Any = NO_RESULT
    inspection: Inspection | None = None

    def note(self, stage: str, value: Any) -> None:
        """Tell an inspection what a stage has made."""
        if self.inspection is not None and value is not UNSET:
            self.inspection[stage] = value

    def about(self, value: Any) -> Environment:
        """What a path or template of JSONPath sees, with this value for ``$``."""
        return Environment(value, self.context, self.variables)

    @property
    def states(self) -> dict[str, Any]:
        """The reserved variable ``$states`` of JSONata."""
        bound = {"input": self.input, "context": self.context}
        if self.result is not NO_RESULT:
            bound["result"] = self.result
        if self.error_output is not NO_RESULT:
            bound["errorOutput"] = self.error_output
        return bound

    def with_result(self, result: Any) -> Visit:
        """The same once the state's work is done."""
        return replace(self, result=result)

    def with_error(self, error_output: Any) -> Visit:
        """The same once the state's work has failed."""
        return replace(self, error_output=error_output)

    def with_context(self, **fields: Any) -> Visit:
        """The same with more in the context object."""
        return replace(self, context={**self.context, **fields})
