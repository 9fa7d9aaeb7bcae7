"""``holdfast asl lint | test | graph``: what a definition alone is good for, before there is a home or an app."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec.structs import replace

from holdfast.asl.drawing import diagram_of, outline, svg
from holdfast.asl.teststate import StateOutcome, test_state
from holdfast.asl.validation import ERROR, Diagnostic, Profile, validate
from holdfast.cli.asl import asl
from holdfast.cli.asl.given import DEFINITION, Given, Meant, of_definition, values_in, with_names
from holdfast.cli.output import as_json, bold, coloured, echo
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.cli.values import json_value
from holdfast.errors import InvalidInput

COLOURS: Final = {"ERROR": "fail", "WARNING": "warn", "STYLE": "PAUSED"}


# ── lint ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@asl.command(
    "lint",
    epilog=examples(
        "holdfast asl lint checkout.asl.json refund.asl.json",
        "holdfast asl lint checkout.asl.json --aws --json",
        "holdfast asl lint template.asl.json --template",
        "holdfast asl lint template.yaml --substitute Stage=dev",
    ),
)
@click.argument("files", metavar="FILE…", type=DEFINITION, nargs=-1, required=True)
@click.option("--aws", is_flag=True, help="For Step Functions itself: resources have to be ARNs that it knows.")
@click.option("--express", is_flag=True, help="For an Express machine, which cannot wait for something outside.")
@click.option("--template", is_flag=True, help="${…}, Ref and Fn::… stand in for values, as in CloudFormation.")
@with_names
@json_option
@debug_option
def lint(
    files: tuple[Path, ...],
    *,
    aws: bool,
    express: bool,
    template: bool,
    resource: str | None,
    substitute: tuple[str, ...],
    as_json: bool,
    debug: bool,
) -> int:
    """Check definitions, and say what Step Functions would refuse, with its code and message.

    A line for each finding: file, line and column, severity, code, message, JSON pointer. ERROR is what Step Functions
    refuses, WARNING what it warns of, STYLE what other linters of the language object to. The exit status is 1 if there
    is an error. Of a template each state machine is checked, as FILE#ID and without lines.
    """
    del debug  # a finding is no error of ours
    profile = Profile(aws=aws, express=express, substitutions=template)
    values = values_in(substitute)
    definitions = [each for file in files for each in Given(file, resource, values).each()]
    found = [(each.name, finding) for each in definitions for finding in _found_in(each, profile)]
    echo(_lint_json(found) if as_json else "\n".join(_lint_lines(found, len(definitions))))
    return int(any(each.severity == ERROR for _, each in found))


def _found_in(meant: Meant, profile: Profile) -> list[Diagnostic]:
    found = validate(meant.text, profile)
    return [replace(each, line=0, column=0) for each in found] if meant.in_template else list(found)


def _lint_lines(found: Sequence[tuple[str, Diagnostic]], files: int) -> list[str]:
    lines = [
        f"{_place(file, each)}: {coloured(each.severity, COLOURS[each.severity])} {each.code} "
        f"{each.message.partition(chr(10))[0]} ({each.pointer or '/'})"
        for file, each in found
    ]
    errors = sum(each.severity == ERROR for _, each in found)
    return [*lines, f"{files} checked: {errors} {'error' if errors == 1 else 'errors'}, {len(found) - errors} others"]


def _place(file: str, finding: Diagnostic) -> str:
    return f"{file}:{finding.line}:{finding.column}" if finding.line else file


def _lint_json(found: Sequence[tuple[str, Diagnostic]]) -> str:
    return as_json(
        [
            {
                "file": file,
                "line": each.line,
                "column": each.column,
                "severity": each.severity,
                "code": each.code,
                "message": each.message,
                "pointer": each.pointer,
            }
            for file, each in found
        ]
    )


# ── test ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@asl.command(
    "test",
    epilog=examples(
        "holdfast asl test checkout.asl.json --state Pay --input '{\"cents\": 100}' --mock '{\"paid\": true}'",
        "holdfast asl test checkout.asl.json --state Pay --error CardDeclined --cause 'no money'",
        "holdfast asl test checkout.asl.json --state Pay --error Busy --retries 2 --json",
    ),
)
@of_definition
@click.option("--state", metavar="NAME", help="The state; without it the file holds a single state.")
@click.option("--input", "input_", metavar="JSON", default="{}", help="The state's input; {} by default.")
@click.option("--mock", metavar="JSON", help="What the state's work answers.")
@click.option("--error", metavar="NAME", help="The error that its work fails with, instead.")
@click.option("--cause", metavar="TEXT", default="", help="The cause of that error.")
@click.option("--retries", type=click.IntRange(0), default=0, help="How often the state has been retried already.")
@click.option("--variables", metavar="JSON", help="The variables that states before it have assigned.")
@click.option("--context", metavar="JSON", help="The context object; one is made up by default.")
@json_option
@debug_option
def test(  # noqa: PLR0913 - one for each field of the request
    *,
    given: Given,
    state: str | None,
    input_: str,
    mock: str | None,
    error: str | None,
    cause: str,
    retries: int,
    variables: str | None,
    context: str | None,
    as_json: bool,
    debug: bool,
) -> int:
    """Run one state, and show each stage of its data: what TestState of Step Functions answers.

    A Task, Map or Parallel takes --mock or --error in place of its work. Status: SUCCEEDED, FAILED, RETRIABLE,
    CAUGHT_ERROR. The exit status is 1 for FAILED.
    """
    del debug  # the root of the command line looks at it
    if mock is not None and error is not None:
        raise click.UsageError("--mock is for work that succeeds, --error for work that fails; give one of them")
    text = given.source().text
    if not text.lstrip().startswith("{"):
        raise InvalidInput(f"{given.file} holds no definition: that is an object of JSON")
    outcome = asyncio.run(
        test_state(
            text,
            state=state,
            input=json_value(input_),
            mock=_mock(mock, error, cause),
            variables=None if variables is None else json_value(variables),
            context=None if context is None else json_value(context),
            configuration={"retrierRetryCount": retries},
        )
    )
    echo(_outcome_json(outcome) if as_json else "\n".join(_outcome_lines(outcome)))
    return int(outcome.status == "FAILED")


def _mock(result: str | None, error: str | None, cause: str) -> dict[str, Any] | None:
    if error is not None:
        return {"errorOutput": {"error": error, "cause": cause}}
    return None if result is None else {"result": json_value(result)}


def _outcome_json(outcome: StateOutcome) -> str:
    return as_json(msgspec.to_builtins(outcome))


def _outcome_lines(outcome: StateOutcome) -> list[str]:
    stages = [f"{name:<20} {as_json(value)}" for name, value in outcome.inspection.items()]
    ended = {"error": outcome.error, "cause": outcome.cause, "next": outcome.next_state}
    told = [f"{name:<20} {value}" for name, value in ended.items() if value is not None]
    output = [] if outcome.status in {"FAILED", "RETRIABLE"} else [f"{'output':<20} {as_json(outcome.output)}"]
    return [bold(outcome.status), *stages, *output, *told]


# ── graph ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@asl.command(
    "graph",
    epilog=examples(
        "holdfast asl graph checkout.asl.json", "holdfast asl graph checkout.asl.json --svg > checkout.svg"
    ),
)
@of_definition
@click.option("--svg", "as_svg", is_flag=True, help="Print a picture, as SVG.")
@json_option
@debug_option
def graph(*, given: Given, as_svg: bool, as_json: bool, debug: bool) -> None:
    """Print a machine's states and where each leads to: ▶ is where it begins, ■ where it may end."""
    del debug  # the root of the command line looks at it
    diagram = diagram_of(given.machine().processor)
    if as_svg:
        click.echo(svg(diagram), nl=False)
    else:
        echo(_graph_json(diagram) if as_json else "\n".join(outline(diagram)))


def _graph_json(diagram: Any) -> str:
    return as_json(msgspec.to_builtins(diagram))
