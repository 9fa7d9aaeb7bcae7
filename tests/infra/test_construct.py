"""The construct of CDK is the template, resource for resource."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SKIP_NOTHING
from tests.infra.fabrics import LAYER
from tests.infra.tools import CDK, bare_environment, environment_or_skip, installed, lacking

from holdfast.cli.init import write_project
from holdfast.infra import Existing, Fabric, Function, Routed, UploadedCode, template

SYNTHESISE = Path(__file__).with_name("synthesise.py")


def test_without_cdk_the_construct_says_what_it_needs():
    code = "import sys; sys.modules['aws_cdk'] = None\nfrom holdfast.infra import DurableFabric"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "pip install '.[cdk]'" in run.stderr


@pytest.fixture(scope="module")
def cdk() -> Path:
    """The programs of an environment with CDK in it."""
    if not installed(CDK) and SKIP_NOTHING not in os.environ:
        lacking("the construct of CDK", "it is large, and only `make test-cdk` installs it")
    return environment_or_skip(CDK)


@pytest.fixture(scope="module")
def synthesised(cdk: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("cdk")
    (folder / "code").mkdir()
    (folder / "code" / "handler.py").write_text("def handler(event, context): ...\n")
    quiet = bare_environment(
        JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION="1", JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION="1"
    )
    command = [cdk / "python", SYNTHESISE, folder / "code"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=quiet)
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def renamed(value: Any, names: dict[str, str]) -> Any:
    """A value of a synthesised template, with our names of resources in place of CDK's."""
    match value:
        case {"Ref": str(name)} if name in names:
            return {"Ref": names[name]}
        case {"Fn::GetAtt": [str(name), attribute]} if name in names:
            return {"Fn::GetAtt": [names[name], attribute]}
        case {"DependsOn": list(others), **rest} if others:
            return renamed(rest, names) | {"DependsOn": [names.get(other, other) for other in others]}
        case dict():
            return {key: renamed(each, names) for key, each in value.items()}
        case list():
            return [renamed(each, names) for each in value]
        case _:
            return value


def ours(stack: dict[str, Any]) -> dict[str, Any]:
    """The resources of a synthesised stack that are of the fabric, by our names."""
    names = stack["names"]
    found = {names[name]: each for name, each in stack["template"]["Resources"].items() if name in names}
    assert len(found) == len(names)
    return {name: renamed(resource, names) for name, resource in found.items()}


def without_version(resources: dict[str, Any]) -> dict[str, Any]:
    """The name of a version ends with a digest of the code, which CDK makes in its own way."""
    text = json.dumps(resources)
    for name in [name for name, each in resources.items() if each["Type"] == "AWS::Lambda::Version"]:
        text = text.replace(name, f"{name.partition('Version')[0]}Version")
    return json.loads(text)


@pytest.mark.aws
@pytest.mark.slow
def test_the_construct_is_the_template(synthesised):
    found = ours(synthesised["made"])
    code = found["Function"]["Properties"]["Code"]
    uploaded = UploadedCode(code["S3Bucket"], code["S3Key"], "digest")
    function = Function(code=uploaded, memory_mb=1024, url="iam", tracing=True, layers=[LAYER])
    further = {"pdf": Routed(workflows=["render"], memory_mb=3008)}
    fabric = Fabric(prefix="shop", function=function, functions=further, alarm_table_gb=7)
    assert without_version(found) == without_version(template(fabric)["Resources"])


@pytest.mark.aws
@pytest.mark.slow
def test_what_is_brought_along_is_used(synthesised):
    stack = synthesised["existing"]
    found = ours(stack)
    others = {name: each for name, each in stack["template"]["Resources"].items() if name not in stack["names"]}
    named = {each["Type"]: name for name, each in others.items()}
    aliases = {
        each["Properties"]["Name"]: name for name, each in others.items() if each["Type"] == "AWS::Lambda::Alias"
    }
    fabric = Fabric(
        prefix="shop",
        function=Existing(
            name="",
            alias_arn={"Ref": aliases["live"]},
            sweep_arn={"Ref": aliases["sweep"]},
            timeout_seconds=90,
        ),
        own_bucket={"Ref": named["AWS::S3::Bucket"]},
        key_arn={"Fn::GetAtt": [named["AWS::KMS::Key"], "Arn"]},
        alarm_topic_arn={"Ref": named["AWS::SNS::Topic"]},
        ordered=False,
    )
    worker = next(
        name for name in others if name.startswith("Worker") and others[name]["Type"] == "AWS::Lambda::Function"
    )
    expected = json.dumps(template(fabric)["Resources"]).replace('"Value": ""', f'"Value": {{"Ref": "{worker}"}}')
    different = {name for name, each in json.loads(expected).items() if found[name] != each}
    assert different <= {"Dashboard"}, "CDK joins the text of the dashboard in its own way"
    assert found["Doorbell"]["Properties"]["VisibilityTimeout"] == 540


@pytest.mark.aws
@pytest.mark.slow
def test_functions_get_their_policies_and_their_home(synthesised):
    stack = synthesised["existing"]
    resources, names = stack["template"]["Resources"], stack["names"]

    def of(kind: str, start: str) -> dict[str, Any]:
        (found,) = [
            each for name, each in resources.items() if each["Type"] == f"AWS::{kind}" and name.startswith(start)
        ]
        return renamed(found["Properties"], names)

    assert {"Ref": "WorkerPolicy"} in of("IAM::Role", "Worker")["ManagedPolicyArns"]
    front = of("IAM::Role", "Front")["ManagedPolicyArns"]
    assert {"Ref": "ClientPolicy"} in front
    assert {"Ref": "ReaderPolicy"} in front
    assert {"Ref": "WorkerPolicy"} not in front
    urls = [json.dumps(of("Lambda::Function", who)["Environment"]["Variables"]) for who in ("Worker", "Front")]
    assert urls[0] == urls[1]
    assert "aws://shop?region=" in urls[0]
    (calls,) = of("IAM::Policy", "Fabric")["PolicyDocument"]["Statement"]
    assert calls["Action"] == "lambda:InvokeFunction"
    assert json.dumps(calls["Resource"]).endswith('":*"]]}')
    assert of("Lambda::Function", "Worker")["RecursiveLoop"] == "Allow"
    assert "RecursiveLoop" not in of("Lambda::Function", "Front")
    (version,) = [each for each in resources.values() if each["Type"] == "AWS::Lambda::Version"]
    assert version["DeletionPolicy"] == "Retain"


@pytest.mark.aws
@pytest.mark.slow
def test_two_homes_share_a_stack(synthesised):
    tables = [
        each["Properties"]["TableName"]
        for each in synthesised["twice"]["template"]["Resources"].values()
        if each["Type"] == "AWS::DynamoDB::Table"
    ]
    assert sorted(tables) == ["one-holdfast", "two-holdfast"]


@pytest.mark.aws
@pytest.mark.slow
def test_choices_that_contradict_each_other(synthesised):
    both, twice_said = synthesised["refusals"]
    assert "give either" in both
    assert "memory_mb" in twice_said


@pytest.mark.aws
@pytest.mark.slow
def test_the_stack_of_a_new_project_synthesises(cdk, tmp_path):
    write_project(tmp_path / "shop", "shop")
    (tmp_path / "shop" / "build").mkdir()
    (tmp_path / "shop" / "build" / "handler.py").write_text("handler = None\n")
    environment = bare_environment(CDK_OUTDIR=str(tmp_path / "out"))
    command = [cdk / "python", "stack.py"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path / "shop", env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    made = json.loads((tmp_path / "out" / "shop.template.json").read_text())["Resources"]
    kinds = {each["Type"] for each in made.values()}
    assert {"AWS::DynamoDB::Table", "AWS::Lambda::Function", "AWS::SQS::Queue"} <= kinds


@pytest.mark.aws
@pytest.mark.slow
@pytest.mark.parametrize("name", ["made", "existing", "twice"])
def test_cfn_lint_finds_nothing(name, synthesised, tmp_path):
    programs = environment_or_skip("cfn-lint")
    (tmp_path / "stack.json").write_text(json.dumps(synthesised[name]["template"]))
    command = [programs / "cfn-lint", "--ignore-checks", "W", "--", str(tmp_path / "stack.json")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=bare_environment())
    assert run.returncode == 0, run.stdout
