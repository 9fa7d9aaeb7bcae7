"""Definitions that Step Functions refuses, each with its words, its place, its pointer and its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.asl import validation
from holdfast.asl.validation import ERROR, STYLE, WARNING, Diagnostic, Profile, rejection, response, validate
from holdfast.asl.validation.json_text import Lines

NO_PATH = "must be a valid JSONPath or a valid intrinsic function call"
NO_JSON = "was expecting (JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
ONLY = "only supported for the"
TIMES = "[SecondsPath, Seconds, TimestampPath, Timestamp]"
SELECTORS = "[And, Or, Not, Variable, Condition]"
END = {"Type": "Succeed"}
TASK = {"Type": "Task", "Resource": "arn:aws:lambda:eu-west-1:123456789012:function:pay", "End": True}


def machine(state: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {"StartAt": "S", "States": {"S": state}, **fields}


def found(definition: object, **profile: bool) -> list[str]:
    return [
        f"{each.message} at {each.location}"
        for each in validate(definition, Profile(**profile))
        if each.severity == ERROR
    ]


def task(**fields: object) -> dict[str, Any]:
    return machine({**TASK, **fields})


def jsonata(**fields: object) -> dict[str, Any]:
    return machine({"Type": "Pass", "End": True, **fields}, QueryLanguage="JSONata")


def choice(**rule: object) -> dict[str, Any]:
    return {"StartAt": "S", "States": {"S": {"Type": "Choice", "Choices": [rule]}, "E": END}}


def map_(**fields: object) -> dict[str, Any]:
    processor = {"StartAt": "I", "States": {"I": {"Type": "Pass", "End": True}}}
    return machine({"Type": "Map", "ItemProcessor": processor, "End": True, **fields})


VALID = {
    "task": task(),
    "wait": machine({"Type": "Wait", "Timestamp": "2026-01-01T00:00:00Z", "End": True}),
    "choice": choice(Variable="$.a", NumericEquals=1, Next="E"),
    "nested choice": choice(
        And=[{"Variable": "$.a", "IsPresent": True}, {"Not": {"Variable": "$.b", "IsNull": True}}], Next="E"
    ),
    "map": map_(),
    "distributed map": map_(
        ItemProcessor={
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
            "StartAt": "I",
            "States": {"I": {"Type": "Pass", "End": True}},
        },
        ItemReader={
            "Resource": "arn:aws:states:::s3:getObject",
            "ReaderConfig": {"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW", "MaxItems": 10},
            "Parameters": {"Bucket.$": "$.bucket"},
        },
        Label="Orders",
    ),
    "catch": task(Catch=[{"ErrorEquals": ["States.ALL"], "Next": "S", "ResultPath": "$.error"}]),
    "template": task(
        Parameters={"a.$": "$.x[*].y", "b": [{"c.$": "States.Format('{}', $.z)"}], "d.$": "$$.Task.Token"}
    ),
    "no input": task(InputPath=None, ResultPath=None),
    "jsonata": jsonata(Output={"sum": "{% $sum($states.input.lines.price) %}", "text": "100 %"}),
    "jsonata seconds": machine({**TASK, "TimeoutSeconds": "{% $states.input.n %}"}, QueryLanguage="JSONata"),
    "error output in a catcher": machine(
        {**TASK, "Catch": [{"ErrorEquals": ["E"], "Next": "S", "Output": "{% $states.errorOutput.Cause %}"}]},
        QueryLanguage="JSONata",
    ),
    "jsonata state in a JSONPath machine": machine(
        {"Type": "Pass", "QueryLanguage": "JSONata", "Output": 1, "End": True}
    ),
    "aws-sdk": task(Resource="arn:aws:states:::aws-sdk:s3:headObject.waitForTaskToken"),
    "empty catch": task(Catch=[], Retry=[]),
}


@pytest.mark.parametrize("name", VALID)
def test_what_step_functions_takes(name: str) -> None:
    assert validate(json.dumps(VALID[name])) == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no start": ({"States": {"S": END}}, "These fields are required: [StartAt] at /"),
    "no type": (machine({"End": True}), "These fields are required: [Type] at /States/S"),
    "unknown field": (task(Retrys=[]), "Field 'Retrys' is not supported at /States/S"),
    "time-out of a wait": (
        machine({"Type": "Wait", "Seconds": 1, "End": True, "TimeoutSeconds": 5}),
        "Field 'TimeoutSeconds' is not supported at /States/S",
    ),
    "end of a fail": (machine({"Type": "Fail", "End": True}), "Field 'End' is not supported at /States/S"),
    "next and end": (
        {"StartAt": "S", "States": {"S": {**TASK, "Next": "E"}, "E": END}},
        "There should only be one of the following fields: [Next, End] at /States/S",
    ),
    "neither": (
        {"StartAt": "S", "States": {"S": {"Type": "Pass"}, "E": END}},
        "This object should have only one of the following fields: [Next, End] at /States/S",
    ),
    "version": (machine(END, Version="2.0"), "Value should be one of the following: [1.0] at /Version"),
    "language": (
        machine(END, QueryLanguage="SQL"),
        "Value should be one of the following: [JSONPath, JSONata] at /QueryLanguage",
    ),
    "downgrade": (
        machine({"Type": "Pass", "QueryLanguage": "JSONPath", "End": True}, QueryLanguage="JSONata"),
        "'QueryLanguage' can not be 'JSONPath' if set to 'JSONata' for whole state machine at /States/S",
    ),
    "field of JSONata": (
        task(Output=1),
        f"The QueryLanguage is set to 'JSONPath', but field 'Output' is {ONLY} 'JSONata' QueryLanguage at /States/S",
    ),
    "field of JSONPath": (
        jsonata(Result={}),
        f"The QueryLanguage is set to 'JSONata', but field 'Result' is {ONLY} 'JSONPath' QueryLanguage at /States/S",
    ),
    "target": (
        {"StartAt": "S", "States": {"S": {"Type": "Pass", "Next": "X"}, "E": END}},
        "Missing 'Next' target: X at /States/S/Next",
    ),
    "start": ({"StartAt": "X", "States": {"S": END}}, "Missing 'Next' target: X at /StartAt"),
    "unreachable": ({"StartAt": "S", "States": {"S": END, "E": END}}, 'State "E" is not reachable. at /States/E'),
    "two that lead to each other": (
        {"StartAt": "S", "States": {"S": END, "A": {"Type": "Pass", "Next": "B"}, "B": {"Type": "Pass", "Next": "A"}}},
        'State "B" is not reachable. at /States/B',
    ),
    "target outside of the branch": (
        {
            "StartAt": "P",
            "States": {
                "P": {
                    "Type": "Parallel",
                    "Next": "E",
                    "Branches": [{"StartAt": "S", "States": {"S": {"Type": "Pass", "Next": "E"}}}],
                },
                "E": END,
            },
        },
        "Missing 'Next' target: E at /States/P/Branches[0]/States/S/Next",
    ),
    "no end": (machine({"Type": "Pass", "Next": "S"}), "Workflow has no terminal state at None"),
    "name twice": (
        map_(ItemProcessor={"StartAt": "S", "States": {"S": END}}),
        "Duplicate State name: S at /States/S/ItemProcessor/States/S",
    ),
    "long name": (
        {"StartAt": "a" * 81, "States": {"a" * 81: END}},
        f"A state's name has 1 to 80 characters at /States/{'a' * 81}",
    ),
    "timestamp": (
        machine({"Type": "Wait", "Timestamp": "2026-01-01 00:00:00Z", "End": True}),
        "String does not match RFC3339 timestamp at /States/S/Timestamp",
    ),
    "two times of a wait": (
        machine({"Type": "Wait", "Seconds": 1, "SecondsPath": "$.n", "End": True}),
        f"There should only be one of the following fields: {TIMES} at /States/S",
    ),
    "path": (task(OutputPath="out"), "Value must be a valid JSONPath. at /States/S/OutputPath"),
    "variable as a place": (task(ResultPath="$total"), "Value is not a Reference Path at /States/S/ResultPath"),
    "wildcard as a place": (task(ResultPath="$.a[*]"), "Value is not a Reference Path at /States/S/ResultPath"),
    "template": (
        task(Parameters={"a": [{"b.$": "c"}]}),
        f"The value for the field 'b.$' {NO_PATH} at /States/S/Parameters/a[0]",
    ),
    "intrinsic function": (
        task(Parameters={"a.$": "States.MathAdd(1, '2')"}),
        f"The value for the field 'a.$' {NO_PATH} at /States/S/Parameters",
    ),
    "two values of a template": (
        task(Parameters={"a": 1, "a.$": "$.b"}),
        "There should only be one of the following fields: [a, a.$] at /States/S/Parameters",
    ),
    "reserved variable": (
        task(Assign={"states": 1}),
        "Cannot assign to reserved variable '$states'. at /States/S/Assign",
    ),
    "variable": (
        task(Assign={"a-b.$": "$.x"}),
        "Invalid variable name 'a-b': the variable name contains invalid characters. at /States/S/Assign",
    ),
    "catch-all before others": (
        task(Retry=[{"ErrorEquals": ["States.ALL"]}, {"ErrorEquals": ["E"]}]),
        "States.ALL must appear alone and at end of list at /States/S/Retry[0]/ErrorEquals",
    ),
    "empty errors": (task(Retry=[{"ErrorEquals": []}]), "Value cannot be empty at /States/S/Retry[0]/ErrorEquals"),
    "catch without next": (
        task(Catch=[{"ErrorEquals": ["E"]}]),
        "These fields are required: [Next] at /States/S/Catch[0]",
    ),
    "jitter": (
        task(Retry=[{"ErrorEquals": ["E"], "JitterStrategy": "HALF"}]),
        "Value should be one of the following: [NONE, FULL] at /States/S/Retry[0]/JitterStrategy",
    ),
    "back-off": (
        task(Retry=[{"ErrorEquals": ["E"], "BackoffRate": 0.5}]),
        "Value should be at least 1.0 at /States/S/Retry[0]/BackoffRate",
    ),
    "heartbeat": (
        task(TimeoutSeconds=5, HeartbeatSeconds=5),
        "'HeartbeatSeconds' should be smaller than 'TimeoutSeconds' at /States/S",
    ),
    "resource": (task(Resource="pay"), "Value is not a valid resource ARN at /States/S/Resource"),
    "role": (
        task(Credentials={"Role": "x"}),
        "The field 'RoleArn' is required but was missing at /States/S/Credentials",
    ),
    "comparison": (
        choice(Variable="States.ArrayLength($.a)", NumericEquals=1, Next="E"),
        "Value is not a Reference Path: Reference path didn't start with '$' at /States/S/Choices[0]/Variable",
    ),
    "operand": (
        choice(Variable="$.a", NumericEquals="1", Next="E"),
        "Expected value of type [NUMBER] at /States/S/Choices[0]/NumericEquals",
    ),
    "two operators": (
        choice(Variable="$.a", NumericEquals=1, IsNull=True, Next="E"),
        "There should only be one of the following fields: [NumericEquals, IsNull] at /States/S/Choices[0]",
    ),
    "next within": (
        choice(Not={"Variable": "$.a", "IsNull": True, "Next": "E"}, Next="E"),
        "Field 'Next' is not supported at /States/S/Choices[0]/Not",
    ),
    "rule of nothing": (
        choice(Next="E"),
        f"The object must have only one of the following fields, {SELECTORS} at /States/S/Choices[0]",
    ),
    "no processor": (
        machine({"Type": "Map", "End": True}),
        "This object should have only one of the following fields: [ItemProcessor, Iterator] at /States/S",
    ),
    "percentage": (
        map_(ToleratedFailurePercentage=101),
        "Value should be at most 100 at /States/S/ToleratedFailurePercentage",
    ),
    "label": (map_(Label="a?b"), "Label contains invalid character: '?' at /States/S/Label"),
    "headers": (
        map_(ItemReader={"Resource": "arn:aws:states:::s3:getObject", "ReaderConfig": {"InputType": "CSV"}}),
        "The field 'CSVHeaderLocation' is required at /States/S/ItemReader/ReaderConfig",
    ),
    "unclosed expression": (
        jsonata(Output={"a": "{% 1"}),
        "JSONata string must start with {% and end with %} at /States/S/Output/a",
    ),
    "name at the top level": (
        jsonata(Output={"a": ["{% phone %}"]}),
        "Reference to 'phone' at the top level is not supported. at /States/S/Output/a[0]",
    ),
    "error output": (
        jsonata(Output="{% $states.errorOutput.Error %}"),
        "Reference to '$states.errorOutput' is not supported. at /States/S/Output",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_step_functions_refuses(name: str) -> None:
    definition, expected = REFUSED[name]
    assert expected in found(definition)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("arn:aws:states:::dynamodb:query", "is not recognized"),
        ("arn:aws:states:::lambda:invoke.sync", "is not recognized"),
        ("arn:aws:states:::glue:startJobRun.waitForTaskToken", "is not recognized"),
        ("arn:aws:states:::batch:submitJob.sync:2", "is not recognized"),
        ("arn:aws:lambda:eu-west-1:123456789012:function:pay:", "Value is not a valid resource ARN"),
        ("arn:aws:states:::states:startExecution.sync:2", None),
        ("arn:aws:states:eu-west-1:123456789012:activity:pack", None),
        ("arn:aws:lambda:eu-west-1:123456789012:function:pay:$LATEST", None),
    ],
)
def test_a_resource_is_one_that_step_functions_has(resource: str, expected: str | None) -> None:
    findings = found(task(Resource=resource))
    assert (expected is None and findings == []) or (expected is not None and expected in findings[0])


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ("arn:aws:states:::sqs:sendMessage.waitForTaskToken", "'.waitForTaskToken' service integration "),
        ("arn:aws:states:::states:startExecution.sync", "'.sync' service integration"),
        ("arn:aws:states:eu-west-1:123456789012:activity:pack", "Activity ARN"),
    ],
)
def test_an_express_machine_waits_for_nothing_outside(resource: str, message: str) -> None:
    assert found(task(Resource=resource)) == []
    assert found(task(Resource=resource), express=True) == [
        f"Express state machine does not support {message} at /States/S/Resource"
    ]


def test_holdfast_binds_resources_by_any_name() -> None:
    assert found(task(Resource="pay"), aws=False) == []
    assert [each.severity for each in validate(task(Resource="pay"), Profile(aws=False))] == [STYLE]


@pytest.mark.parametrize("mode", ["INLINE", "DISTRIBUTED"])
def test_only_step_functions_wants_to_know_the_type_of_distributed_iterations(mode: str) -> None:
    processor = {"ProcessorConfig": {"Mode": mode}, "StartAt": "I", "States": {"I": {"Type": "Pass", "End": True}}}
    missing = ["These fields are required: [ExecutionType] at /States/S/ItemProcessor/ProcessorConfig"]
    assert found(map_(ItemProcessor=processor)) == (missing if mode == "DISTRIBUTED" else [])
    assert found(map_(ItemProcessor=processor), aws=False) == []


def test_a_template_of_cloudformation_has_values_to_come() -> None:
    definition = task(Resource="${Function}", TimeoutSeconds="${Seconds}")
    assert found(definition, substitutions=True) == []
    assert len(found(definition)) == 2


def test_a_path_without_a_dollar_in_its_name_is_a_warning() -> None:
    findings = validate(task(Parameters={"a": "$.b"}))
    assert [(each.severity, each.code, each.pointer) for each in findings] == [
        (WARNING, "NO_DOLLAR", "/States/S/Parameters/a")
    ]
    assert response(findings)["diagnostics"] == []
    assert [each["code"] for each in response(findings, severity="WARNING")["diagnostics"]] == ["NO_DOLLAR"]


def test_a_finding_has_its_line_and_column() -> None:
    text = json.dumps(task(TimeoutSeconds=0), indent=2)
    (finding,) = validate(text)
    assert text.splitlines()[finding.line - 1][finding.column - 1 :].startswith('"TimeoutSeconds": 0')
    assert finding.pointer == "/States/S/TimeoutSeconds"


def test_the_lines_of_a_text_are_looked_for_once_however_many_findings_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A megabyte of names that stand twice has 40,000 findings: each looked through the text, half a minute in all."""
    texts: list[str] = []

    class Counted(Lines):
        def __init__(self, text: str) -> None:
            texts.append(text)
            super().__init__(text)

    monkeypatch.setattr(validation, "Lines", Counted)
    again = ",\n".join('"S": {"Type": "Succeed"}' for _ in range(100))
    findings = validate('{"StartAt": "S", "States": {' + again + "}}")
    assert [(each.line, each.column) for each in findings] == [(line, 1) for line in range(2, 101)]
    assert len(texts) == 1


def test_a_finding_about_what_is_missing_stands_at_what_lacks_it() -> None:
    text = '{\n "StartAt": "S",\n "States": {\n  "S": {"Type": "Choice"}}}'
    assert [(each.line, each.column) for each in validate(text) if "required" in each.message] == [(4, 3)]


def test_a_name_that_stands_twice_is_seen_in_text() -> None:
    text = '{"StartAt": "S", "StartAt": "S", "States": {"S": {"Type": "Fail"}, "S": {"Type": "Succeed"}}}'
    assert found(text) == ["Field 'StartAt' is written twice at /StartAt", "Duplicate State name: S at /States/S"]


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        (" ", "Definition must be a valid JSON object", None),
        ("[]", "Definition must be a valid JSON object", None),
        (
            "nonsense here",
            f"Unrecognized token 'nonsense': {NO_JSON}\n at ",
            '[Source: (String)"nonsense here"; line: 1, column: 9]',
        ),
        (
            '{\n"a" 1}',
            "Unexpected character ('1' (code 49)): was expecting a colon to separate field name and value\n at ",
            '[Source: (String)"{\n"a" 1}"; line: 2, column: 6]',
        ),
        ('{"a": ', "Unexpected end-of-input\n at ", '[Source: (String)"{"a": "; line: 1, column: 7]'),
    ],
)
def test_text_that_is_no_object(text: str, message: str, place: str | None) -> None:
    (finding,) = validate(text)
    assert (finding.message, finding.location) == (message + (place or ""), place)


def test_a_deep_definition_is_refused_before_it_is_read() -> None:
    assert [each.code for each in validate('{"a":' * 200 + "1" + "}" * 200)] == ["TOO_DEEPLY_NESTED"]
    assert [each.code for each in validate("[" * 100_000)] == ["TOO_DEEPLY_NESTED"]


def test_create_refuses_with_all_errors_in_one_message() -> None:
    definition = {"StartAt": "a", "States": {"a": {"Type": "Pass", "Next": "c"}, "b": {"Type": "Pass", "End": True}}}
    assert rejection(validate(definition)) == (
        "Invalid State Machine Definition: 'MISSING_TRANSITION_TARGET: Missing 'Next' target: c at /States/a/Next, "
        'MISSING_TRANSITION_TARGET: State "b" is not reachable. at /States/b\''
    )
    assert rejection(validate(task())) is None


def test_the_answer_of_validate_state_machine_definition() -> None:
    answer = response([Diagnostic(ERROR, "C", "m", ("States", "a"))] * 3, most=2)
    assert answer == {
        "result": "FAIL",
        "diagnostics": [{"severity": "ERROR", "code": "C", "message": "m", "location": "/States/a"}] * 2,
        "truncated": True,
    }


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["$.a", "{% $x %}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def places_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    fields = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for name, inner in fields for place in places_of(inner, (*path, name))]


def changed(definition: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    copy = json.loads(json.dumps(definition))
    holder = copy
    for name in path[:-1]:
        holder = holder[name]
    change(holder, path[-1])
    return copy


@settings(max_examples=50)
@given(st.sampled_from(sorted(VALID)), st.data())
def test_any_value_anywhere_gives_diagnostics_and_no_traceback(name: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(places_of(VALID[name])))
    value = data.draw(JSON)
    for definition in (
        changed(VALID[name], path, lambda holder, key: holder.__setitem__(key, value)),
        changed(VALID[name], path, lambda holder, key: holder.pop(key)),
    ):
        findings = validate(json.dumps(definition))
        assert all(each.line > 0 for each in findings)
        assert [each.message for each in validate(definition)] == [each.message for each in findings]


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", r'"\ud800"'])
def test_a_value_that_no_json_may_have_is_told_with_its_place(value: str) -> None:
    (finding,) = validate('{"StartAt": "A",\n "States": [1, ' + value + "]}")
    assert (finding.line, finding.column) == (2, 16)


@given(JSON)
def test_any_json_gives_diagnostics_and_no_traceback(value: Any) -> None:
    assert validate(json.dumps(value))


@given(st.text('{}[]:,"ab1\\ \n', max_size=30))
def test_any_text_gives_diagnostics_and_no_traceback(text: str) -> None:
    assert validate(text)


@pytest.mark.parametrize("pattern", ["(", "[", "(?<n>a)(?<n>b)", r"(?P<n>a)(?P<n>b)"])
def test_a_regular_expression_that_does_not_compile_is_a_finding(pattern: str) -> None:
    path = f"$.list[?(@.s =~ /{pattern}/)]"
    assert found(task(InputPath=path)) == ["Value must be a valid JSONPath. at /States/S/InputPath"]
    assert found(task(Parameters={"a.$": path}))
    assert found(choice(Variable=path, IsPresent=True, Next="E"))


@pytest.mark.parametrize("pattern", ["(?<=a+)b", "a{99999999999}", "(a+)+$"])
def test_a_regular_expression_of_any_kind_raises_nothing(pattern: str) -> None:
    assert found(task(InputPath=f"$.list[?(@.s =~ /{pattern}/)]")) == []


@pytest.mark.parametrize("definition", [5, None, b"{}", [], True])
def test_what_is_neither_text_nor_a_mapping_is_a_finding(definition: object) -> None:
    assert found(definition) == ["Definition must be a valid JSON object at None"]


def test_a_machine_with_an_invalid_definition_cannot_be_declared() -> None:
    app = hf.App("shop")
    with pytest.raises(hf.InvalidInput) as refused:
        app.state_machine("pay", {"StartAt": "S", "States": {"S": {"Type": "Pass"}}})
    assert str(refused.value) == (
        "the definition of state machine 'pay' is not valid:\n"
        "  /States/S: This object should have only one of the following fields: [Next, End] "
        "(SCHEMA_VALIDATION_FAILED)\n"
        "  /: Workflow has no terminal state (MISSING_END_STATE)"
    )
