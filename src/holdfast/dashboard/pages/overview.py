"""The overview: how the home stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.commands.overview import Overview
from holdfast.dashboard.rendering import render
from holdfast.texts import told_url

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit


async def overview(visit: Visit) -> Response:
    """What runs, what is late, what has failed: each number leads to the list of what it counts."""
    visit.query()
    found = await visit.read(Overview())
    return render(visit, "overview.html", home=found, home_url=told_url(found.home))
