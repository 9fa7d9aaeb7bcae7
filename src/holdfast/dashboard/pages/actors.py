"""Actors: the list of them, and one with its state, its timers and its messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holdfast.actors.record import HIDDEN_MARK
from holdfast.commands.actor import STATUSES, ListActors, ShowActor
from holdfast.commands.shown import shown
from holdfast.dashboard.acting import offered, offered_on_many
from holdfast.dashboard.pages.executions import own_beginning
from holdfast.dashboard.pages.listing import listed
from holdfast.dashboard.rendering import cut, render
from holdfast.dashboard.visit import PAGE_ROWS, YES
from holdfast.errors import InvalidInput
from holdfast.http.authentication import check_place
from holdfast.keys import check_id
from holdfast.texts import printable_json

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.commands import Command
    from holdfast.dashboard.visit import Visit


async def actors(visit: Visit) -> Response:
    """Fifty actors, newest first."""

    def make(given: dict[str, str], after: str | None) -> Command[Any]:
        beginning = own_beginning(visit, given.get("key", ""))
        kind, status, scan = given.get("actor"), given.get("status"), given.get("scan") == YES
        return ListActors(kind, status, beginning, after=after, limit=PAGE_ROWS, scan=scan)

    return await listed(
        visit,
        "actors",
        ("actor", "status", "key", "scan"),
        make,
        statuses=STATUSES,
        actions=offered_on_many(visit, "actor"),
        kinds=sorted(name for name in visit.app.registry.actors if not name.startswith(HIDDEN_MARK)),
    )


async def actor(visit: Visit) -> Response:
    """One actor, by its class and its key."""
    query = visit.query("actor", "key")
    name, key = query.one("actor"), query.one("key")
    if not name or key is None:
        raise InvalidInput("say which actor: ?actor=...&key=...")
    check_place(visit.caller, check_id("an actor's key", key))
    found = await visit.read(ShowActor(name, key, limit=PAGE_ROWS))
    return render(
        visit,
        "actor.html",
        actor=found.status,
        waiting=found.waiting,
        parked=found.parked,
        state=text_of(found.status.state) if visit.may_inspect else None,
        arguments={each.place: text_of(each.args) for each in (*found.waiting, *found.parked)}
        if visit.may_inspect
        else {},
        actions=offered(visit, "actor", found.status.status),
        parked_actions=offered(visit, "parked", ""),
        most=PAGE_ROWS,
    )


def text_of(value: Any) -> str:
    """A value as JSON for people, without secrets and tokens, cut if it is very long."""
    text = cut(json.dumps(shown(value), indent=2, ensure_ascii=False))
    return "\n".join(map(printable_json, text.split("\n")))
