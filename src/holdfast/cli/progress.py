"""How far a long command is: a line that changes on a terminal, a few lines elsewhere, on standard error."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Final, Self

import click

from holdfast.texts import printable

LINE_EVERY: Final = 10_000
"""Without a terminal, a line is printed each time the number has grown by this much."""


class Ticker:
    """Shows numbers that grow, as long as ``with Ticker(...) as ticker`` lasts; nothing if it is ``quiet``."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._redraws = sys.stderr.isatty()
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._drawn:
            click.echo("\r\033[K", nl=False, err=True)

    def tell(self, text: str, number: int) -> None:
        """Show the progress; ``number`` is what the text counts."""
        if self._quiet:
            return
        if self._redraws:
            click.echo(f"\r\033[K  {printable(text)}", nl=False, err=True)
            self._drawn = True
        elif number % LINE_EVERY == 0:
            click.echo(f"  {printable(text)}", err=True)
