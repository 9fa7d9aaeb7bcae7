"""Why an execution waits in a queue, and how that is told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.held import Stay, declare, start

import holdfast as hf
from holdfast.commands import perform
from holdfast.commands.execution import Show
from holdfast.commands.queue import ListQueues
from holdfast.workflows.view import View


@pytest.fixture
def stay() -> Stay:
    return Stay()


async def shown(app: hf.App, id: str) -> View:
    return await perform(Show("letter", id), app)


FULL = {"limit": 1}, ("limit",), "its limit is reached"
FULL_KEY = {"limit": 9, "limit_per_key": 1}, ("limit_per_key",), "the limit of its key is reached"
RATE = {"limit": 9, "rate": hf.Rate(1, per="1h")}, ("rate",), "its rate"
RATE_PER_KEY = {"limit": 9, "rate_per_key": hf.Rate(1, per="1h")}, ("rate_per_key",), "the rate of its key"
BOTH = {"limit": 1, "limit_per_key": 1}, ("limit", "limit_per_key"), "its limit is reached, the limit of its key"


@pytest.mark.parametrize(("numbers", "rules", "told"), [FULL, FULL_KEY, RATE, RATE_PER_KEY, BOTH])
async def test_it_says_which_rule_holds_it_and_how_many_are_before_it(
    numbers: dict[str, Any], rules, told, memory_world, stay, eventually
) -> None:
    app = memory_world.app("shop")
    letter = declare(app, stay, **numbers)
    async with app.worker():
        await start(letter, "a-0")
        await eventually(lambda: stay.inside == ["a-0"])
        await start(letter, "a-1", "a-2")
        view = await shown(app, "a-2")
        assert view.queue is not None
        assert (view.queue.queue, view.queue.key, view.queue.held_by, view.queue.ahead) == ("mail", "a", rules, 1)
        (trouble,) = view.troubles
        assert told in trouble.title
        assert "1 of key a is before it, and 2 wait in all" in trouble.text
        assert trouble.line == "holdfast queue show mail"
        assert ("lets the next one begin in" in trouble.text) == ("rate" in rules[0])
        stay.go(3)


async def test_a_pause_is_told_first_and_what_ends_it(memory_world, stay) -> None:
    app = memory_world.app("shop")
    letter = declare(app, stay, limit=1)
    async with app.worker():
        await app.registry.queues["mail"].pause()
        await start(letter, "a-0")
        view = await shown(app, "a-0")
        assert view.queue is not None and view.queue.held_by == ("pause",)
        assert (view.troubles[0].tone, view.troubles[0].line) == ("warn", "holdfast queue resume mail")


async def test_without_a_worker_it_says_that_one_decides(memory_world, stay) -> None:
    app = memory_world.app("shop")
    letter = declare(app, stay, limit=1)
    async with app:
        await start(letter, "a-0")
        view = await shown(app, "a-0")
        assert view.queue is not None and view.queue.held_by == ("turn",)
        assert "without one, nothing of the queue begins" in view.troubles[0].text
        assert (await app.registry.queues["mail"].status()).decided_by is None


async def test_queues_are_listed_with_the_numbers_of_their_code_and_by_pages(memory_world, stay) -> None:
    app = memory_world.app("shop")
    declare(app, stay, limit=1)
    app.queue("other", limit=7, limit_per_key=3, most_waiting=5)
    async with app.worker():
        pass
    async with memory_world.app("stranger") as stranger:
        first = await perform(ListQueues(limit=1), stranger)
        second = await perform(ListQueues(limit=1, after=first.after), stranger)
        (mail,), (other,) = first.items, second.items
        assert (mail.name, mail.limit, other.limit, other.limit_per_key, other.most_waiting) == ("mail", 1, 7, 3, 5)


async def test_the_numbers_are_those_of_the_code_that_decides(memory_world, stay, eventually) -> None:
    newer, older = memory_world.app("shop"), memory_world.app("shop")
    letter, asked = (
        declare(newer, stay, limit=3, most_waiting=9),
        older.queue("mail", limit=1, rate=hf.Rate(1, per="1m")),
    )
    async with newer.worker():
        await start(letter, "a-0", "a-1", "a-2", "a-3")
        await eventually(lambda: len(stay.inside) == 3)
        async with older:
            status = await asked.status()
            assert (status.limit, status.rate, status.most_waiting, len(status.slots)) == (3, None, 9, 3)
        stay.go(4)


async def test_what_waits_goes_on_while_its_queue_is_declared_whatever_the_queue_of_its_workflow_is(
    memory_world, stay, eventually
) -> None:
    older, newer = memory_world.app("shop"), memory_world.app("shop")
    letter = declare(older, stay, limit=1)
    async with older.worker():
        await start(letter, "a-0", "a-1")
        await eventually(lambda: stay.inside == ["a-0"])

    @newer.step
    async def inside(name: str) -> str:
        return await stay(name)

    @newer.workflow(queue=newer.queue("post", limit=1), name="letter")
    async def moved(name: str) -> str:
        return await inside(name)

    newer.queue("mail", limit=1)  # without a workflow: for what waits in it
    async with newer.worker():
        stay.go(3)
        (last,) = await start(moved, "a-2")
        for handle in (moved.handle("a-0"), moved.handle("a-1"), last):
            assert await handle == handle.id
