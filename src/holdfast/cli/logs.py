"""The log of commands that serve: its level, and its form."""

from __future__ import annotations

import logging
from typing import Final

import click

from holdfast.json_lines import JsonLines

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMAT: Final = "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"

log_level_option: Final = click.option(
    "--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True, help="The least that is logged."
)
log_format_option: Final = click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Lines for people, or JSON with the execution, the operation and the attempt.",
)


def begin_log(level: str, form: str) -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(LOG_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
