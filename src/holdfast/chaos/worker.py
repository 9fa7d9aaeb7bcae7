"""The shop as a worker of a story runs it, ``holdfast run holdfast.chaos.worker:app``, with more reports."""

from __future__ import annotations

from typing import Final

from holdfast.chaos.points import tell
from holdfast.chaos.shop import app

TOLD: Final = ("fenced", "parked")


def _report(event: str, fields: dict[str, object]) -> None:
    if event in TOLD:
        tell(event=event, **fields)


app.telemetry.subscribe(_report)

__all__ = ["app"]
