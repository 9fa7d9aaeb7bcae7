"""``python -m examples.on_aws``: the demonstration, from a terminal."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

import click
import msgspec
from examples.on_aws.demo import Load, Report, show
from examples.on_aws.tools import ToolMissing

from holdfast.cli.session import examples

INTRODUCTION = """\
The checkout of `holdfast demo` and the six actor examples, deployed to an emulator of AWS on this machine (ministack:
Lambda, DynamoDB, SQS, S3, CloudFormation). Orders and calls come in over HTTP and SQS, everything twice;
environments of the function are killed with -9 in the midst of it. Then the books are compared. Nothing leaves this
machine, and no account is needed.
"""


class Lines:
    """Tells how it goes, a line each, on standard error so that --json stays clean."""

    def tell(self, text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)


@click.command(
    epilog=examples(
        "make demo-aws",
        "python -m examples.on_aws --template",
        "python -m examples.on_aws --template --hostile",
        "python -m examples.on_aws --keep aws-demo --seed 7",
        "python -m examples.on_aws --template --json | jq .faults",
    )
)
@click.option("--template", is_flag=True, help="Deploy what `holdfast infra template` prints: without Node, CDK.")
@click.option("--hostile", is_flag=True, help="Let DynamoDB refuse requests, lose answers, tear pages and lag.")
@click.option("--orders", type=click.IntRange(6, 300), default=30, show_default=True, help="How many are checked out.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of what is drawn at random.")
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep logs, ledger, code and template there.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.help_option("-h", "--help")
def main(*, template: bool, hostile: bool, orders: int, seed: int, keep: Path | None, as_json: bool) -> None:
    """See an app survive on AWS Lambda what AWS Lambda does to apps, in three minutes and without an account.

    It is deployed by the construct of CDK, which is installed into .tools first (400 MB, and Node has to be there). The
    exit status is 0 only if every result and every book is exact, and every fault has happened.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    if not as_json:
        click.echo(INTRODUCTION)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-on-aws-")) if keep is None else _made(keep)
    try:
        load = Load(orders=orders)
        report = asyncio.run(show(folder, load, Lines(), construct=not template, hostile=hostile, seed=seed))
    except ToolMissing as missing:
        raise click.ClickException(str(missing)) from None
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    click.echo(json.dumps(msgspec.to_builtins(report), indent=2) if as_json else "\n".join(table(report)))
    sys.exit(1 if report.problems else 0)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM is taken as Ctrl-C: what was started is stopped in order."""
    raise KeyboardInterrupt


def _made(folder: Path) -> Path:
    if folder.exists() and any(folder.iterdir()):
        raise click.ClickException(f"{folder} is not empty; name a new folder, or remove this one")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder.resolve()


def table(report: Report) -> list[str]:
    """What a person wants to know."""
    lines = ["", "What was done", *(f"  {name:<18} {told}" for name, told in report.done.items())]
    lines += ["", "What went wrong on purpose, and what was sent"]
    lines += [f"  {times:>5}  {what}" for what, times in report.faults.items()]
    lines.append("")
    if report.problems:
        lines += ["It does not fit together:", *(f"  {problem}" for problem in report.problems)]
    else:
        lines.append(f"Every result and every book is exact. {report.elapsed_seconds:.0f} s.")
    return lines


if __name__ == "__main__":
    main()
