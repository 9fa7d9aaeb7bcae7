"""What calls the function, read back: the event sources, and the rule of the sweep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from holdfast.backends.aws.names import DOORBELL, ORDERED, SWEEP_INPUT, queue
from holdfast.errors import StoreUnavailable
from holdfast.infra.events import SWEEP_EVERY
from holdfast.verify.bench import Bench
from holdfast.verify.finding import Finding, differences

SOURCES: Final = "event sources"
READY_WITHIN_SECONDS: Final = 60.0
ANSWERS: Final = "ReportBatchItemFailures"


async def sources(bench: Bench) -> Finding:
    """Whether both queues and the stream call the live version, and answers name single failures; and the sweep."""
    wanted = (queue(bench.record.prefix, DOORBELL), queue(bench.record.prefix, ORDERED), f"{bench.table}/stream")

    async def look() -> list[dict[str, Any]] | None:
        answer = await bench.cloud.send("lambda", "ListEventSourceMappings", FunctionName=bench.function)
        there: list[dict[str, Any]] = answer["EventSourceMappings"]
        return None if any(each["State"] in {"Creating", "Enabling", "Updating"} for each in there) else there

    try:
        there = await bench.cloud.until(look, "the event sources", seconds=READY_WITHIN_SECONDS)
    except StoreUnavailable as slow:
        return differences(SOURCES, [str(slow)])
    wrong = [*_of_mappings(there, wanted), *await _of_sweep(bench)]
    return differences(SOURCES, wrong, told=f"{len(wanted)} sources are on, and the sweep runs once a minute")


def _of_mappings(there: list[dict[str, Any]], wanted: tuple[str, ...]) -> Iterator[str]:
    for source in wanted:
        found = [
            each for each in there if f":{source}" in each["EventSourceArn"] or f"/{source}" in each["EventSourceArn"]
        ]
        if not found:
            yield f"{source} does not call the function"
        for each in found:
            if each["State"] != "Enabled":
                yield f"the source {source} is {each['State']}"
            if ANSWERS not in each.get("FunctionResponseTypes", ()):
                yield f"a failure in a batch of {source} repeats all of the batch"


async def _of_sweep(bench: Bench) -> list[str]:
    name = f"{bench.table}-sweep"
    try:
        rule = await bench.cloud.send("events", "DescribeRule", Name=name)
        targets = (await bench.cloud.send("events", "ListTargetsByRule", Rule=name))["Targets"]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return [f"the rule {name} cannot be read: {error}"]
    wrong: list[str] = []
    if (rule["State"], rule.get("ScheduleExpression")) != ("ENABLED", SWEEP_EVERY):
        wrong.append(f"the rule {name} is {rule['State']}, at {rule.get('ScheduleExpression')}")
    if [json.loads(each["Input"]) for each in targets] != [SWEEP_INPUT]:
        wrong.append(f"the rule {name} does not ask the function to sweep")
    return wrong
