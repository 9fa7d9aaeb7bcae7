"""Routes of limits of calls: how they stand, and changing them. A limit of another app is ``app%2Fname``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType

from holdfast.commands.limit import ChangeLimit, ListLimits, OnLimit, ResetLimit, ShowLimit
from holdfast.commands.numbers import GivenRate
from holdfast.commands.queue import LISTED
from holdfast.commands.shown import shown
from holdfast.http.messages import Response, json_response
from holdfast.http.pages import cursors_of, listed
from holdfast.http.queues import changed, numbers_in

if TYPE_CHECKING:
    from holdfast.http.api import Call


class Numbers(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a change."""

    permits: int | UnsetType | None = UNSET
    rate: GivenRate | UnsetType | None = UNSET


async def list_all(call: Call) -> Response:
    """The limits of the app, by name, a page at a time."""
    query = call.query("after", "limit")
    cursors = await cursors_of(call)
    page = await listed(call, ListLimits(cursors.opened(query.one("after")), query.count("limit", LISTED)))
    return json_response(200, {"limits": shown(page.items), "cursor": cursors.sealed(page.after)})


async def show(call: Call) -> Response:
    """A limit, or one ``key`` of it: its numbers, and which process has how many permits."""
    command = ShowLimit(call.names["limit"], call.query("key").one("key") or "")
    return json_response(200, shown(await listed(call, command)))


async def change(call: Call) -> Response:
    """Change numbers: the body has those that change, ``null`` for no limit."""
    call.query()
    given = numbers_in(call, Numbers, '{"permits": 4}')
    return await _done(call, ChangeLimit(call.names["limit"], given.permits, given.rate))


async def reset(call: Call) -> Response:
    """Have the numbers be those of the code again."""
    call.query()
    return await _done(call, ResetLimit(call.names["limit"]))


async def _done(call: Call, command: OnLimit) -> Response:
    return await changed(call, command, "limit", command.limit)
