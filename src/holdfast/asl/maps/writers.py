"""Results into objects in S3, or wherever the mapped function puts them: ``ResultWriter``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.asl.definition import Map
from holdfast.asl.ending import SUCCEEDED
from holdfast.asl.errors import RESULT_WRITER_FAILED, StatesError
from holdfast.asl.jsontext import compact, is_array, is_object
from holdfast.asl.orders import Child, Writer
from holdfast.asl.templates import evaluated, filled
from holdfast.asl.timestamps import iso_milliseconds
from holdfast.asl.visit import Visit

if TYPE_CHECKING:
    from holdfast.asl.frames import Run
    from holdfast.asl.maps.outcomes import Outcome

NOT_REDRIVABLE: Final = "NOT_REDRIVABLE"

Results = Sequence[tuple[Child, "Outcome"]]
"""Child executions in the order of their items, and how each has ended."""


def writer_of(visit: Visit, effective: Any) -> Writer | None:
    """What a Map says of its results, before any item is worked on. Raises ``StatesError``."""
    written = cast("Map", visit.state).result_writer
    if written is None:
        return None
    if visit.state.jsonata:
        given = evaluated(written.get("Arguments") or {}, visit, "ResultWriter/Arguments")
    else:
        given = filled(written.get("Parameters") or {}, visit.about(effective), visit.randomness)
    if not is_object(given):
        raise StatesError(RESULT_WRITER_FAILED, "The writer's arguments are no object.")
    return Writer(str(written.get("Resource", "")), compact(given), written.get("WriterConfig") or {})


async def written(run: Run, writer: Writer, map_run: str, map_run_arn: str, results: Results) -> Any:
    """The result of a Map with a ``ResultWriter``: where its results are, or the results as it transforms them.

    Raises ``StatesError``: ``States.ResultWriterFailed``.
    """
    if not writer.resource:
        return _transformed([each for each in results if _succeeded(each[1])], writer.config)
    given: dict[str, Any] = json.loads(writer.given)
    prefix = str(given.get("Prefix", ""))
    folder = f"{prefix}/{map_run}" if prefix and not prefix.endswith("/") else f"{prefix}{map_run}"
    files: dict[str, list[Any]] = {"FAILED": [], "PENDING": [], "SUCCEEDED": []}
    suffix = "jsonl" if writer.config.get("OutputType") == "JSONL" else "json"
    for status in ("SUCCEEDED", "FAILED"):
        chosen = [each for each in results if _succeeded(each[1]) == (status == "SUCCEEDED")]
        if chosen:
            body = _file(_transformed(chosen, {"Transformation": "NONE", **writer.config}), suffix)
            key = f"{folder}/{status}_0.{suffix}"
            await _put(run, writer.resource, given, key, body)
            files[status].append({"Key": key, "Size": len(body.encode())})
    manifest = {"DestinationBucket": given.get("Bucket"), "MapRunArn": map_run_arn, "ResultFiles": files}
    await _put(run, writer.resource, given, f"{folder}/manifest.json", compact(manifest))
    details = {"Bucket": given.get("Bucket"), "Key": f"{folder}/manifest.json"}
    return {"MapRunArn": map_run_arn, "ResultWriterDetails": details}


async def _put(run: Run, resource: str, given: dict[str, Any], key: str, body: str) -> None:
    try:
        await run.tasks.call(run, resource, {"Bucket": given.get("Bucket"), "Key": key, "Body": body})
    except StatesError as error:
        raise StatesError(RESULT_WRITER_FAILED, error.cause) from error


def _succeeded(outcome: Outcome) -> bool:
    return outcome.status == SUCCEEDED


def _file(values: Any, suffix: str) -> str:
    return "\n".join(map(compact, values)) if suffix == "jsonl" else compact(values)


def _transformed(results: Results, config: Mapping[str, str]) -> Any:
    match config.get("Transformation", "NONE"):
        case "COMPACT":
            values: list[Any] = [outcome.value for _, outcome in results]
        case "FLATTEN":
            values = []
            for _, outcome in results:
                values += outcome.value if is_array(outcome.value) else [outcome.value]
        case _:
            values = [_told(*each) for each in results]
    return values


def _told(child: Child, outcome: Outcome) -> dict[str, Any]:
    told: dict[str, Any] = {
        "ExecutionArn": child.arn,
        "Input": child.part.input,
        "InputDetails": {"Included": True},
        "Name": child.name,
        "RedriveCount": 0,
        "RedriveStatus": NOT_REDRIVABLE,
        "Status": outcome.status,
        "StartDate": _date(outcome.started_ms),
        "StopDate": _date(outcome.ended_ms),
    }
    if _succeeded(outcome):
        return {**told, "Output": outcome.output, "OutputDetails": {"Included": True}}
    return {**told, "Error": outcome.error, "Cause": outcome.cause}


def _date(ms: int) -> str:
    return iso_milliseconds(ms)
