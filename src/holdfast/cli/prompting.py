"""Whether commands can ask before they do what costs something or cannot be undone."""

from __future__ import annotations

import sys


def is_interactive() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin.isatty()
