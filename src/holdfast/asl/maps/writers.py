"""Results into objects in S3, or wherever the mapped function puts them: ``ResultWriter``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from holdfast.asl.definition import Map
from holdfast.asl.errors import RESULT_WRITER_FAILED, StatesError
from holdfast.asl.jsontext import compact, is_array
from holdfast.asl.templates import evaluated, filled
from holdfast.asl.together import Ended
from holdfast.asl.visit import Visit

if TYPE_CHECKING:
    from holdfast.asl.frames import Run

NOT_REDRIVABLE: Final = "NOT_REDRIVABLE"


class Child(Struct, frozen=True):
    """What is told of a child execution in the files of results."""

    execution: Mapping[str, Any]
    input: Any
    ended: Ended


async def written(run: Run, visit: Visit, effective: Any, children: Sequence[Child]) -> Any:
    """The result of a Map with a ``ResultWriter``: where its results are, or the results as it transforms them.

    Raises ``StatesError``, mostly ``States.ResultWriterFailed``.
    """
    writer = cast("dict[str, Any]", cast("Map", visit.state).result_writer)
    config = cast("dict[str, str]", writer.get("WriterConfig") or {})
    if "Resource" not in writer:
        return _transformed([each for each in children if each.ended.error is None], config)
    if visit.state.jsonata:
        given = evaluated(writer.get("Arguments") or {}, visit, "ResultWriter/Arguments")
    else:
        given = filled(writer.get("Parameters") or {}, visit.about(effective), visit.randomness)
    return await _put_all(run, visit, str(writer["Resource"]), given, config, children)


async def _put_all(
    run: Run,
    visit: Visit,
    resource: str,
    given: dict[str, Any],
    config: dict[str, str],
    children: Sequence[Child],
) -> Any:
    map_run = visit.randomness.uuid()
    prefix = str(given.get("Prefix", ""))
    folder = f"{prefix}/{map_run}" if prefix and not prefix.endswith("/") else f"{prefix}{map_run}"
    state_machine = visit.context["StateMachine"]["Id"]
    arn = f"{state_machine.replace(':stateMachine:', ':mapRun:')}/{visit.state.name}:{map_run}"
    files: dict[str, list[Any]] = {"FAILED": [], "PENDING": [], "SUCCEEDED": []}
    suffix = "jsonl" if config.get("OutputType") == "JSONL" else "json"
    for status in ("SUCCEEDED", "FAILED"):
        chosen = [each for each in children if (each.ended.error is None) == (status == "SUCCEEDED")]
        if chosen:
            body = _file(_transformed(chosen, {"Transformation": "NONE", **config}), suffix)
            key = f"{folder}/{status}_0.{suffix}"
            await _put(run, resource, given, key, body)
            files[status].append({"Key": key, "Size": len(body.encode())})
    manifest = {"DestinationBucket": given.get("Bucket"), "MapRunArn": arn, "ResultFiles": files}
    await _put(run, resource, given, f"{folder}/manifest.json", compact(manifest))
    details = {"Bucket": given.get("Bucket"), "Key": f"{folder}/manifest.json"}
    return {"MapRunArn": arn, "ResultWriterDetails": details}


async def _put(run: Run, resource: str, given: dict[str, Any], key: str, body: str) -> None:
    try:
        await run.tasks.call(run, resource, {"Bucket": given.get("Bucket"), "Key": key, "Body": body})
    except StatesError as error:
        raise StatesError(RESULT_WRITER_FAILED, error.cause) from error


def _file(values: Any, suffix: str) -> str:
    return "\n".join(map(compact, values)) if suffix == "jsonl" else compact(values)


def _transformed(children: Sequence[Child], config: Mapping[str, str]) -> Any:
    match config.get("Transformation", "NONE"):
        case "COMPACT":
            values: list[Any] = [_value(each) for each in children]
        case "FLATTEN":
            values = []
            for each in children:
                value = _value(each)
                values += value if is_array(value) else [value]
        case _:
            values = [_told(each) for each in children]
    return values


def _value(child: Child) -> Any:
    return child.ended.output if child.ended.error is None else child.ended.error.output


def _told(child: Child) -> dict[str, Any]:
    error = child.ended.error
    told: dict[str, Any] = {
        "ExecutionArn": child.execution["Id"],
        "Input": compact(child.input),
        "InputDetails": {"Included": True},
        "Name": child.execution["Name"],
        "RedriveCount": 0,
        "RedriveStatus": NOT_REDRIVABLE,
        "Status": "SUCCEEDED" if error is None else "FAILED",
        "StartDate": child.execution["StartTime"],
    }
    if error is None:
        return {**told, "Output": compact(child.ended.output), "OutputDetails": {"Included": True}}
    return {**told, "Error": error.error, "Cause": error.cause}
