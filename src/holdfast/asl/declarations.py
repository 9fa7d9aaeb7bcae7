"""``app.state_machine``: light, because every app has it and few have state machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.kernel.runtime import Declares

if TYPE_CHECKING:
    from holdfast.asl.connections import Connection
    from holdfast.asl.declaring import StateMachine


def state_machine(  # noqa: PLR0913 - each named by its caller
    app: Declares,
    name: str,
    definition: str | Path | Mapping[str, Any],
    *,
    tasks: Mapping[str, Any] | None = None,
    http: Mapping[str, Connection] | None = None,
    aws: bool = False,
    compat: Literal["aws"] | None = None,
    type: Literal["STANDARD", "EXPRESS"] | None = None,
    resource: str | None = None,
    substitutions: Mapping[str, str | float | bool] | None = None,
) -> StateMachine:
    """Declare a state machine in Amazon States Language, which is started as a workflow is.

    ``definition`` is a dict, JSON text or the path of a file, also one of a template of CloudFormation or SAM that has
    the machine as its ``resource``. ``substitutions`` say what each ``${NAME}`` in it stands for
    (``hf.asl.definition_of``). ``tasks`` maps the resources of its Task states to what does the work: by the whole
    resource, its last part, the name of the state, or a pattern with ``*``. ``http`` names the connections of
    ``http:invoke``. With ``aws`` services of AWS do what nothing is mapped for. ``compat="aws"`` keeps the quotas of
    Step Functions. ``type`` is what the context object tells; by default what the template says, or ``STANDARD``.
    Needs the extra ``asl``. Raises ``InvalidInput`` for a definition that cannot be read, ``ConfigurationError`` for a
    resource that nothing is mapped for.
    """
    from holdfast.asl.declaring import declare  # noqa: PLC0415 - only an app with state machines loads them

    return declare(
        app,
        name,
        definition,
        tasks=tasks,
        http=http,
        aws=aws,
        compat=compat,
        type=type,
        resource=resource,
        substitutions=substitutions,
    )


def state_machines(
    app: Declares,
    *,
    tasks: Mapping[str, Any] | None = None,
    http: Mapping[str, Connection] | None = None,
    aws: bool = False,
    compat: Literal["aws"] | None = None,
) -> None:
    """Let requests of Step Functions' protocol create state machines, and say what they may call.

    ``tasks`` maps the resources of their Task states as in ``state_machine``; without it they may call the app's steps,
    by name. ``http`` names the connections of ``http:invoke``.
    What is not mapped cannot be called: nothing is found by a name in a definition (G12). Declare it where the
    app is declared, so that every worker runs them. Raises ``DuplicateName`` if it was declared before.
    """
    from holdfast.asl.served import ServedMachines  # noqa: PLC0415 - only an app with state machines loads them
    from holdfast.asl.work import Services  # noqa: PLC0415 - only an app with state machines loads them

    work = Services(app, tasks or {}, http, aws=aws, by_name=tasks is None)
    ServedMachines(app, work, compat=compat)
