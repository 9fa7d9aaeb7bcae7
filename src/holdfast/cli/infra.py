"""``holdfast infra``: print a template with everything that a home on AWS needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from holdfast.cli.output import echo
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.errors import ConfigurationError
from holdfast.infra import EventRule, Fabric, Function, Routed, local_code, template, uploaded_code


@click.group("infra")
def infra() -> None:
    """The infrastructure of a home on AWS, as a template of CloudFormation."""


def _environment(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r}: write NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def _arn(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and not given.startswith("arn:"):
        raise click.BadParameter(f"{given!r}: write the whole ARN, which begins with arn:")
    return given


def _arns(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for each in given:
        _arn(_context, _parameter, each)
    return given


def _statements(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[dict[str, Any]]:
    try:
        return [msgspec.json.decode(each, type=dict[str, Any]) for each in given]
    except msgspec.DecodeError as error:
        raise click.BadParameter(
            f"""{error}; write {{"Effect": "Allow", "Action": "ses:SendEmail", "Resource": "*"}}"""
        ) from None


def _functions(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Routed]:
    found: dict[str, Routed] = {}
    for each in given:
        name, _, options = each.partition("=")
        try:
            found[name] = msgspec.json.decode(options, type=Routed)
        except (msgspec.DecodeError, ConfigurationError) as error:
            raise click.BadParameter(
                f"""{each!r}: {error}; write NAME={{"workflows": ["render"], "memory_mb": 3008}}"""
            ) from None
    return found


def _event_rules(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[EventRule, ...]:
    rules: list[EventRule] = []
    for each in given:
        bus, _, pattern = each.partition("=")
        try:
            rules.append(EventRule(bus, msgspec.json.decode(pattern, type=dict[str, Any])))
        except (msgspec.DecodeError, ConfigurationError) as error:
            raise click.BadParameter(f"""{each!r}: {error}; write BUS={{"source": ["holdfast.shop"]}}""") from None
    return tuple(rules)


@infra.command(
    "template",
    epilog=examples(
        "holdfast infra template --prefix shop --code build > template.json",
        "aws cloudformation package --template-file template.json --s3-bucket mine --output-template-file packed.yaml",
        "aws cloudformation deploy --template-file packed.yaml --stack-name shop --capabilities CAPABILITY_IAM "
        "--s3-bucket mine",
    ),
)
@click.option("--prefix", metavar="NAME", required=True, help="Names everything; the home is aws://NAME.")
@click.option(
    "--code",
    metavar="PATH|URL",
    help="The worker's code: a folder or zip file for `aws cloudformation package`, or s3://bucket/key. "
    "Without it, no function is made.",
)
@click.option("--handler", default="handler.handler", show_default=True, help="Where in the code the handler is.")
@click.option("--runtime", default="python3.13", show_default=True, help="Lambda's name of the Python.")
@click.option(
    "--architecture", type=click.Choice(["arm64", "x86_64"]), default="arm64", show_default=True, help="Its processor."
)
@click.option(
    "--memory-mb", type=click.IntRange(128, 10_240), default=512, show_default=True, help="Memory, and with it CPU."
)
@click.option(
    "--timeout-seconds", type=int, default=60, show_default=True, help="The longest an invocation takes; 1 to 900."
)
@click.option(
    "--env",
    "environment",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_environment,
    help="A variable of its environment; may be repeated.",
)
@click.option(
    "--policy-arn",
    "policies",
    metavar="ARN",
    multiple=True,
    callback=_arns,
    help="A managed policy for its role, for what its steps do; may be repeated.",
)
@click.option(
    "--statement",
    "statements",
    metavar="JSON",
    multiple=True,
    callback=_statements,
    help="A statement of IAM for its role; may be repeated.",
)
@click.option(
    "--subnet",
    "subnets",
    metavar="ID",
    multiple=True,
    help="Put it into the VPC of this subnet, which must reach the services of AWS that it calls; may be repeated.",
)
@click.option(
    "--security-group", "security_groups", metavar="ID", multiple=True, help="Its group there; may be repeated."
)
@click.option(
    "--layer",
    "layers",
    metavar="ARN",
    multiple=True,
    callback=_arns,
    help="A version of a layer; may be repeated, the last one is on top.",
)
@click.option("--snap-start", is_flag=True, help="Start new environments from a snapshot. AWS charges for it.")
@click.option("--tracing", is_flag=True, help="Send traces of its invocations to X-Ray.")
@click.option(
    "--reserved-concurrency", type=int, help="The number of concurrent invocations that are kept for it, and allowed."
)
@click.option(
    "--function",
    "functions",
    metavar="NAME=JSON",
    multiple=True,
    callback=_functions,
    help="A further function for some workflows and actors, with the same code; may be repeated.",
)
@click.option("--log-days", type=int, default=30, show_default=True, help="How long logs are kept.")
@click.option(
    "--url",
    type=click.Choice(["off", "iam", "public"]),
    default="off",
    show_default=True,
    help="Create a URL at which it answers HTTP: signed requests only, or public.",
)
@click.option("--own-table", is_flag=True, help="Create no table: it exists already.")
@click.option("--own-bucket", metavar="NAME", help="Create no bucket: this one exists already.")
@click.option("--key-arn", metavar="ARN", callback=_arn, help="Encrypt with this KMS key.")
@click.option(
    "--stream",
    is_flag=True,
    help="Let the table's stream send wake-ups too, in case a writer dies early. Costs an invocation per change.",
)
@click.option(
    "--listing",
    is_flag=True,
    help="Create the index by which executions and actors can be listed. Costs a write unit for each new one.",
)
@click.option(
    "--parts",
    type=int,
    help="The number of parts of the index of what is due, each of which takes 1,000 writes a second; at first 4.",
)
@click.option(
    "--ordered/--no-ordered", default=True, show_default=True, help="Create the ordered queue, which feeds actors."
)
@click.option(
    "--ordered-receives",
    type=int,
    default=100,
    show_default=True,
    help="After this many receipts an ordered message becomes a dead letter.",
)
@click.option("--batch-size", type=int, default=10, show_default=True, help="The most messages per invocation.")
@click.option("--batch-window-seconds", type=int, default=0, show_default=True, help="How long to wait for that many.")
@click.option("--most-at-once", type=int, help="The most concurrent invocations for the doorbell.")
@click.option(
    "--event-rule",
    "event_rules",
    metavar="BUS=PATTERN",
    multiple=True,
    callback=_event_rules,
    help="Deliver the events of this bus that match the pattern (JSON) to the consumers; may be repeated.",
)
@click.option("--alarm-topic-arn", metavar="ARN", callback=_arn, help="The SNS topic for alarms.")
@click.option(
    "--alarm-table-gb", type=int, default=100, show_default=True, help="The size of the table that an alarm tells of."
)
@click.option(
    "--tenant",
    "tenants",
    metavar="PREFIX",
    multiple=True,
    help="Create a policy that only reads ids with this prefix, such as acme/; may be repeated.",
)
@click.option(
    "--keep-data/--delete-data", default=True, show_default=True, help="Whether data stays when the stack is deleted."
)
@json_option
@debug_option
def print_template(*, prefix: str, code: str | None, as_json: bool, debug: bool, **options: Any) -> None:  # noqa: ARG001 - it is JSON anyway, and debug is read at the root
    """Print the template: JSON for CloudFormation.

    The same description is a construct of CDK: holdfast.infra.DurableFabric.
    """
    if code is None:
        _check_no_function()
    of_function = {name: options.pop(name) for name in Function.__struct_fields__ if name in options}
    function = None if code is None else Function(code=_code(code), **of_function)
    echo(as_text(template(Fabric(prefix=prefix, function=function, **options))))


def as_text(made: dict[str, Any]) -> str:
    """A template as JSON with a line for each resource: small enough to be sent without a bucket for it."""
    sections = [
        f" {json.dumps(name)}: {json.dumps(section) if isinstance(section, str) else _lines(section)}"
        for name, section in made.items()
    ]
    return "{\n" + ",\n".join(sections) + "\n}"


def _lines(section: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in section.items()) + "\n }"


def _check_no_function() -> None:
    """Refuse options about the function if none is made, rather than ignore them."""
    context = click.get_current_context()
    for parameter in context.command.params:
        is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if is_given and parameter.name in Function.__struct_fields__:
            raise click.UsageError(f"{parameter.opts[0]} is about the function, which is created only with --code")


def _code(place: str) -> Any:
    return uploaded_code(place) if place.startswith("s3://") else local_code(Path(place))
