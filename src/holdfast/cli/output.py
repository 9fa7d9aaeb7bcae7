"""How output looks: durations, moments, tables and colours for people. What must not reach a terminal is masked."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import click
import msgspec

from holdfast.secret import redacted
from holdfast.texts import masked, printable, printable_json, printable_lines

STATUS_COLOURS: Final = {
    "COMPLETED": "green",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "COMPENSATION_FAILED": "red",
    "BLOCKED": "red",
    "TERMINATED": "magenta",
    "CANCELLED": "magenta",
    "PAUSED": "yellow",
    "RUNNING": "cyan",
    "QUEUED": "cyan",
    "READY": "cyan",
    "SUSPENDED": "blue",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}

OWN_COLOURS: Final = re.compile(r"\x1b\[(?:0|1|3[0-7])m")
"""What ``click.style`` writes for the colours here. They change only how the text looks."""

BLANKS: Final = str.maketrans("\t\n\r", "   ")
"""White space that may stand between the parts of JSON. Inside strings it is escaped."""

GAP: Final = "  "
NARROWEST_COLUMNS: Final = 40


def plain(text: str) -> str:
    """Text from outside on one line, harmless for terminals, without callback tokens and passwords of URLs."""
    return printable(masked(text).replace("\n", " ⏎ "))


def plain_json(text: str) -> str:
    """As ``plain``, for JSON: control characters occur only between its parts, and it stays JSON."""
    return masked(printable_json(text.translate(BLANKS)))


def echo(text: str, *, err: bool = False) -> None:
    """Print lines. Whatever a terminal may act on is escaped, except the colours of ``coloured``."""
    if not colours_wanted():
        click.echo(printable_lines(text), err=err)
        return
    pieces, colours = OWN_COLOURS.split(text), [*OWN_COLOURS.findall(text), ""]
    click.echo("".join(printable_lines(piece) + colour for piece, colour in zip(pieces, colours, strict=True)), err=err)


def dollars(amount: Decimal) -> str:
    """An amount for people: to the cent, or to a tenth of a cent where the amount is not in whole cents.

    >>> dollars(Decimal("10.0")), dollars(Decimal("0.525")), dollars(Decimal("1.2500000"))
    ('10.00', '0.525', '1.25')
    """
    rounded = amount.quantize(Decimal("0.001"))
    return f"{rounded:.2f}" if rounded == rounded.quantize(Decimal("0.01")) else f"{rounded}"


def shown_moment(when: datetime, *, milliseconds: bool = False) -> str:
    """A moment for people, in UTC."""
    text = when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{when.microsecond // 1000:03}" if milliseconds else text


def colours_wanted() -> bool:
    """Whether standard output is a terminal whose user has not refused colours (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def coloured(text: str, status: str) -> str:
    """Text in the colour of a status, if there are colours."""
    colour = STATUS_COLOURS.get(status)
    return click.style(text, fg=colour) if colour is not None and colours_wanted() else text


def bold(text: str) -> str:
    """Emphasised, if the terminal can."""
    return click.style(text, bold=True) if colours_wanted() else text


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> list[str]:
    """Aligned lines. On a terminal the last column is cut to fit; elsewhere nothing is cut."""
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)][:-1]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines: list[str] = []
    for row in (headings, *rows):
        start = indent + "".join(f"{cell:<{width}}{GAP}" for cell, width in zip(row, widths, strict=False))
        last = row[-1]
        if room is not None and len(start) + len(last) > room:
            last = last[: max(room - len(start), NARROWEST_COLUMNS) - 1] + "…"
        lines.append((start + last).rstrip())
    return lines


def as_json(value: Any, *, exact: bool = False) -> str:
    """The value as JSON text; moments as ISO 8601 in UTC. Callback tokens and passwords of URLs are masked, unless it
    must be ``exact``; secrets always are. What a terminal may act on is escaped as JSON has it.
    """
    text = printable_json(json.dumps(redacted(msgspec.to_builtins(value)), ensure_ascii=False))
    return text if exact else masked(text)
