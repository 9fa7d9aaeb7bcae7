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
    *,
    has_index: bool = True,
    by_key: str = "",
    **more: Any,
) -> Response:
    """One page of a list. ``make`` makes its command of the filters that the address gives, and of where it goes on. If
    ``scan`` is one of them, nothing is read before the address says so where that is billed. ``by_key`` is the filter
    by which all that is listed is found without it, ``has_index`` whether there may be an index.
    """
    query, cursors = visit.query(*filters, "after"), await visit.cursors()
    given = {name: value for name in filters if (value := (query.one(name) or "").strip())}
    asks = "scan" in filters and by_key not in given
    must_ask = asks and await visit.must_ask(given.get("scan"), has_index=has_index)
    found = None if must_ask else await visit.read(make(given, cursors.opened(query.one("after"))))
    return render(
        visit,
        f"{page}.html",
        found=found,
        must_ask=must_ask,
        has_index=has_index,
        rows=() if found is None else found.items,
        next_cursor=None if found is None else cursors.sealed(found.after),
        is_first=query.one("after") is None,
        given=given,
        **more,
    )
