"""``app.state_machine``: light, because every app has it and few have state machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.kernel.runtime import Declares

if TYPE_CHECKING:
    from holdfast.asl.declaring import StateMachine


def state_machine(
    app: Declares,
    name: str,
    definition: str | Path | Mapping[str, Any],
    *,
    tasks: Mapping[str, Any] | None = None,
    compat: Literal["aws"] | None = None,
    type: Literal["STANDARD", "EXPRESS"] = "STANDARD",
) -> StateMachine:
    """Declare a state machine in Amazon States Language, which is started as a workflow is.

    ``definition`` is a dict, JSON text or the path of a file. ``tasks`` maps the resources of its Task states to what
    does the work: by the whole resource, its last part, the name of the state, or a pattern with ``*``.
    ``compat="aws"`` keeps the quotas of Step Functions. ``type`` is what the context object tells. Needs the extra
    ``asl``. Raises ``InvalidInput`` for a definition that cannot be read, ``ConfigurationError`` for a resource that
    nothing is mapped for.
    """
    from holdfast.asl.declaring import declare  # noqa: PLC0415 - only an app with state machines loads them

    return declare(app, name, definition, tasks=tasks, compat=compat, type=type)
