"""The command line: ``holdfast COMMAND``, one file per group of commands.

Every command takes ``--json`` and ``--debug``; all but ``run``, ``demo``, ``chaos``, ``init`` and ``infra`` find their
home by ``--app`` or ``--home`` (see ``session``).
"""

from __future__ import annotations

from importlib import import_module

import click

from holdfast.cli import control, system
from holdfast.cli.actor import actor
from holdfast.cli.ask import ask
from holdfast.cli.asl import asl
from holdfast.cli.audit import audit
from holdfast.cli.aws import aws
from holdfast.cli.backup import backup, restore
from holdfast.cli.bulk import bulk
from holdfast.cli.callback import callback
from holdfast.cli.chaos import chaos
from holdfast.cli.cost import cost
from holdfast.cli.debug import debug
from holdfast.cli.demo import demo
from holdfast.cli.dlq import dlq
from holdfast.cli.doctor import doctor
from holdfast.cli.entry import CommandLine
from holdfast.cli.infra import infra
from holdfast.cli.init import init
from holdfast.cli.limit import limit
from holdfast.cli.listing import ls
from holdfast.cli.moving import export, import_, seal
from holdfast.cli.outbox import outbox
from holdfast.cli.prune import prune
from holdfast.cli.publish import publish
from holdfast.cli.query import query
from holdfast.cli.queue import queue
from holdfast.cli.run import run
from holdfast.cli.serve import dashboard, serve
from holdfast.cli.session import examples
from holdfast.cli.show import show
from holdfast.cli.start import result, start
from holdfast.cli.stream import stream
from holdfast.cli.timers import timers
from holdfast.cli.trace import trace


def _tell_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click calls it
    if not wanted or context.resilient_parsing:
        return
    metadata = import_module("importlib.metadata")  # slow to import, and only this option needs it
    try:
        click.echo(f"holdfast {metadata.version('holdfast')}")
    except metadata.PackageNotFoundError:
        click.echo("holdfast, from a source tree that is not installed")
    context.exit()


@click.group(
    "holdfast",
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "holdfast run shop:app --workers 2",
        'holdfast start -a shop:app checkout \'{"order": {"id": 17}}\' --id order-17',
        "holdfast ls -a shop:app --status FAILED",
        "holdfast show -a shop:app checkout order-17",
    ),
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_tell_version, help="Tell it.")
def main() -> None:
    """Durable workflows and actors on one file. To see it: holdfast demo.

    Commands find their home by --app MODULE:APP (or $HOLDFAST_APP) or by --home URL (or $HOLDFAST_URL).
    Add --json to any of them for a machine-readable answer. Exit status: 0 done, 1 an error, 2 wrong usage.
    """


for _command in (
    run,
    serve,
    dashboard,
    ask,
    start,
    result,
    ls,
    show,
    query,
    trace,
    debug,
    *control.COMMANDS,
    bulk,
    prune,
    stream,
    callback,
    publish,
    actor,
    timers,
    dlq,
    outbox,
    queue,
    limit,
    *system.COMMANDS,
    doctor,
    audit,
    backup,
    restore,
    export,
    seal,
    import_,
    cost,
    asl,
    demo,
    chaos,
    init,
    infra,
    aws,
):
    main.add_command(_command)

__all__ = ["main"]
