"""What the tasks of a body wait for, and where, for messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from holdfast.errors import Runaway
from holdfast.replay.places import waiting_place

FEW_PLACES: Final = 3
"""How many places are named in a message."""

AnyFuture = asyncio.Future[Any]
AnyTask = asyncio.Task[Any]


def waits_for(task: AnyTask) -> AnyFuture | None:
    """What a task waits for; ``None`` if it is ready to run, or has ended."""
    waiter: AnyFuture | None = getattr(task, "_fut_waiter", None)
    return waiter


def waits_for_in_the_end(task: AnyTask) -> AnyFuture | None:
    """What a task waits for, by way of whichever other tasks; ``None`` if they wait for each other."""
    passed: list[AnyTask] = []
    while isinstance(waiter := waits_for(task), asyncio.Task) and waiter not in passed:
        passed.append(waiter)
        task = waiter
    return None if isinstance(waiter, asyncio.Task) else waiter


def places_of(tasks: Sequence[AnyTask]) -> str:
    """Where in the user's code tasks are, those left out that wait for others of them."""
    leaves = [task for task in tasks if not isinstance(waits_for(task), asyncio.Task)]
    found = list(dict.fromkeys(waiting_place(task.get_coro()) for task in leaves or tasks))
    more = f" and {len(found) - FEW_PLACES} other places" if len(found) > FEW_PLACES else ""
    return ", ".join(found[:FEW_PLACES]) + more


def runaway(tasks: Sequence[AnyTask], callbacks: int) -> Runaway:
    """The error for a body that has run this number of callbacks and waits for nothing."""
    ready = [task for task in tasks if waits_for(task) is None]
    place = f"at {places_of(ready)}" if ready else "in a callback that calls itself again"
    return Runaway(
        f"the workflow body has not come to rest after {callbacks:,} callbacks: it goes round {place}. Nothing from "
        "outside reaches it before it waits: await what it is to wait for, such as a task, an asyncio.Event or a "
        "signal, instead of asking for it again and again with asyncio.sleep(0)"
    )


def stuck(tasks: Sequence[AnyTask]) -> str:
    """The reason why a body is not worked on any more that waits, and whom nothing can wake."""
    return (
        f"it waits at {places_of(tasks)} for something that nothing can ever wake: no step, timer or child is under "
        "way, and no signal or callback is waited for. What a thread or another event loop is to answer belongs in a "
        "step; what a task of the body is to do has to be begun before it is waited for"
    )
