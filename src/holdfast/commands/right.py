"""What a caller needs for a command."""

from __future__ import annotations

from enum import StrEnum


class Right(StrEnum):
    """What a caller may do: look; start, signal, call, send and publish; change executions, look into actors and
    parked messages, and repair them; see tracebacks and the arguments of steps.
    """

    READ = "read"
    WRITE = "write"
    CONTROL = "control"
    INSPECT = "inspect"
