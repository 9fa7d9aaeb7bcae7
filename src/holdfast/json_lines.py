"""Records of the log as JSON, one a line, for what collects logs."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from holdfast.clock import moment
from holdfast.texts import masked

STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "holdfast"}
"""What every record has: any other attribute was given as ``extra``."""


class JsonLines(logging.Formatter):
    """A formatter: each record becomes one line of JSON.

    ``time`` (ISO 8601, UTC), ``level``, ``logger`` and ``message``; then where it comes from, if that is code that
    Holdfast runs: ``workflow``, ``id``, ``run``, ``operation``, ``attempt``, or ``actor`` and ``key``; after
    ``holdfast.otel.trace`` also ``trace_id`` and ``span_id`` of the current span; what was given as ``extra``; and
    ``exception``, with its traceback. A ``Secret`` stays ``***``, and passwords of URLs too. A value that is not JSON
    becomes text. No record raises.

    >>> record = logging.LogRecord("shop", logging.INFO, "shop.py", 7, "sold %d", (3,), None)
    >>> record.created = 1767225600.25
    >>> print(JsonLines().format(record))
    {"time": "2026-01-01T00:00:00.250Z", "level": "INFO", "logger": "shop", "message": "sold 3"}
    """

    def format(self, record: logging.LogRecord) -> str:
        at = moment(round(record.created * 1000)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told: dict[str, Any] = {
            "time": at,
            "level": record.levelname,
            "logger": record.name,
            "message": masked(_message_of(record)),
        }
        context: Any = getattr(record, "holdfast", None)
        if isinstance(context, dict):
            told |= context
        told |= {name: value for name, value in vars(record).items() if name not in STANDARD and name not in told}
        if record.exc_info:
            told["exception"] = masked(self.formatException(record.exc_info))
        if record.stack_info:
            told["stack"] = record.stack_info
        return _json(told)


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit their text: `logging` itself would print a traceback
        return str(record.msg)


def _json(told: dict[str, Any]) -> str:
    try:
        return json.dumps(told, default=_text, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, a cycle, a number that JSON lacks
        return json.dumps({name: each if isinstance(each, str | int) else _text(each) for name, each in told.items()})


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a value whose own __str__ fails
        return f"<{type(value).__name__}>"
