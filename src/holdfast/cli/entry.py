"""The root of the command line: how errors are printed, and ``--json`` and ``--debug``."""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import click

from holdfast.cli.output import as_json, echo, plain
from holdfast.errors import HoldfastError
from holdfast.texts import masked, told_url

EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
"""The exit status that shells expect of a command ended by Ctrl-C: 128 + SIGINT."""


_UNEXPECTED_APP: Final = re.compile(r"unexpected extra argument \((?P<app>[\w.]+:\w+)\)")


class CommandLine(click.Group):
    """A group of commands whose errors are one helpful line, or one line of JSON, on standard error.

    Exit status: 0 done, 1 an error of Holdfast's own tree, 2 wrong usage, 130 interrupted. Other exceptions are bugs,
    here or in the user's code, and show their traceback.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's own signature
        **extra: Any,
    ) -> Any:
        """Run the command that ``args`` name, and exit with its status."""
        arguments = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        for_machines = "--json" in arguments
        try:
            status = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)
        except click.ClickException as error:
            _tell_usage(_with_hint(error), for_machines=for_machines)
            sys.exit(error.exit_code)
        except HoldfastError as error:
            if "--debug" in arguments:
                sys.excepthook = _tell_traceback
                raise
            _tell(error.code, str(error), retryable=error.retryable, for_machines=for_machines)
            sys.exit(EXIT_ERROR)
        sys.exit(status if isinstance(status, int) else os.EX_OK)


def _tell_traceback(_kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
    echo(masked("".join(traceback.format_exception(error))), err=True)


def _with_hint(error: click.ClickException) -> click.ClickException:
    """The error with a hint, if an argument that a command does not take looks like an app, as ``run`` takes it."""
    found = _UNEXPECTED_APP.search(error.message)
    context = error.ctx if isinstance(error, click.UsageError) else None
    if found is None or context is None or not any("--app" in each.opts for each in context.command.params):
        return error
    return click.UsageError(
        f"{error.message}. The app goes behind -a: {context.command_path} -a {found['app']}", context
    )


def _tell_usage(error: click.ClickException, *, for_machines: bool) -> None:
    if for_machines:
        _tell("usage", error.format_message(), retryable=False, for_machines=True)
    else:
        told = io.StringIO()
        error.show(told)
        echo(told_url(told.getvalue().removesuffix("\n")), err=True)


def _tell(code: str, message: str, *, retryable: bool, for_machines: bool) -> None:
    if for_machines:
        echo(as_json({"code": code, "message": message, "retryable": retryable}), err=True)
    else:
        echo(f"holdfast: {plain(message)}", err=True)
