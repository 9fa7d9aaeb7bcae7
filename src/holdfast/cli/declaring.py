"""What commands of one shape have in common: their arguments, their options, and examples at the end of their help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from holdfast.cli.session import examples
from holdfast.keys import LARGEST_PAGE

Function = Callable[..., Any]

limit_option: Final = click.option(
    "--limit", type=click.IntRange(1, LARGEST_PAGE), default=50, show_default=True, help="The most to list."
)
after_option: Final = click.option("--after", metavar="CURSOR", help="Continue where an earlier list ended.")


def on_execution(name: str, *lines: str) -> Callable[[Function], click.Command]:
    """Declare a command on one execution, named by its workflow and its id."""
    return _with_arguments(name, lines, ("workflow", "id"))


def on_actor(name: str, *lines: str) -> Callable[[Function], click.Command]:
    """Declare a command on one actor, named by its class and its key."""
    return _with_arguments(name, lines, ("name", "key"))


def listing(*lines: str, of: str = "NAME") -> Callable[[Function], click.Command]:
    """Declare ``ls``: it lists a page of all there is, or of what its argument names."""

    def declare(function: Function) -> click.Command:
        named = click.argument("name", metavar=f"[{of}]", required=False)
        paged = limit_option(after_option(function))
        return click.command("ls", epilog=examples(*lines))(named(paged))

    return declare


def _with_arguments(
    name: str, lines: tuple[str, ...], arguments: tuple[str, ...]
) -> Callable[[Function], click.Command]:
    def declare(function: Function) -> click.Command:
        for each in reversed(arguments):
            function = click.argument(each)(function)
        return click.command(name, epilog=examples(*lines))(function)

    return declare
