"""What is given where a function belongs is named, and what to write instead."""

from __future__ import annotations

import functools

import pytest

import holdfast as hf


class Shop:
    def __init__(self, city: str) -> None:
        self.city = city

    async def charge(self, cents: int) -> str:
        return f"{cents} in {self.city}"

    def count(self, cents: int) -> int:
        return cents + len(self.city)


def numbers():
    yield 1


async def later():
    yield 1


async def called() -> None: ...


def blocking() -> None: ...


WRONG_STEPS = [
    (Shop, "a step is a def or async def, and was given the class Shop"),
    (7, "a step is a def or async def, and was given 7"),
    (numbers, "a step answers once, .*, and was given the generator numbers, which yields"),
    (later, "a step answers once, .*, and was given the generator later, which yields"),
    (lambda n: n, "a step is recorded under its name, and a lambda .*test_not_functions.py:.* has none"),
]
WRONG_WORKFLOWS = [
    (Shop, "a workflow is an async def, and was given the class Shop"),
    (blocking, "a workflow is an async def, and was given the def blocking"),
    (later, "a workflow is an async def, and was given the generator later"),
    (lambda n: n, "a workflow is an async def, and was given a lambda"),
    (functools.partial(blocking), "a workflow is an async def, and was given a functools.partial"),
    (len, "a workflow is an async def, and was given the builtin len"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_STEPS)
def test_what_is_no_step_is_named(wrong, message):
    with pytest.raises(hf.InvalidInput, match=message):
        hf.App("shop").step(wrong)


@pytest.mark.parametrize(("wrong", "message"), WRONG_WORKFLOWS)
def test_what_is_no_workflow_is_named(wrong, message):
    with pytest.raises(hf.InvalidInput, match=message):
        hf.App("shop").workflow(wrong)


def test_a_call_in_place_of_a_function_is_named():
    coroutine = called()
    with pytest.raises(hf.InvalidInput, match="given a call of called, which is to be given uncalled"):
        hf.App("shop").step(coroutine)
    coroutine.close()


def test_what_is_no_undo_or_timer_is_named():
    app = hf.App("shop")

    @app.step
    async def charge() -> None: ...

    with pytest.raises(hf.InvalidInput, match="the undo of step 'charge' is a def or async def, not the class Shop"):
        charge.undo(Shop)
    with pytest.raises(hf.ConfigurationError, match="a timer is an async def in an actor, and was given the def block"):
        hf.timer(blocking)


async def test_what_is_no_query_is_named(app):
    @app.workflow
    async def job() -> None:
        for wrong in (Shop, called):
            with pytest.raises(hf.InvalidInput, match="a query is a plain def, asked for by its name, and was given"):
                hf.query(wrong)

    async with app.worker():
        await job()


async def test_a_method_of_an_object_may_be_a_step(app):
    shop = Shop("Ghent")
    charge, count = app.step(shop.charge), app.step(name="tally")(shop.count)

    @app.workflow
    async def job() -> list[object]:
        return [await charge(5), await count(5)]

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == ["5 in Ghent", 10]
        assert [event.name for event in await handle.history()] == ["charge#0", "tally#0"]
    assert await charge(6) == "6 in Ghent"
