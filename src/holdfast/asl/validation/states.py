"""Rules for a machine and its states: which fields each kind has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.asl.validation.choices import rule
from holdfast.asl.validation.diagnostic import DUPLICATE_NAME, INVALID_NAME, Path
from holdfast.asl.validation.expressions import (
    assignments,
    constant,
    or_expression,
    path_or_call,
    static_result,
    template,
)
from holdfast.asl.validation.failing import catchers, retriers
from holdfast.asl.validation.graph import check_graph
from holdfast.asl.validation.kinds import is_object
from holdfast.asl.validation.maps import item_batcher, item_reader, label, processor_config, result_writer
from holdfast.asl.validation.tasks import agrees, credentials, resource
from holdfast.asl.validation.values import (
    boolean,
    integer,
    list_of,
    one_of,
    path,
    path_or_null,
    real,
    result_path,
    text,
    timestamp,
)
from holdfast.asl.validation.visit import JSONATA, JSONPATH, Check, Shape, Visit, check_object

KINDS: Final = ("Task", "Wait", "Pass", "Succeed", "Fail", "Choice", "Parallel", "Map")
NAME_CHARACTERS: Final = 80
LONGEST_SECONDS: Final = 99_999_999
LANGUAGES: Final = (JSONPATH, JSONATA)


def machine(visit: Visit, value: Mapping[str, Any]) -> None:
    """A whole definition."""
    check_object(visit, (), value, MACHINE)
    check_graph(visit, (), value)


def branch(visit: Visit, at: Path, value: Any) -> None:
    """A branch of a Parallel."""
    if check_object(visit, at, value, BRANCH):
        check_graph(visit, at, value)


def processor(visit: Visit, at: Path, value: Any) -> None:
    """What a Map runs for each item."""
    if check_object(visit, at, value, PROCESSOR):
        check_graph(visit, at, value)


def states(visit: Visit, at: Path, value: Any) -> None:
    """The states of a machine, by name; a name is unique in the whole definition."""
    if not is_object(value):
        visit.report(at, "Expected value of type [OBJECT]")
        return
    if not value:
        visit.report(at, "Value cannot be empty")
    for name, each in value.items():
        place = (*at, name)
        if not name or len(name) > NAME_CHARACTERS:
            visit.report(place, f"A state's name has 1 to {NAME_CHARACTERS} characters", INVALID_NAME)
        if name in visit.names:
            visit.report(place, f"Duplicate State name: {name}", DUPLICATE_NAME)
        visit.names.setdefault(name, place)
        state(visit, place, each)


def state(visit: Visit, at: Path, value: Any) -> None:
    """One state."""
    if not is_object(value):
        visit.report(at, "Expected value of type [OBJECT]")
        return
    visit = visit.speaking(language_of(visit, at, value))
    kind = value.get("Type")
    if "Type" not in value:
        visit.report(at, "These fields are required: [Type]")
    elif not isinstance(kind, str) or kind not in STATES:
        told = f"The field 'Type' should have one of these values: [{', '.join(KINDS)}]"
        visit.report((*at, "Type"), told)
    else:
        check_object(visit, at, value, STATES[kind])
        if kind == "Task":
            agrees(visit, at, value)
        if kind in CONTINUING:
            goes_on(visit, at, value)


def language_of(visit: Visit, at: Path, value: dict[str, Any]) -> str:
    """The query language of a state: its own or the machine's, whatever the states around it have."""
    written = value.get("QueryLanguage", visit.top_language)
    if written == JSONPATH and visit.top_language == JSONATA:
        visit.report(at, "'QueryLanguage' can not be 'JSONPath' if set to 'JSONata' for whole state machine")
    return JSONPATH if written == JSONPATH else JSONATA


def goes_on(visit: Visit, at: Path, value: dict[str, Any]) -> None:
    """Report a state that has no successor and is no end, or both."""
    if "Next" in value and value.get("End") is True:
        visit.report(at, "There should only be one of the following fields: [Next, End]")
    if "Next" not in value and value.get("End") is not True:
        visit.report(at, "This object should have only one of the following fields: [Next, End]")


COMMON: Final[dict[str, Check]] = {"Type": text, "Comment": text, "QueryLanguage": one_of(*LANGUAGES)}
THROUGH: Final[dict[str, Check]] = {"InputPath": path_or_null, "OutputPath": path_or_null, "Output": template}
ONWARD: Final[dict[str, Check]] = {"Next": text, "End": boolean, "Assign": assignments}
WORKING: Final[dict[str, Check]] = {
    "Parameters": template,
    "Arguments": template,
    "ResultSelector": template,
    "ResultPath": result_path,
    "Retry": retriers,
    "Catch": catchers,
}
CONTINUING: Final = frozenset({"Task", "Pass", "Wait", "Parallel", "Map"})

OF_JSONPATH: Final = frozenset({"InputPath", "OutputPath", "Parameters", "Result", "ResultPath", "ResultSelector"})
OF_JSONATA: Final = frozenset({"Arguments", "Output"})


def shape(
    fields: Mapping[str, Check],
    *,
    required: tuple[str, ...] = (),
    pairs: tuple[str, ...] = (),
    exclusive: tuple[tuple[str, ...], ...] = (),
    exactly: tuple[tuple[str, ...], ...] = (),
) -> Shape:
    """The shape of a kind of state. ``pairs`` are the fields that JSONPath also has with ``Path`` behind the name."""
    paths = {f"{name}Path": path for name in pairs}
    named = {**COMMON, **fields, **{name: check for name, check in paths.items() if name not in fields}}
    return Shape(
        named,
        required=required,
        exclusive=(*((name, f"{name}Path") for name in pairs), *exclusive),
        exactly=exactly,
        jsonpath=frozenset((OF_JSONPATH & named.keys()) | paths.keys() | ({"ItemsPath"} & named.keys())),
        jsonata=frozenset((OF_JSONATA | {"Items"}) & named.keys()),
    )


SECONDS: Final = or_expression(integer(1, LONGEST_SECONDS))
COUNT: Final = or_expression(integer(0, LONGEST_SECONDS))

STATES: Final[dict[str, Shape]] = {
    "Task": shape(
        {
            **THROUGH,
            **ONWARD,
            **WORKING,
            "Resource": resource,
            "Credentials": credentials,
            "TimeoutSeconds": SECONDS,
            "HeartbeatSeconds": SECONDS,
        },
        required=("Resource",),
        pairs=("TimeoutSeconds", "HeartbeatSeconds"),
    ),
    "Pass": shape({**THROUGH, **ONWARD, "Result": static_result, "Parameters": template, "ResultPath": result_path}),
    "Choice": shape(
        {**THROUGH, "Assign": assignments, "Choices": list_of(rule, empty=False), "Default": text},
        required=("Choices",),
    ),
    "Wait": shape(
        {
            **THROUGH,
            **ONWARD,
            "Seconds": or_expression(integer(0, LONGEST_SECONDS)),
            "Timestamp": or_expression(timestamp),
            "SecondsPath": path,
            "TimestampPath": path,
        },
        exactly=(("SecondsPath", "Seconds", "TimestampPath", "Timestamp"),),
    ),
    "Succeed": shape(THROUGH),
    "Fail": shape(
        {
            "Error": or_expression(text),
            "Cause": or_expression(text),
            "ErrorPath": path_or_call,
            "CausePath": path_or_call,
        },
        pairs=("Error", "Cause"),
    ),
    "Parallel": shape(
        {**THROUGH, **ONWARD, **WORKING, "Branches": list_of(branch, empty=False)}, required=("Branches",)
    ),
    "Map": shape(
        {
            **THROUGH,
            **ONWARD,
            **WORKING,
            "ItemProcessor": processor,
            "Iterator": processor,
            "Items": or_expression(constant),
            "ItemsPath": path,
            "ItemSelector": template,
            "ItemReader": item_reader,
            "ItemBatcher": item_batcher,
            "ResultWriter": result_writer,
            "MaxConcurrency": COUNT,
            "ToleratedFailureCount": COUNT,
            "ToleratedFailurePercentage": or_expression(real(0, 100)),
            "Label": label,
        },
        pairs=("MaxConcurrency", "ToleratedFailureCount", "ToleratedFailurePercentage"),
        exclusive=(("ItemSelector", "Parameters"),),
        exactly=(("ItemProcessor", "Iterator"),),
    ),
}
BRANCH: Final = Shape({"Comment": text, "StartAt": text, "States": states}, required=("States", "StartAt"))
PROCESSOR: Final = Shape({**BRANCH.fields, "ProcessorConfig": processor_config}, required=("States", "StartAt"))
MACHINE: Final = Shape(
    {
        **BRANCH.fields,
        "Version": one_of("1.0"),
        "QueryLanguage": one_of(*LANGUAGES),
        "TimeoutSeconds": integer(1, LONGEST_SECONDS),
    },
    required=("States", "StartAt"),
)
