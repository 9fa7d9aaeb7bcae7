"""A page of a list, by the command that its address stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.dashboard.rendering import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from holdfast.commands import Command
    from holdfast.dashboard.visit import Visit


async def listed(
    visit: Visit,
    page: str,
    filters: tuple[str, ...],
    make: Callable[[dict[str, str], str | None], Command[Any]],
    **more: Any,
) -> Response:
    """One page of a list. ``make`` makes its command of the filters that the address gives, and of where it goes on."""
    query, cursors = visit.query(*filters, "after"), await visit.cursors()
    given = {name: value for name in filters if (value := (query.one(name) or "").strip())}
    found = await visit.read(make(given, cursors.opened(query.one("after"))))
    return render(
        visit,
        f"{page}.html",
        found=found,
        rows=found.items,
        next_cursor=cursors.sealed(found.after),
        is_first=query.one("after") is None,
        given=given,
        **more,
    )
