"""Cases of TestState: a request, checked by AWS's client, and its answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from botocore.session import get_session
from botocore.validate import ParamValidator
from tests.asl.conformance.cases import Case, Differences
from tests.asl.conformance.definitions import message_of
from tests.asl.conformance.matching import parsed, same, shown

from holdfast.asl import teststate

JSON_TEXTS = frozenset({"definition", "input", "variables", "context"})


def check(case: Case) -> Differences:
    expected = case["expected_response"]
    fields = {
        name: value if name not in JSON_TEXTS or isinstance(value, str) else json.dumps(value)
        for name, value in case["request"].items()
    }
    answer = answered(fields, worked(expected))
    if isinstance(answer, str):
        told = message_of(expected) if is_error(expected) else shown(expected)
        return [] if is_error(expected) and same(told, answer, wild=True) else [f"expected {told}, refused: {answer}"]
    wild = case["expected_match"] != "exact"
    if not is_error(expected) and same(readable(expected), readable(answer), wild=wild):
        return []
    return [f"expected {shown(expected)}, got {shown(readable(answer))}"]


def answered(fields: dict[str, Any], result: Any) -> dict[str, Any] | str:
    """The answer to a request, or the message with which it is refused, by AWS's client or by us."""
    shape = get_session().get_service_model("stepfunctions").operation_model("TestState").input_shape
    report = ParamValidator().validate(fields, shape)
    if report.has_errors():
        return f"Parameter validation failed:\n{report.generate_report()}"

    async def perform(_state: object, _given: object) -> Any:
        return result

    try:
        return asyncio.run(teststate.answer(fields, perform))
    except teststate.Refused as refused:
        return str(refused)


def worked(expected: dict[str, Any]) -> Any:
    """What the function of a Task without a mock has answered; the recording has it nowhere else."""
    return parsed(expected.get("inspectionData", {}).get("result", expected.get("output")))


def is_error(answer: dict[str, Any]) -> bool:
    return "Error" in answer or "exception_value" in answer


def readable(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with JSON in place of its JSON texts: the recorder has read objects, and left other values as text."""
    read = {name: parsed(value) if name == "output" else value for name, value in answer.items()}
    if "inspectionData" in read:
        read["inspectionData"] = {name: parsed(value) for name, value in read["inspectionData"].items()}
    return read
