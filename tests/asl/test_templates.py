"""Definitions with names to fill in, and machines of templates as CDK synthesises them and as SAM has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.asl.machines import app_in_virtual_time, passing, states
from tests.asl.templates import CHECKER, IMPORT, TRADER, TRADER_DEFINITION, synthesised, trades

import holdfast as hf
from holdfast.asl import jsonata
from holdfast.asl.cloudformation import yaml_text
from holdfast.testing import run_virtual

ACCOUNT = "us-east-1:000000000000"


def answer(machine: hf.asl.StateMachine, app: hf.App, input: Any = None) -> Any:
    async def main() -> Any:
        async with app.worker():
            return await machine(input)

    return run_virtual(main)


@pytest.fixture
def trader(tmp_path: Path) -> Path:
    """A project of SAM: its template, and beside it the definition."""
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "trader.asl.json").write_text(TRADER_DEFINITION, encoding="utf-8")
    template = tmp_path / "template.yaml"
    template.write_text(TRADER, encoding="utf-8")
    return template


def test_names_are_filled_in_wherever_the_definition_comes_from(tmp_path):
    definition = states("${First}", Pay=passing(Parameters={"limit": "${Limit}", "kept": "${Other}"}))
    values = {"First": "Pay", "Limit": 'say "5"'}
    file = tmp_path / "m.asl.json"
    file.write_text(json.dumps(definition), encoding="utf-8")
    app = app_in_virtual_time()
    for name, source in {"a": definition, "b": json.dumps(definition), "c": file, "d": str(file)}.items():
        machine = app.state_machine(name, source, substitutions=values)
        assert answer(machine, app) == {"limit": 'say "5"', "kept": "${Other}"}


def test_a_number_may_stand_where_a_text_could_not():
    text = '{"StartAt": "S", "States": {"S": {"Type": "Pass", "Result": {"n": ${N}, "b": ${B}}, "End": true}}}'
    filled = json.loads(hf.asl.definition_of(text, substitutions={"N": 5, "B": True}))
    assert filled["States"]["S"]["Result"] == {"n": 5, "b": True}


def test_a_machine_of_sam_runs_from_its_template(trader):
    app = app_in_virtual_time()
    machine = app.state_machine("trader", trader, tasks=trades([]))
    traded = answer(machine, app, {})
    assert traded == {"price": 40, "trade": {"side": "buy", "price": 40}, "kept": "stack-Trades"}
    resources = [each["Resource"] for each in json.loads(machine.machine.text)["States"].values() if "Resource" in each]
    assert resources[0] == f"arn:aws:lambda:{ACCOUNT}:function:PriceFunction"


def test_what_a_name_stands_for_can_be_given(trader):
    values = {"PriceFunction.Arn": "arn:aws:lambda:eu-west-1:123456789012:function:live", "Stage": "prod"}
    text = hf.asl.definition_of(trader, substitutions=values)
    assert "function:live" in text and "prod" in text


def test_a_machine_of_cdk_runs_as_it_is_synthesised():
    app = app_in_virtual_time()
    template = synthesised()
    machine = app.state_machine("poller", template, resource="Poller9A1B2C3D", tasks={"lambda:invoke": CHECKER})
    assert answer(machine, app, {"job": 7}) == {"job": 7, "status": {"state": "DONE"}}


def test_the_type_is_that_of_the_template(trader):
    app = app_in_virtual_time()
    template = synthesised()
    machine = app.state_machine("quick", template, resource="Quick5E6F7A8B")
    assert machine.type == "EXPRESS"
    assert app.state_machine("slow", template, resource="Quick5E6F7A8B", type="STANDARD").type == "STANDARD"


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (None, "has 2 state machines: name one of .*Poller9A1B2C3D"),
        ("Nowhere", "no state machine 'Nowhere'; it has"),
    ],
)
def test_a_machine_of_several_is_named(resource, message):
    with pytest.raises(hf.InvalidInput, match=message):
        hf.asl.definition_of(synthesised(), resource=resource)


def with_definition(value: Any, **parameters: Any) -> dict[str, Any]:
    machine = {"Type": "AWS::StepFunctions::StateMachine", "Properties": value}
    topic = {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "news"}}
    others = {"Topic": topic, "Queue": {"Type": "AWS::SQS::Queue"}, "Work": {"Type": "AWS::StepFunctions::Activity"}}
    return {"Parameters": parameters, "Resources": {"M": machine, **others}}


def _laughing() -> dict[str, Any]:
    """A text of 1,000 times 1,000 times ten characters."""
    return {"Fn::Sub": ["${x}" * 1_000, {"x": {"Fn::Sub": ["${y}" * 1_000, {"y": "x" * 10}]}}]}


LISTED = {"Type": "List<String>", "Default": "a, b"}
SECRET = {"Type": "AWS::SSM::Parameter::Value<CommaDelimitedList>", "Default": "/hosts"}
LATER = {"Type": "String", "Default": "{{resolve:ssm:/a}}"}
CONDITIONS: dict[str, Any] = {
    "Is dev": {"Fn::Equals": [{"Ref": "Stage"}, "dev"]},
    "Is live": {"Fn::Not": [{"Condition": "Is dev"}]},
    "Either": {"Fn::Or": [{"Condition": "Is live"}, {"Fn::And": [{"Condition": "Is dev"}, {"Fn::Equals": [1, "1"]}]}]},
    "Round": {"Condition": "Round"},
    "Twice 0": {"Fn::Equals": [1, 1]},
    **{f"Twice {n + 1}": {"Fn::And": [{"Condition": f"Twice {n}"}] * 2} for n in range(50)},
}


def rendered(value: Any, **values: Any) -> Any:
    definition = states("S", S=passing(Result={"is": value}))
    stage = {"Type": "String", "Default": "dev"}
    template = with_definition({"Definition": definition}, Stage=stage, Bare={}, Hosts=LISTED, Kept=SECRET, Later=LATER)
    template |= {
        "Conditions": CONDITIONS,
        "Mappings": {"Of": {"dev": {"size": "small", "later": "{{resolve:ssm:/a}}"}}},
    }
    return json.loads(hf.asl.definition_of(template, substitutions=values))["States"]["S"]["Result"].get("is")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "Stage"}, "dev"),
        ({"Ref": "AWS::Region"}, "us-east-1"),
        ({"Ref": "AWS::NoValue"}, None),
        ({"Ref": "Topic"}, f"arn:aws:sns:{ACCOUNT}:news"),
        ({"Ref": "Queue"}, "https://sqs.us-east-1.amazonaws.com/000000000000/Queue"),
        ({"Ref": "Work"}, f"arn:aws:states:{ACCOUNT}:activity:Work"),
        ({"Fn::GetAtt": ["Topic", "TopicName"]}, "news"),
        ({"Fn::GetAtt": "Queue.Arn"}, f"arn:aws:sqs:{ACCOUNT}:Queue"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Stage"}]]}, "a-dev"),
        ({"Fn::Sub": "${Stage}/${Queue.Arn}/${!Kept}"}, f"dev/arn:aws:sqs:{ACCOUNT}:Queue/${{Kept}}"),
        ({"Fn::Sub": ["${A}", {"A": {"Ref": "Stage"}}]}, "dev"),
        ({"Fn::Select": [1, {"Fn::Split": [":", "a:b:c"]}]}, "b"),
        ({"Fn::Select": ["1", {"Ref": "Hosts"}]}, "b"),
        ({"Fn::Join": ["+", {"Ref": "Hosts"}]}, "a+b"),
        ({"Fn::If": ["Is dev", "test", {"Ref": "Bare"}]}, "test"),
        ({"Fn::If": ["Is live", "live", {"Ref": "AWS::NoValue"}]}, None),
        ({"Fn::If": ["Either", 1, 2]}, 1),
        ({"Fn::If": ["Twice 50", 1, 2]}, 1),  # each is evaluated once, and not 2**50 times
        ({"Fn::FindInMap": ["Of", {"Ref": "Stage"}, "size"]}, "small"),
    ],
    ids=str,
)
def test_functions_of_a_template_stand_for_what_they_name(value, expected):
    assert rendered(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"Ref": "Bare"}, "give it, as Bare=…"),
        ({"Ref": "Nothing"}, "the template has no 'Nothing': give it, as Nothing=…"),
        ({"Fn::GetAtt": ["Queue", "Url"]}, "give it, as Queue.Url=…"),
        ({"Fn::ImportValue": "other"}, "Fn::ImportValue of a template stands for nothing here"),
        ({"Fn::Join": "a"}, "Fn::Join of a template does not take"),
        ({"Fn::GetAtt": 5}, "Fn::GetAtt of a template does not take"),
        ({"Fn::Select": [9, ["a"]]}, "Fn::Select of a template does not take"),
        ({"Ref": []}, "Ref of a template does not take"),
        ({"Fn::Select": [-1, ["a"]]}, "Fn::Select of a template does not take"),
        ({"Fn::Select": [0, "abc"]}, "Fn::Select of a template does not take"),
        ({"Fn::Join": [",", "abc"]}, "Fn::Join of a template does not take"),
        ({"Fn::Sub": "${Hosts}"}, "Fn::Sub of a template does not take"),
        (
            {"Ref": "Kept"},
            "the template: /Resources/M/Properties/Definition/States/S/Result/is: .*SSM.*give it, as Kept=…",
        ),
        ("{{resolve:ssm:/a}}", "when a stack is deployed"),
        ("${Missing}", "definition of 'M' at /States/S/Result/is, line 1: .*Give it, as Missing=…; or as Missing='"),
        ({"Fn::If": ["Nowhere", 1, 2]}, "has no condition 'Nowhere'"),
        ({"Fn::If": ["Round", 1, 2]}, "condition 'Round' of the template depends on itself"),
        ({"Fn::Sub": "{{resolve:ssm:/a}}"}, "Result/is: .*when a stack is deployed"),
        ({"Fn::Join": ["", ["{{res", "olve:ssm:/a}}"]]}, "when a stack is deployed"),
        ({"Ref": "Later"}, "when a stack is deployed"),
        ({"Fn::FindInMap": ["Of", "dev", "later"]}, "when a stack is deployed"),
        (_laughing(), "Result/is: .*more than 1,048,576 characters"),
        ({"Fn::Join": ["-" * 2_000, ["a"] * 1_000]}, "more than 1,048,576 characters"),
        ({"Fn::FindInMap": ["Of", "dev", "colour"]}, "Fn::FindInMap of a template does not take"),
    ],
    ids=str,
)
def test_what_stands_for_nothing_known_has_to_be_given(value, message):
    with pytest.raises(hf.InvalidInput, match=message):
        rendered(value)


def test_given_values_go_before_those_that_are_made_up():
    assert rendered({"Ref": "Bare"}, Bare="x") == "x"
    assert rendered({"Fn::GetAtt": ["Queue", "Url"]}, **{"Queue.Url": "y"}) == "y"
    assert rendered({"Fn::Sub": "${Nothing}"}, Nothing="z") == "z"
    assert rendered({"Ref": "Kept"}, Kept="x,y") == ["x", "y"]
    assert rendered("${Missing} ${Kept too}", Missing="${Missing}") == "${Missing} ${Kept too}"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "is not in the template or next to it; it has none"),
        ({"DefinitionS3Location": {"Bucket": "b", "Key": "k"}}, "it is in S3"),
        ({"DefinitionUri": "s3://b/k"}, "it is in S3"),
        ([], "it has none"),
        ({"DefinitionString": "{}", "DefinitionSubstitutions": []}, "are no object"),
        ({"DefinitionString": "{}", "DefinitionSubstitutions": {"A": ["a"]}}, "Substitutions/A: .*give it, as A=…"),
        ({"DefinitionUri": "../m.json"}, "DefinitionUri: '../m.json' leads out of the folder of the template"),
        ({"DefinitionUri": "/etc/passwd"}, "leads out of the folder"),
        ({"DefinitionUri": "a\0b"}, "is the name of no file"),
        ({"DefinitionUri": "."}, "'.' is no file"),
        ({"DefinitionUri": "gone.json"}, "/Properties/DefinitionUri: 'gone.json' is not there"),
        ({"DefinitionUri": "x" * 5_000}, "is the name of no file"),
    ],
    ids=str,
)
def test_a_definition_that_is_not_here_is_told(properties, message):
    with pytest.raises(hf.InvalidInput, match=message):
        hf.asl.definition_of(with_definition(properties))


def test_a_link_does_not_lead_out_of_the_folder_of_a_template(tmp_path):
    (tmp_path / "m.json").write_text("{}", encoding="utf-8")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.json").symlink_to(tmp_path / "m.json")
    template = tmp_path / "in" / "t.json"
    template.write_text(json.dumps(with_definition({"DefinitionUri": "m.json"})), encoding="utf-8")
    with pytest.raises(hf.InvalidInput, match="t.json: /Resources/M/Properties/DefinitionUri: 'm.json' leads out of"):
        hf.asl.definition_of(template)


def test_a_machine_whose_condition_is_false_is_not_there():
    template = with_definition({"Definition": states("S", S=passing())}, Live={"Type": "String", "Default": "no"})
    template |= {"Conditions": {"Is live": {"Fn::Equals": [{"Ref": "Live"}, "yes"]}}}
    template["Resources"]["M"]["Condition"] = "Is live"
    with pytest.raises(hf.InvalidInput, match="/Resources/M/Condition: condition 'Is live' is false"):
        hf.asl.definition_of(template)
    assert hf.asl.definition_of(template, substitutions={"Live": "yes"})


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"Bad": 5}, "condition 'Bad' of the template cannot be read: 5"),
        ({"Bad": {"Fn::Equals": [1]}}, "cannot be read"),
        ({"Bad": {"Fn::Not": [{"Condition": "Nowhere"}]}}, "has no condition 'Nowhere'"),
        ([], "has no condition 'Bad'"),
    ],
    ids=str,
)
def test_a_condition_of_a_machine_that_cannot_be_read_is_told(conditions, message):
    template = with_definition({"Definition": states("S", S=passing())}) | {"Conditions": conditions}
    template["Resources"]["M"]["Condition"] = "Bad"
    with pytest.raises(hf.InvalidInput, match=f"the template: /Resources/M/Condition: .*{message}"):
        hf.asl.definition_of(template)


NUMBER = {"Type": "Number", "MinValue": 1, "MaxValue": "3"}


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (
            {"Type": "String", "AllowedValues": ["dev", "prod"], "Default": "test"},
            "is 'test', which AllowedValues have not",
        ),
        ({"Type": "Number", "AllowedValues": [1, "2"], "Default": 3}, "is '3', which AllowedValues have not"),
        ({"Type": "CommaDelimitedList", "AllowedValues": ["a"], "Default": "a, b"}, "is 'b'"),
        ({"Type": "String", "AllowedPattern": "[a-z]+", "Default": "a1"}, "which AllowedPattern .a-z.. does not fit"),
        ({"Type": "String", "AllowedPattern": "(a+)+", "Default": "a" * 60 + "!"}, "takes more than|does not fit"),
        ({"Type": "String", "MinLength": 2, "Default": "a"}, "is below MinLength 2"),
        ({"Type": "String", "MaxLength": "2", "Default": "abc"}, "is above MaxLength 2"),
        (NUMBER | {"Default": "0"}, "is below MinValue 1"),
        (NUMBER | {"Default": 4}, "is above MaxValue 3"),
        (NUMBER | {"Default": "many"}, "which is no number"),
    ],
    ids=str,
)
def test_a_default_that_cloudformation_refuses_has_to_be_given(parameter, message, monkeypatch):
    monkeypatch.setattr(jsonata, "SECONDS", 0.05)
    template = with_definition({"Definition": states("S", S=passing(Result={"Ref": "P"}))}, P=parameter)
    with pytest.raises(hf.InvalidInput, match=message):
        hf.asl.definition_of(template)
    assert hf.asl.definition_of(template, substitutions={"P": "x"})


@pytest.mark.parametrize(
    "parameter",
    [
        {"Type": "Number", "AllowedValues": [1, 2], "Default": "2"},
        {"Type": "String", "AllowedPattern": "[a-z]*", "MinLength": 1, "MaxLength": 3, "Default": "abc"},
        {"Type": "String", "AllowedPattern": "(?i)A++", "Default": "abc"},  # Java's syntax is not checked
        {"Type": "CommaDelimitedList", "AllowedValues": ["a", "b"], "Default": "a, b"},
    ],
    ids=str,
)
def test_a_default_that_the_template_allows_is_taken(parameter):
    assert hf.asl.definition_of(
        with_definition({"Definition": states("S", S=passing(Result={"Ref": "P"}))}, P=parameter)
    )


def test_what_cloudformation_would_not_read_in_a_file_is_told(tmp_path):
    file, template = tmp_path / "m.json", tmp_path / "t.json"
    file.write_text(json.dumps(states("S", S=passing(Result="{{resolve:ssm:/a}}")), indent=1), encoding="utf-8")
    template.write_text(json.dumps(with_definition({"DefinitionUri": "m.json"})), encoding="utf-8")
    with pytest.raises(
        hf.InvalidInput, match="m.json at /States/S/Result, line 7: CloudFormation reads .* not in the file"
    ):
        hf.asl.definition_of(template)
    assert "{{resolve:ssm:/a}}" in hf.asl.definition_of(file)


def test_a_template_that_is_too_long_is_told_from_a_definition(tmp_path):
    template = tmp_path / "t.json"
    template.write_text(json.dumps(with_definition({}) | {"Description": "x" * 1_048_576}), encoding="utf-8")
    with pytest.raises(hf.InvalidInput, match="t.json: a template may have 1,048,576 characters"):
        hf.asl.definition_of(template)


def test_a_substitution_is_a_plain_value():
    with pytest.raises(hf.InvalidInput, match="substitution 'A' has to be a text, a number or a boolean"):
        hf.asl.definition_of('{"a": "${A}"}', substitutions={"A": {"Ref": "Queue"}})  # type: ignore[dict-item]


def test_an_asset_of_cdk_is_the_file_beside_the_template(tmp_path):
    location = {"Bucket": {"Fn::Sub": "cdk-assets-${AWS::AccountId}"}, "Key": "0f1e.json"}
    properties = {"DefinitionS3Location": location, "DefinitionSubstitutions": {"Kept": {"Ref": "Queue"}}}
    template = tmp_path / "S.template.json"
    template.write_text(json.dumps(with_definition(properties)), encoding="utf-8")
    definition = json.dumps(states("S", S=passing(Result={"at": "${Kept}"})))
    (tmp_path / "asset.0f1e.json").write_text(definition, encoding="utf-8")
    assert "sqs.us-east-1.amazonaws.com/000000000000/Queue" in hf.asl.definition_of(template)


def test_a_definition_has_no_resources_to_look_in():
    with pytest.raises(hf.InvalidInput, match="has no Resources"):
        hf.asl.definition_of(states("S", S=passing()), resource="S")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x\n", "line 2: CloudFormation takes no aliases"),
        ("a: 1\na: 2\n", "line 2: a name is no text, or comes twice"),
        ("true: 1\n", "line 1: a name is no text"),
        ("a: [1\n", "is no YAML in line"),
        ("a: .nan\n", "cannot be read"),
        ("a: !!python/object/apply:os.getcwd []\n", "is no YAML in line 1"),
        ("a: " + "[" * 600, "cannot be read|is no YAML"),
        ("\x00", "cannot be read"),
    ],
    ids=["alias", "twice", "no text", "broken", "nan", "an object of Python", "deep", "no character"],
)
def test_yaml_that_a_template_may_not_have_is_refused(text, message, tmp_path):
    file = tmp_path / "m.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(hf.InvalidInput, match=message):
        hf.asl.definition_of(file)


def test_a_definition_may_be_yaml(tmp_path):
    file = tmp_path / "m.asl.yaml"
    file.write_text(IMPORT, encoding="utf-8")
    app = app_in_virtual_time()
    machine = app.state_machine("m", file, substitutions={"Seconds": "5"})
    assert answer(machine, app) == {"since": "2026-11-28", "on": True}


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="this yaml has no reader in C")
def test_yaml_is_read_by_the_reader_in_c():
    assert issubclass(yaml_text._reader(), yaml.CSafeLoader)


NAMES = ["Ref", "Fn::GetAtt", "Fn::Join", "Fn::Sub", "Fn::Select", "Fn::Split", "Fn::If", "Type", "Properties", "Name"]
VALUES = st.recursive(
    st.none()
    | st.integers()
    | st.sampled_from(["M", "Queue", "P", "AWS::Region", "${M}", "${P.Arn}", "Queue.Arn", "${"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
    max_leaves=12,
)
PROPERTIES = ["DefinitionString", "Definition", "DefinitionUri", "DefinitionSubstitutions", "StateMachineType"]


@settings(max_examples=60, deadline=None)
@given(VALUES | st.dictionaries(st.sampled_from(PROPERTIES), VALUES, max_size=3), VALUES, VALUES, VALUES)
def test_any_template_is_read_or_refused(properties, resource, parameters, queue):
    template = with_definition(properties)
    template["Resources"] |= {"R": resource, "Queue": {"Type": "AWS::SQS::Queue", "Properties": queue}}
    try:
        text = hf.asl.definition_of(template | {"Parameters": parameters}, resource="M")
    except (hf.InvalidInput, OSError):  # a DefinitionUri names a file
        return
    assert all(each.message for each in hf.asl.validate(text))
