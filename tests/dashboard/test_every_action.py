"""Every action, on one from its page and on a selection from its list: each is a command with its own outcome."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.dashboard.conftest import Answer, Person, at, quote
from tests.dashboard.test_actions import rows, until
from tests.dashboard.world import EXECUTIONS, On, World

from holdfast.dashboard.actions import ACTIONS

TILLS = "/dashboard/actors?actor=Till"
SHELF = "/dashboard/actor?actor=Shelf&key=ann"
LETTERS = "/dashboard/letters"
QUEUES = "/dashboard/queues"
LIMITS = "/dashboard/limits"


def page_of(on: On, action: str) -> str:
    """Where a person acts on one thing."""
    match on:
        case (workflow, id) if action == "signal":
            return at(workflow, id).replace("/execution?", "/signal?") + "&name=decision"
        case ("Till" | "Shelf" as actor, key, *_):
            return f"/dashboard/actor?actor={actor}&key={key}"
        case (queue,) if action.startswith("queue "):
            return f"/dashboard/queue?queue={quote(queue)}"
        case (limit,) if action.startswith("limit "):
            return f"/dashboard/limit?limit={quote(limit)}"
        case (id,):
            return f"/dashboard/letter?id={quote(id)}"
        case (workflow, id):
            return at(workflow, id)
    raise AssertionError(on)


@dataclass(frozen=True)
class Case:
    """An action: what there is before, what is typed, and what holds for each afterwards."""

    action: str
    listed: str
    prepare: Callable[[World], Awaitable[Any]]
    holds: Callable[[World, On], Awaitable[bool]]
    typed: dict[str, str] = field(default_factory=dict)


def status(wanted: str) -> Callable[[World, On], Awaitable[bool]]:
    async def holds(world: World, on: On) -> bool:
        return await world.status(on) == wanted

    return holds


PARCEL = {"operation": "callback#0", "value": '"arrived"'}
CASES = (
    Case("retry", EXECUTIONS, World.failed, status("COMPLETED")),
    Case("retry-now", EXECUTIONS, World.in_backoff, status("COMPLETED")),
    Case("resume", EXECUTIONS, World.paused, World.is_open),
    Case("pause", EXECUTIONS, World.waiting, status("PAUSED")),
    Case("signal", EXECUTIONS, World.waiting, status("COMPLETED"), {"name": "decision", "value": "1"}),
    Case("callback answer", EXECUTIONS, World.parcels, status("COMPLETED"), PARCEL),
    Case("cancel", EXECUTIONS, World.waiting, status("CANCELLED"), {"reason": "why"}),
    Case("terminate", EXECUTIONS, World.waiting, status("TERMINATED"), {"reason": "why"}),
    Case("move", EXECUTIONS, World.pinned, World.is_open),
    Case("fork", EXECUTIONS, World.failed, World.is_forked, {"before": "pay#0"}),
    Case("delete", EXECUTIONS, World.ended, World.is_gone),
    Case("actor resume", TILLS, World.halted, World.has_total),
    Case("actor park", TILLS, World.halted, World.goes_on),
    Case("actor delete", TILLS, World.idle, World.is_no_actor),
    Case("actor unpark", SHELF, World.parked, World.is_nothing_parked),
    Case("actor discard", SHELF, World.parked, World.is_nothing_parked),
    Case("dlq redrive", LETTERS, World.parked, World.is_nothing_parked),
    Case("dlq discard", LETTERS, World.parked, World.is_nothing_parked),
    Case("queue pause", QUEUES, World.queued, World.is_queue_paused),
    Case("queue resume", QUEUES, World.queued_and_paused, World.is_queue_open),
    Case("queue set", QUEUES, World.queued, World.is_queue_changed, typed={"limit": "7", "rate": "5/1s/10"}),
    Case("queue reset", QUEUES, World.queued_and_changed, World.is_queue_as_declared),
    Case("queue purge", QUEUES, World.queued_and_paused, World.is_queue_empty),
    Case("limit set", LIMITS, World.limited, World.is_limit_changed, typed={"permits": "0", "rate": "5/1s/10"}),
    Case("limit reset", LIMITS, World.limits_changed, World.is_limit_as_declared),
)


def test_the_table_has_every_action():
    assert sorted(each.action for each in CASES) == sorted(each.name for each in ACTIONS)


def ticks(page: Answer) -> list[str]:
    """What can be selected on a page."""
    return [each.attributes["value"] for each in page.main.all("input", type="checkbox", name="on")]


async def carried_out(person: Person, page: Answer, case: Case, **more: Any) -> Answer:
    """The answer to a button, after what it asks."""
    answer = await person.act(page, case.action, **more)
    return await person.confirm(answer, **case.typed) if 'name="sure"' in answer.text else answer


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.action.replace(" ", "-"))
async def test_an_action_is_performed_on_one_and_on_a_selection(shop, person, case):
    world = World(shop)
    async with shop.worker():
        await person.log_in()
        await case.prepare(world)
        page = await person.get(case.listed)
        first, *others = ticks(page)
        assert len(others) == 2
        one = await person.get(page_of(tuple(json.loads(first)), case.action))
        on_page = {"on": first} if first in ticks(one) else {}
        answer = await person.act(one, case.action, **on_page, **case.typed)
        if 'name="sure"' in answer.text:
            answer = await person.confirm(answer)
        assert answer.status == 303, answer.text
        told = await carried_out(person, await person.get(case.listed), case, on=others)
        assert "2 of 2 done" in told.text
        for each in (first, *others):
            await until(lambda each=each: case.holds(world, tuple(json.loads(each))))
        if case.action != "signal":
            assert [(row[0], row[1], row[3]) for row in await rows(shop)] == [("ann", case.action, "done")] * 3
