"""``holdfast infra``: what is printed is the template, with what was chosen."""

from __future__ import annotations

import json

import click
import msgspec
import pytest
from tests.infra.fabrics import ALL

from holdfast.cli.infra import print_template
from holdfast.infra import EventRule, Fabric, Function, Routed, template
from holdfast.infra.function_options import local_code, uploaded_code


def printed(shop, *arguments):
    result = shop.invoke("infra", "template", *arguments, app=None)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_template_is_printed(shop):
    assert printed(shop, "--prefix", "shop") == template(ALL["data only"])
    code = uploaded_code("s3://code/shop.zip")
    assert printed(shop, "--prefix", "shop", "--code", "s3://code/shop.zip", "--json") == template(
        Fabric(prefix="shop", function=Function(code=code))
    )


def test_the_code_of_a_folder_is_named_and_known_by_its_content(shop):
    folder = shop.path("build")
    folder.mkdir()
    (folder / "handler.py").write_text("handler = None")
    found = printed(shop, "--prefix", "shop", "--code", "build")
    assert found["Resources"]["Function"]["Properties"]["Code"] == "build"
    code = msgspec_with_path(local_code(folder), "build")
    assert found == template(Fabric(prefix="shop", function=Function(code=code)))


def msgspec_with_path(code, path):
    return type(code)(path, code.digest)


def test_every_option_reaches_the_template(shop):
    choices = {
        "--handler": "shop.handler",
        "--runtime": "python3.12",
        "--architecture": "x86_64",
        "--memory-mb": 1024,
        "--timeout-seconds": 30,
        "--reserved-concurrency": 9,
        "--log-days": 7,
        "--url": "iam",
        "--own-bucket": "mine",
        "--key-arn": "arn:aws:kms:eu-west-1:000000000000:key/1",
        "--ordered-receives": 7,
        "--batch-size": 50,
        "--batch-window-seconds": 3,
        "--most-at-once": 5,
        "--parts": 20,
        "--alarm-topic-arn": "arn:aws:sns:eu-west-1:000000000000:topic",
        "--alarm-table-gb": 7,
    }
    rule = ["--event-rule", 'default={"source": ["aws.s3"]}']
    own = {"Effect": "Allow", "Action": "ses:SendEmail", "Resource": "*"}
    several = {
        "--policy-arn": ["arn:aws:iam::000000000000:policy/mine"],
        "--subnet": ["subnet-1", "subnet-2"],
        "--security-group": ["sg-1"],
        "--layer": ["arn:aws:lambda:eu-west-1:000000000000:layer:fonts:3"],
        "--statement": [json.dumps(own)],
        "--function": ['pdf={"workflows": ["render"], "memory_mb": 3008}'],
    }
    repeated = [word for name, values in several.items() for value in values for word in (name, value)]
    flags = [
        *rule,
        *repeated,
        "--snap-start",
        "--tracing",
        "--own-table",
        "--no-ordered",
        "--delete-data",
        "--env",
        "A=1",
        "--env",
        "B=2=3",
    ]
    words = [str(word) for pair in choices.items() for word in pair]
    found = printed(shop, "--prefix", "shop", "--code", "s3://code/shop.zip", *words, *flags)
    chosen = {name.removeprefix("--").replace("-", "_"): value for name, value in choices.items()}
    of_function = {name: chosen.pop(name) for name in list(chosen) if name in Function.__struct_fields__}
    function = Function(code=uploaded_code("s3://code/shop.zip"), environment={"A": "1", "B": "2=3"}, **of_function)
    function = msgspec.structs.replace(
        function,
        policies=several["--policy-arn"],
        statements=[own],
        subnets=several["--subnet"],
        security_groups=several["--security-group"],
        layers=several["--layer"],
        snap_start=True,
        tracing=True,
    )
    fabric = Fabric(
        prefix="shop",
        function=function,
        own_table=True,
        ordered=False,
        keep_data=False,
        event_rules=[EventRule("default", {"source": ["aws.s3"]})],
        functions={"pdf": Routed(workflows=["render"], memory_mb=3008)},
        **chosen,
    )
    assert found == template(fabric)


@pytest.mark.parametrize("wrong", ["default", "default={", "default=[1]", "default={}", '={"source": ["aws.s3"]}'])
def test_a_rule_that_says_nothing_is_refused(shop, wrong):
    result = shop.invoke(
        "infra", "template", "--prefix", "shop", "--code", "s3://code/a.zip", "--event-rule", wrong, app=None
    )
    assert result.exit_code == 2
    assert 'write BUS={"source": ["holdfast.shop"]}' in result.output


def test_every_choice_that_there_is_has_an_option():
    options = {parameter.name for parameter in print_template.params if isinstance(parameter, click.Option)}
    fields = {*Fabric.__struct_fields__, *Function.__struct_fields__} - {"function"}
    assert fields <= options
    assert options - fields == {"as_json", "debug"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--prefix", "Shop"), "small letter"),
        (("--prefix", "shop", "--code", "nowhere"), "there is no code in nowhere"),
        (("--prefix", "shop", "--code", "s3://bucket"), "names no object"),
        (("--prefix", "shop", "--batch-size", "11"), "between 1 and 10"),
        (
            ("--prefix", "shop", "--code", "s3://code/shop.zip", "--log-days", "31"),
            "log_days must be one of 1, 3, 5, 7, 14, 30,",
        ),
        (("--prefix", "shop", "--code", "s3://code/shop.zip", "--subnet", "subnet-1"), "subnets and security groups"),
        (
            ("--prefix", "shop", "--code", "s3://code/shop.zip", "--snap-start", "--runtime", "python3.11"),
            "SnapStart needs Python 3.12",
        ),
    ],
)
def test_what_aws_would_refuse_is_refused_here(shop, arguments, complaint):
    assert complaint in shop.refusal("infra", "template", *arguments)["message"]


@pytest.mark.parametrize(
    "option", [("--url", "iam"), ("--memory-mb", "1024"), ("--env", "A=1"), ("--timeout-seconds", "30")]
)
def test_what_is_said_about_a_function_that_is_not_made_is_refused(shop, option):
    result = shop.invoke("infra", "template", "--prefix", "shop", *option, app=None)
    assert result.exit_code == 2
    assert f"{option[0]} is about the function, which is created only with --code" in result.stderr


@pytest.mark.parametrize("option", ["--key-arn", "--alarm-topic-arn"])
def test_an_arn_is_given_as_a_whole(shop, option):
    result = shop.invoke("infra", "template", "--prefix", "shop", option, "mine", app=None)
    assert result.exit_code == 2
    assert "begins with arn:" in result.stderr


@pytest.mark.parametrize("wrong", ["ses:SendEmail", "[1]"])
def test_a_statement_is_json(shop, wrong):
    result = shop.invoke(
        "infra", "template", "--prefix", "shop", "--code", "s3://code/a.zip", "--statement", wrong, app=None
    )
    assert result.exit_code == 2
    assert '"Action": "ses:SendEmail"' in result.output


@pytest.mark.parametrize("wrong", ["pdf", "pdf={}", 'pdf={"workflows": "render"}'])
def test_a_further_function_is_a_name_and_json(shop, wrong):
    result = shop.invoke(
        "infra", "template", "--prefix", "shop", "--code", "s3://code/a.zip", "--function", wrong, app=None
    )
    assert result.exit_code == 2
    assert 'write NAME={"workflows": ["render"]' in result.output


def test_an_environment_is_given_in_pairs(shop):
    result = shop.invoke("infra", "template", "--prefix", "shop", "--env", "A")
    assert result.exit_code == 2
    assert "NAME=VALUE" in result.stderr
