"""``holdfast asl``: a group whose commands are imported when it is used, as the language is large."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from holdfast.cli.session import examples

MODULES: Final = ("definitions", "trial", "cost", "standing", "python")
"""Where the commands are; each adds its own to the group."""


class LoadedGroup(click.Group):
    """A group of commands that are loaded before they are listed, or one of them is looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all of them."""
        _load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        _load()
        return super().get_command(ctx, cmd_name)


def _load() -> None:
    for each in MODULES:
        import_module(f"{__name__}.{each}")


@click.group(
    "asl",
    cls=LoadedGroup,
    epilog=examples("holdfast asl lint checkout.asl.json", "holdfast asl graph checkout.asl.json"),
)
def asl() -> None:
    """State machines in Amazon States Language: check, test and draw a definition."""
