"""Numbers of queues on the command line, as ``NAME=VALUE``, and as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from holdfast.commands.numbers import NO_LIMIT, number_in
from holdfast.duration import written
from holdfast.flow.rates import Rate


def given(numbers: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    """What ``NAME=VALUE`` says, each name once; ``none`` is no limit."""
    found: dict[str, Any] = {}
    for each in numbers:
        name, equals, text = each.partition("=")
        if not equals or name not in known or name in found:
            raise click.UsageError(f"{each!r} is no change; write NAME=VALUE once for each of: {', '.join(known)}")
        try:
            found[name] = number_in(name, text)
        except ValueError:
            raise click.UsageError(f"{each!r}: a limit is a number, a rate is COUNT/TIME, such as 100/1m") from None
    return found


def shown_rate(rate: Rate | None) -> str:
    """A rate as it is written, and taken again: all digits of its time."""
    if rate is None:
        return NO_LIMIT
    return f"{rate.count}/{written(rate.per)}" + (f"/{rate.burst}" if rate.burst > 1 else "")


def shown_number(number: int | None) -> str:
    """A limit as it is written."""
    return NO_LIMIT if number is None else f"{number:,}"
