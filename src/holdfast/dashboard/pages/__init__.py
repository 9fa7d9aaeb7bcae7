"""The pages, one module each: a function reads what the page shows by commands, and renders its template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from holdfast.dashboard.pages.actors import actor, actors
from holdfast.dashboard.pages.execution import execution
from holdfast.dashboard.pages.executions import executions
from holdfast.dashboard.pages.letters import letter, letters
from holdfast.dashboard.pages.limits import limit, limits
from holdfast.dashboard.pages.metrics import metrics
from holdfast.dashboard.pages.overview import overview
from holdfast.dashboard.pages.queues import queue, queues
from holdfast.dashboard.pages.system import audit, leases, outbox, schedules, workers
from holdfast.dashboard.signals import signal_page

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit

PAGES: Final[dict[str, Callable[[Visit], Awaitable[Response]]]] = {
    "actor": actor,
    "actors": actors,
    "audit": audit,
    "execution": execution,
    "executions": executions,
    "leases": leases,
    "letter": letter,
    "letters": letters,
    "limit": limit,
    "limits": limits,
    "metrics": metrics,
    "outbox": outbox,
    "overview": overview,
    "queue": queue,
    "queues": queues,
    "schedules": schedules,
    "signal": signal_page,
    "workers": workers,
}
"""Each page by its address: see ``navigation``. Looking changes nothing."""
