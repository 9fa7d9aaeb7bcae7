"""The route of events: publish one that a consumer of the app has declared."""

from __future__ import annotations

from typing import Any

from holdfast import ids
from holdfast.errors import UnknownName
from holdfast.http.api import Call, typed_json
from holdfast.http.messages import Response, json_response


async def publish(call: Call) -> Response:
    """Publish an event, durably; one with an id is handled once however often it is published (G5)."""
    call.query()
    name = call.names["event"]
    kind: Any = call.app.registry.events.get(name)
    if kind is None:
        known = ", ".join(sorted(call.app.registry.events)) or "none"
        raise UnknownName(f"no consumer here has declared an event {name!r}; there are: {known}")
    event: Any = typed_json(call.request.body.strip() or b"{}", kind, f"event {name}")
    id = call.own_place(call.own_id("Message-Id")) or (call.tenant + ids.new_id() if call.tenant else None)
    await call.app.publish(event, id=id)
    return json_response(202, {"event": name, "id": id})
