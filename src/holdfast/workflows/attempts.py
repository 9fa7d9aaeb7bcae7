"""What is known of an operation's attempts: those that failed, and those that their processes did not survive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.workflows.live import Live


def failures(op: str, live: Live) -> int:
    """How many attempts of an operation have failed."""
    tried = live.tried.get(op)
    return 0 if tried is None else tried.attempt


def deaths(op: str, live: Live) -> int:
    """How many processes have died during attempts of an operation, as far as is known."""
    tried = live.tried.get(op)
    return live.died.get(op, 0) + (0 if tried is None else tried.deaths)


def pauses(op: str, live: Live) -> bool:
    """Whether an operation waits for its next attempt."""
    tried = live.tried.get(op)
    return tried is not None and tried.again_at > live.now_ms()
