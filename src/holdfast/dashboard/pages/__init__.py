"""The pages, one module each: a function reads what the page shows by commands, and renders its template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from holdfast.dashboard.pages.execution import execution
from holdfast.dashboard.pages.executions import executions

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit

PAGES: Final[dict[str, Callable[[Visit], Awaitable[Response]]]] = {
    "executions": executions,
    "execution": execution,
}
"""Each page by its address: see ``navigation``. Looking changes nothing."""
