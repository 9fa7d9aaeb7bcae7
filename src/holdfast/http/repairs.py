"""Routes for operators: inspect actors and parked messages, and repair them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from holdfast.commands import NAMED
from holdfast.commands.actor import LISTED, DeleteActor, Discard, ListActors, OnActor, ShowActor, Unpark
from holdfast.commands.arguments import LEFT_OUT
from holdfast.commands.message import DropParked, ListParked, Redrive, ShowParked
from holdfast.commands.shown import shown
from holdfast.errors import HoldfastError, NotFound, WaitTimeout
from holdfast.http.api import Call, Handler
from holdfast.http.messages import Response, json_response
from holdfast.http.pages import cursors_of, listed
from holdfast.http.problems import told_error
from holdfast.keys import check_id

if TYPE_CHECKING:
    from holdfast.actors.admin.handle import ActorStatus, Message
    from holdfast.actors.admin.listing import ParkedMessage

UNREADABLE = "its record cannot be read"


class NewArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """New arguments for a parked message."""

    args: Raw = LEFT_OUT


# ── Actors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def list_actors(call: Call) -> Response:
    """Actors, newest first, a page at a time, without their states."""
    query = call.query("status", "after", "limit", "scan")
    cursors = await cursors_of(call)
    command = ListActors(
        call.names.get("actor"),
        status=query.one("status"),
        beginning=call.tenant,
        after=cursors.opened(query.one("after")),
        limit=query.count("limit", LISTED),
        scan=query.flag("scan") or call.scans,
    )
    page = await listed(call, command)
    told = [_actor(each) for each in page.items]
    return json_response(200, {"actors": told, "cursor": cursors.sealed(page.after)})


async def show_actor(call: Call) -> Response:
    """An actor: its state, its timers, and the first of its waiting and of its parked messages."""
    limit = call.query("limit").count("limit", LISTED)
    found = await listed(call, ShowActor(*_place(call), limit=limit))
    told = {
        "state": shown(found.status.state),
        "waiting": [_message(call, each) for each in found.waiting],
        "parked": [_message(call, each) for each in found.parked],
    }
    return json_response(200, _actor(found.status) | told)


async def delete_actor(call: Call) -> Response:
    """Delete an actor, in order after earlier calls."""
    wait_seconds = call.wait_seconds(call.query("wait"), call.longest_wait_seconds)
    command = DeleteActor(*_place(call), timeout=wait_seconds)
    try:
        await call.within(wait_seconds, call.perform(command))
    except TimeoutError as error:
        if isinstance(error, HoldfastError):
            raise
        raise WaitTimeout(f"{command} was not deleted within {wait_seconds} s; it may still be deleted") from None
    return _done(call, "delete")


async def unpark(call: Call) -> Response:
    """Return a parked message to the inbox, with new arguments if given."""
    call.query()
    place = check_id("the place of a parked message", call.names["place"])
    await call.perform(Unpark(*_place(call), place, call.fields(NewArguments).args))
    return _done(call, "unpark", place=place)


async def discard(call: Call) -> Response:
    """Drop a parked message, for good."""
    call.query()
    place = check_id("the place of a parked message", call.names["place"])
    await call.perform(Discard(*_place(call), place))
    return _done(call, "discard", place=place)


def repair(command: type[OnActor[None]]) -> Handler:
    """The route of a repair that needs only the actor."""
    action = NAMED[command].name.removeprefix("actor ")

    async def performed(call: Call) -> Response:
        call.query()
        await call.perform(command(*_place(call)))
        return _done(call, action)

    return performed


# ── Parked messages ─────────────────────────────────────────────────────────────────────────────────────────────────


async def list_parked(call: Call) -> Response:
    """Parked messages in the order in which they were sent, a page at a time, without their arguments."""
    query = call.query("actor", "after", "limit")
    cursors = await cursors_of(call)
    command = ListParked(
        query.one("actor"),
        beginning=call.tenant,
        after=cursors.opened(query.one("after")),
        limit=query.count("limit", LISTED),
    )
    page = await listed(call, command)
    told = [_parked(call, each) for each in page.items]
    for each in told:
        del each["args"]
    notes = {"notes": list(page.notes)} if page.notes else {}
    return json_response(200, {"messages": told, "cursor": cursors.sealed(page.after), **notes})


async def show_parked(call: Call) -> Response:
    """One parked message."""
    call.query()
    return json_response(200, _parked(call, await _own(call)))


async def redrive(call: Call) -> Response:
    """Return a parked message to the inbox of its actor, with new arguments if given."""
    call.query()
    args = call.fields(NewArguments).args
    return _done_with(await call.perform(Redrive((await _own(call)).id, args)), "redrive")


async def drop_parked(call: Call) -> Response:
    """Drop a parked message, for good."""
    call.query()
    return _done_with(await call.perform(DropParked((await _own(call)).id)), "discard")


async def _own(call: Call) -> ParkedMessage:
    """The message in the path. Raises ``NotFound``, also for another tenant's message."""
    id = check_id("the id of a parked message", call.names["message"])
    found = await call.perform(ShowParked(id))
    if not found.key.startswith(call.tenant):
        raise NotFound(f"no message {id!r} is parked here")
    return found


# ── As JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _actor(status: ActorStatus) -> dict[str, Any]:
    return {
        "actor": status.actor,
        "key": status.key,
        "status": status.status,
        "version": status.version,
        "timers": msgspec.to_builtins(status.timers),
        "halted_by": status.halted_by,
        "damaged": None if status.damaged is None else UNREADABLE,
    }


def _message(call: Call, message: Message) -> dict[str, Any]:
    """A message, with its last error as outside callers may see it."""
    error = message.error
    told: dict[str, Any] = msgspec.to_builtins(message)
    told["error"] = None if error is None else told_error(error.type, error.message, call.app.registry.errors)
    return told | {"args": shown(message.args)}


def _parked(call: Call, parked: ParkedMessage) -> dict[str, Any]:
    told = _message(call, parked.message)
    return {**told, "id": parked.id, "actor": parked.actor, "key": parked.key, "request_id": told["id"]}


def _done(call: Call, action: str, **more: str) -> Response:
    actor, key = _place(call)
    return json_response(200, {"actor": actor, "key": key, "action": action, **more})


def _done_with(parked: ParkedMessage, action: str) -> Response:
    return json_response(200, {"id": parked.id, "actor": parked.actor, "key": parked.key, "action": action})


def _place(call: Call) -> tuple[str, str]:
    """The actor and the key in the path."""
    return call.names["actor"], check_id("an actor's key", call.names["key"])
