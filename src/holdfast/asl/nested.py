"""A Task that starts another machine: ``states:startExecution``, and ``.sync``, which waits for its end as a child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.asl.about import About
from holdfast.asl.arns import STATE_MACHINE, Account, read_arn
from holdfast.asl.catalogue import Catalogue
from holdfast.asl.errors import DATA_LIMIT_EXCEEDED, TASK_FAILED, Error, StatesError
from holdfast.asl.jsontext import NotJson, compact, read
from holdfast.asl.resources import SYNC, SYNC_2
from holdfast.asl.runners import Runner
from holdfast.asl.served import served_by
from holdfast.asl.tokens import answer_to
from holdfast.asl.validation.kinds import is_object
from holdfast.errors import ExecutionError, IdempotencyMismatch, PayloadTooLarge
from holdfast.workflows.definition import Step
from holdfast.workflows.operations.child import call_child, start_child
from holdfast.workflows.operations.step import call_step

if TYPE_CHECKING:
    from holdfast.asl.doing import Doing
    from holdfast.asl.randomness import Randomness
    from holdfast.kernel.runtime import Declares

START_EXECUTION: Final = "states:startExecution"


class Found(Struct, frozen=True):
    """A machine as it was found: what it runs, as whom, and whether the app declares it."""

    definition: str
    role_arn: str
    revision: str = ""
    version: str = ""
    declared: bool = False


async def performed(doing: Doing, app: Declares, randomness: Randomness, token: str) -> Any:
    """Start the other machine, and wait for it if the resource says so. Raises ``StatesError``."""
    doing.schedule()
    return await doing.ended(_started(doing, app, randomness, token))


async def _started(doing: Doing, app: Declares, randomness: Randomness, token: str) -> Any:
    given = doing.given if is_object(doing.given) else {}
    arn = str(given.get("StateMachineArn", ""))
    found, named = await _find(doing, app, arn), read_arn(arn, STATE_MACHINE)
    runner = None if found is None or named is None else _runner(app, named.name, found)
    if found is None or named is None or runner is None:
        raise StatesError("StepFunctions.StateMachineDoesNotExistException", f"State Machine Does Not Exist: '{arn}'")
    about = About(
        account=Account(),
        machine=named.name,
        name=str(given.get("Name") or randomness.uuid()),
        role_arn=found.role_arn,
        version=found.version,
        revision=found.revision,
    )
    text = _input_text(runner, given.get("Input", {}))
    doing.run.pace.operations += 1
    try:
        if doing.resource.pattern in (SYNC, SYNC_2):
            return await _awaited(doing, runner, about, found.definition, text)
        arguments = runner.arguments(about, found.definition, text)
        options = runner.options(about, found.definition)
        await start_child(doing.run.activation, runner.workflow, arguments, {}, options)
    except IdempotencyMismatch as error:
        told = f"Execution Already Exists: '{about.arn}'"
        raise StatesError("StepFunctions.ExecutionAlreadyExistsException", told) from error
    except PayloadTooLarge as error:
        raise StatesError(DATA_LIMIT_EXCEEDED, str(error)) from error
    submitted = {"ExecutionArn": about.arn, "StartDate": doing.run.now_ms()}
    if not token:
        return submitted
    doing.submit(submitted)
    return await answer_to(doing.run.activation, token, doing.limits)


def _input_text(runner: Runner, given: Any) -> str:
    text = given if isinstance(given, str) else compact(given)
    try:
        read(text)
        return runner.input_text(text)
    except NotJson as error:
        told = f"Invalid State Machine Execution Input: '{error}'"
        raise StatesError("StepFunctions.InvalidExecutionInputException", told) from error


def _runner(app: Declares, name: str, found: Found) -> Runner | None:
    """What runs the machine as it was found: what is declared today may not have been declared then."""
    declared: Any = app.registry.machines.get(name) if found.declared else served_by(app)
    return None if declared is None else Runner(declared)


async def _awaited(doing: Doing, runner: Runner, about: About, definition: str, input: str) -> dict[str, Any]:
    """Run the other machine as a child, and tell what AWS's DescribeExecution would. Raises ``StatesError``."""
    now = doing.run.now_ms()
    doing.submit({"ExecutionArn": about.arn, "StartDate": now})
    told: dict[str, Any] = {
        "ExecutionArn": about.arn,
        "Input": input,
        "InputDetails": {"Included": True},
        "Name": about.name,
        "RedriveCount": 0,
        "StartDate": now,
        "StateMachineArn": about.machine_arn,
    }
    arguments, options = runner.arguments(about, definition, input), runner.options(about, definition)
    try:
        output = await call_child(doing.run.activation, runner.workflow, arguments, {}, options)
    except ExecutionError as error:
        raise _failed(told, error, doing.run.now_ms()) from error
    told |= {"OutputDetails": {"Included": True}, "Status": "SUCCEEDED", "StopDate": doing.run.now_ms()}
    if doing.resource.pattern == SYNC:
        return _sorted(told | {"Output": compact(output)})
    return _sorted(told | {"Input": read(input), "Output": output})


async def _find(doing: Doing, app: Declares, arn: str) -> Found | None:
    async def find(text: str) -> Found | None:
        named = read_arn(text, STATE_MACHINE)
        catalogue = Catalogue(app, Account())
        machine = None if named is None else await catalogue.machine(named.name)
        if named is None or machine is None:
            return None
        revision, number = machine.revision, ""
        if named.qualifier:
            alias = machine.aliases.get(named.qualifier)
            number = named.qualifier if alias is None else str(alias.routes[0].version)
            version = machine.version(number)
            if version is None:
                return None
            revision = version.revision
        definition, declared = await catalogue.definition(revision.digest), catalogue.declared(named.name) is not None
        return Found(definition, revision.role_arn, revision.id, number, declared)

    step: Step[..., Found | None] = Step(find, name="machine")
    doing.run.pace.operations += 1
    found: Found | None = await call_step(doing.run.activation, step, (arn,), {})
    return found


def _failed(told: dict[str, Any], error: ExecutionError, now: int) -> StatesError:
    """What AWS tells of a machine that failed: how it is described, as the cause."""
    own = error.__cause__
    described = told | {"Status": _status(error), "StopDate": now}
    if isinstance(own, Error):
        described |= {"Error": own.error, "Cause": own.cause}
    return StatesError(TASK_FAILED, compact(_sorted(described)))


def _status(error: ExecutionError) -> str:
    match type(error).__name__:
        case "ExecutionTimedOut":
            return "TIMED_OUT"
        case "ExecutionCancelled" | "ExecutionTerminated":
            return "ABORTED"
        case _:
            return "FAILED"


def _sorted(told: dict[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in sorted(told)}
