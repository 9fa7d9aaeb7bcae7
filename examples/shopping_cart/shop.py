"""What all of the shop shares: the app, and how it says no."""

from __future__ import annotations

import holdfast as hf

app = hf.App("shopping-cart")

Lines = dict[str, int]
"""How many of which article."""


class Refused(hf.Terminal):
    """The shop cannot do this, and trying again would not help. The message is for the customer."""


def added(lines: Lines, more: Lines) -> Lines:
    """Both together."""
    return {sku: lines.get(sku, 0) + more.get(sku, 0) for sku in lines | more}
