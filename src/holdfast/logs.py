"""The log of Holdfast, the logger ``holdfast``: what fails there costs a line of the log, and nothing else."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from holdfast.containment import contained_call
from holdfast.failure import in_one_line, shortened, traceback_text, without_values
from holdfast.texts import masked, printable, printable_lines

if TYPE_CHECKING:
    from holdfast.failure import ErrorRecord
    from holdfast.ports import Home

MESSAGE_LIMIT_CHARACTERS: Final = 500
"""How much of an error's message a line of the log has; ``holdfast show`` has all of it."""

FRAMES_ABOVE: Final = 3
"""From the logger's method to the line that has something to say."""

_logger: Final = logging.getLogger("holdfast")


about: Final[ContextVar[Mapping[str, object] | None]] = ContextVar("holdfast_log_about", default=None)
"""What is logged now is about this, wherever the line of code stands."""


def log(
    level: int,
    text: str,
    *args: object,
    error: BaseException | None = None,
    of: Mapping[str, object] | None = None,
) -> None:
    """Log a line ``of`` an execution or an actor, with an error of our own if there is one. Whatever a handler or a
    filter raises goes to standard error, as in ``logging`` itself.
    """
    before = about.set(of)
    try:
        contained_call(_logger.log, level, text, *args, exc_info=error, stacklevel=FRAMES_ABOVE)
    except Exception:  # noqa: BLE001 - an execution must not depend on what looks at it
        if logging.raiseExceptions:
            traceback.print_exc(file=sys.stderr)
    finally:
        about.reset(before)


def told_error(error: ErrorRecord, home: Home) -> str:
    """An error for a line of the log: its type and the beginning of its message, without passwords of URLs and
    tokens of callbacks. Of a sealed home the log has no message.
    """
    line = printable(masked(in_one_line(_loggable(error, home))))
    return line if len(line) <= MESSAGE_LIMIT_CHARACTERS else f"{line[:MESSAGE_LIMIT_CHARACTERS]}… (cut)"


def told_traceback(error: ErrorRecord, home: Home) -> str:
    """Where an error was raised, for the log: the frames of users' code, and its message last, as ``told_error``."""
    short = shortened(_loggable(error, home), MESSAGE_LIMIT_CHARACTERS)
    return printable_lines(masked(traceback_text(short)))


def _loggable(error: ErrorRecord, home: Home) -> ErrorRecord:
    return without_values(error) if home.sealed else error
