"""Every command of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import click

from holdfast.cli import main


def every_command(group: click.Group = main, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each as it is typed, without the name of the program."""
    context = click.Context(group)
    for name in group.list_commands(context):
        match group.get_command(context, name):
            case click.Group() as inner:
                yield from every_command(inner, f"{path}{name} ")
            case click.Command() as command:
                yield path + name, command
