"""The metrics of the process that serves the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.dashboard.rendering import render

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit


async def metrics(visit: Visit) -> Response:
    """How often each event of telemetry has come in this process: counts in memory, nothing is read."""
    visit.query()
    return render(visit, "metrics.html", counts=sorted(visit.app.telemetry.counts.items()))
