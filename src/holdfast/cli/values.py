"""Values given on the command line: JSON, tags, moments, tokens. A wrong value is a usage error."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from holdfast.asl.jsontext import NotJson, read
from holdfast.clock import SystemClock
from holdfast.duration import seconds
from holdfast.errors import InvalidInput
from holdfast.workflows.record import ExecutionRef, parse_ref

SHOWN_CHARACTERS = 40


def json_text(value: str) -> str:
    """JSON as it was given; ``@file`` reads it from a file, ``-`` from standard input."""
    if value == "-":
        return sys.stdin.read()
    if value.startswith("@"):
        with usable(Path(value[1:]), "read"):
            return Path(value[1:]).read_text(encoding="utf-8")
    return value


@contextmanager
def usable(path: Path, how: str) -> Generator[None]:
    """Within the block a named file or folder is read or written: if that fails, the name is a usage error."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        raise click.UsageError(
            f"{path} cannot be {how}: {error}. Name another one, or correct its permissions"
        ) from error


def json_value(text: str) -> Any:
    """The value of strict JSON."""
    try:
        return read(json_text(text))
    except NotJson as error:
        shown = repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")
        raise click.BadParameter(f"{shown} is not JSON: {error}. Quote texts twice: '\"text\"'") from error


def tag(text: str) -> tuple[str, str]:
    """One ``key=value``."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise click.BadParameter(f"{text!r} is not a tag; write key=value")
    return key, value


def execution(text: str) -> ExecutionRef:
    """One ``workflow/id``."""
    try:
        return parse_ref("this", text)
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from error


def token(text: str) -> str:
    """A callback token; ``-`` reads it from standard input, where no list of processes shows it."""
    return sys.stdin.readline().strip() if text == "-" else text


def duration(text: str) -> float:
    """A length of time, in seconds."""
    try:
        return seconds(text)
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from error


def now() -> datetime:
    """The time by this machine's clock."""
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)


def moment(text: str) -> datetime:
    """A moment: an ISO date or time (UTC if it names no zone), or how long ago."""
    try:
        return now() - timedelta(seconds=seconds(text))
    except InvalidInput:
        pass
    found = _iso_moment(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a moment; write 2h for two hours ago, or 2025-11-30T12:00")
    return found


def later(text: str) -> datetime:
    """A moment in the future: an ISO date or time (UTC if it names no zone)."""
    found = _iso_moment(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a moment; write 2030-11-30T12:00, or use --delay 2h")
    return found


def _iso_moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
