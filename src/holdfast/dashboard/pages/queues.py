"""Queues of executions: the list of them, and one with who has its slots and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.commands.queue import ListQueues, ShowQueue
from holdfast.dashboard.acting import offered, offered_on_many
from holdfast.dashboard.pages.listing import listed
from holdfast.dashboard.rendering import render
from holdfast.dashboard.visit import PAGE_ROWS
from holdfast.duration import written
from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.commands import Command
    from holdfast.dashboard.visit import Visit


async def queues(visit: Visit) -> Response:
    """How each queue stands, by app and name."""

    def make(_given: dict[str, str], after: str | None) -> Command[Any]:
        return ListQueues(after, PAGE_ROWS)

    return await listed(visit, "queues", (), make, actions=offered_on_many(visit, "queue"))


async def queue(visit: Visit) -> Response:
    """One queue, or what is of one key: its numbers, who has its slots, and the first of those that wait."""
    query = visit.query("queue", "key")
    name, key = query.one("queue"), query.one("key")
    if not name:
        raise InvalidInput("say which queue: ?queue=app/name")
    found = await visit.read(ShowQueue(name, key, PAGE_ROWS))
    status = "PAUSED" if found.paused else "OPEN"
    return render(
        visit,
        "queue.html",
        queue=found,
        key=key,
        most=PAGE_ROWS,
        actions=offered(visit, "queue", status) if key is None else [],
        rates={"all": shown_rate(found.rate), "per_key": shown_rate(found.rate_per_key)},
    )


def shown_rate(rate: Any) -> str:
    """A rate for people."""
    if rate is None:
        return "none"
    return f"{rate.count:,} in {written(rate.per)}" + (f", {rate.burst:,} at once" if rate.burst > 1 else "")
