"""``holdfast asl to-python``: a machine as a plain workflow."""

from __future__ import annotations

import click
import msgspec

from holdfast.asl.topython import Converted, to_python
from holdfast.cli.asl import asl
from holdfast.cli.asl.given import Given, of_definition
from holdfast.cli.output import as_json, echo
from holdfast.cli.session import debug_option, examples, json_option


@asl.command(
    "to-python",
    epilog=examples(
        "holdfast asl to-python checkout.asl.json > checkout.py", "holdfast asl to-python checkout.asl.json --json"
    ),
)
@of_definition
@click.option("--name", metavar="NAME", help="The name of the workflow; that of the file by default.")
@json_option
@debug_option
def to_python_(*, given: Given, name: str | None, as_json: bool, debug: bool) -> int:
    """Print a machine as a module of Python with a plain workflow, which does what the machine does.

    Each resource becomes a step that you write. What has no plain form in Python is a call of not_converted, which
    raises, or a comment NOT CONVERTED; each is told on stderr, with its JSON pointer. The exit status is 1 if there is
    any. The text is as `ruff format` leaves it.
    """
    del debug  # the root of the command line looks at it
    converted = to_python(given.machine(), name or given.name)
    if as_json:
        echo(_json(converted))
    else:
        click.echo(converted.text, nl=False)
        for each in converted.remarks:
            click.echo(f"{given.file}: {each.pointer}: {each.why}: {each.original}", err=True)
    return int(bool(converted.remarks))


def _json(converted: Converted) -> str:
    return as_json({"python": converted.text, "remarks": msgspec.to_builtins(converted.remarks)})
