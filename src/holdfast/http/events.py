"""The route of events: publish an event that a consumer of the app declares."""

from __future__ import annotations

from msgspec import Raw

from holdfast import ids
from holdfast.commands.message import Publish
from holdfast.http.api import Call
from holdfast.http.messages import Response, json_response


async def publish(call: Call) -> Response:
    """Publish an event, durably. An event with an id is handled once, however often it is published (G5)."""
    call.query()
    id = call.own_place(call.own_id("Message-Id")) or (call.tenant + ids.new_id() if call.tenant else None)
    published = await call.perform(Publish(call.names["event"], Raw(call.request.body), id))
    return json_response(202, {"event": published.event, "id": published.id})
