"""``holdfast demo``: placeholder while the demonstration is written."""

import click


@click.command("demo")
def demo() -> None:
    """."""
