"""Routes of queues: how they stand, and changing them. A queue of another app is ``app%2Fname``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.commands import NAMED, Command
from holdfast.commands.numbers import GivenRate
from holdfast.commands.queue import (
    FIRST,
    LISTED,
    ChangeQueue,
    ListQueues,
    OnQueue,
    PurgeQueue,
    ShowQueue,
)
from holdfast.commands.shown import shown
from holdfast.errors import InvalidInput
from holdfast.http.messages import Response, json_response
from holdfast.http.pages import cursors_of, listed

if TYPE_CHECKING:
    from holdfast.http.api import Call, Handler


N = TypeVar("N")


class Numbers(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a change."""

    limit: int | UnsetType | None = UNSET
    limit_per_key: int | UnsetType | None = UNSET
    rate: GivenRate | UnsetType | None = UNSET
    rate_per_key: GivenRate | UnsetType | None = UNSET


async def list_all(call: Call) -> Response:
    """The queues of the home, by app and name, a page at a time."""
    query = call.query("after", "limit")
    cursors = await cursors_of(call)
    page = await listed(call, ListQueues(cursors.opened(query.one("after")), query.count("limit", LISTED)))
    return json_response(200, {"queues": shown(page.items), "cursor": cursors.sealed(page.after)})


async def show(call: Call) -> Response:
    """A queue: its numbers, who has its slots, and the first of those that wait; of one ``key`` if asked for."""
    query = call.query("key", "first")
    command = ShowQueue(call.names["queue"], query.one("key"), query.count("first", FIRST))
    return json_response(200, shown(await listed(call, command)))


async def change(call: Call) -> Response:
    """Change numbers: the body has those that change, ``null`` for no limit."""
    call.query()
    given = numbers_in(call, Numbers, '{"limit": 10}')
    command = ChangeQueue(call.names["queue"], given.limit, given.limit_per_key, given.rate, given.rate_per_key)
    return await _done(call, command)


def numbers_in(call: Call, shape: type[N], such_as: str) -> N:
    """The numbers of a body. Raises ``InvalidInput``."""
    try:
        return msgspec.json.decode(call.request.body, type=shape)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the body has the numbers that change, such as {such_as}: {error}") from None


async def purge(call: Call) -> Response:
    """End what waits now, of one ``key`` if it is given. One in a body would not be seen, and all of it would end."""
    _refuse_body(call, "name a key as ?key=...")
    return await _done(call, PurgeQueue(call.names["queue"], call.query("key").one("key")), 202)


def control(command: type[OnQueue]) -> Handler:
    """A route that needs only the name of the queue."""

    async def perform(call: Call) -> Response:
        call.query()
        _refuse_body(call, "it is about all of the queue")
        return await _done(call, command(call.names["queue"]))

    return perform


def _refuse_body(call: Call, instead: str) -> None:
    """Raise ``InvalidInput`` if a body says something. Clients send an empty object where none is needed."""
    if (body := call.request.body.strip()) not in (b"", b"{}", b"null"):
        raise InvalidInput(f"nothing is done by the body {body[:60].decode(errors='replace')!r}: {instead}")


async def _done(call: Call, command: OnQueue, status: int = 200) -> Response:
    return await changed(call, command, "queue", command.queue, status)


async def changed(call: Call, command: Command[None], kind: str, name: str, status: int = 200) -> Response:
    """Perform what changes a queue or a limit, and answer which one it was about."""
    await call.perform(command)
    return json_response(status, {kind: name, "action": NAMED[type(command)].name.removeprefix(f"{kind} ")})
