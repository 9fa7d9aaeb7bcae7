"""Dead letters: messages of actors and consumers that were parked, which can be redriven or discarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.actors.record import HIDDEN_MARK
from holdfast.commands.message import ListParked
from holdfast.dashboard.acting import offered, offered_on_many
from holdfast.dashboard.pages.actors import text_of
from holdfast.dashboard.pages.listing import listed
from holdfast.dashboard.performing import own_letter
from holdfast.dashboard.rendering import render
from holdfast.dashboard.visit import PAGE_ROWS
from holdfast.errors import InvalidInput
from holdfast.keys import check_id

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.commands import Command
    from holdfast.dashboard.visit import Visit


async def letters(visit: Visit) -> Response:
    """Fifty dead letters, in the order in which they were sent."""

    def make(given: dict[str, str], after: str | None) -> Command[Any]:
        return ListParked(given.get("actor"), beginning=visit.tenant, after=after, limit=PAGE_ROWS)

    return await listed(visit, "letters", ("actor",), make, actions=offered_on_many(visit, "letter"))


async def letter(visit: Visit) -> Response:
    """One dead letter, by its id in the home."""
    id = visit.query("id").one("id")
    if not id:
        raise InvalidInput("say which message: ?id=...")
    parked = await own_letter(visit, check_id("the id of a parked message", id))
    return render(
        visit,
        "letter.html",
        letter=parked,
        is_event=parked.actor.startswith(HIDDEN_MARK),
        arguments=text_of(parked.message.args) if visit.may_inspect else None,
        actions=offered(visit, "letter", ""),
    )
