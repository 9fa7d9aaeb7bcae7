"""How many claims of entities a process has under way."""

from __future__ import annotations

from typing import Final

CLAIMS_AT_ONCE: Final = 64
"""Of how many claims the answers are waited for. What is claimed has its lease renewed until it is done: a process that
claims thousands before it works on the first, on a store that takes a thousand writes a second, does little else.
"""
