"""Values given on the command line as JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import click


def value_of(text: str) -> Any:
    """The value of strict JSON; a usage error says what is wrong with it."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{_shortened(text)} is not JSON: {error}. Quote texts twice: '\"text\"'") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} has no JSON form")


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
