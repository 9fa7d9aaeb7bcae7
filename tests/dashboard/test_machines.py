"""The page of an execution of a state machine: its picture, with where the execution stands."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tests.dashboard.conftest import Person, at, tokens
from tests.worlds import eventually

import holdfast as hf
from holdfast.dashboard.headers import POLICY

SALE: dict[str, Any] = {
    "StartAt": "Check",
    "States": {
        "Check": {"Type": "Pass", "Next": "Pay"},
        "Pay": {"Type": "Task", "Resource": "pay", "Next": "Wait"},
        "Wait": {"Type": "Wait", "SecondsPath": "$.wait", "Next": "<b>Done</b>"},
        "<b>Done</b>": {"Type": "Succeed"},
    },
}


def pay(given: dict[str, Any]) -> dict[str, Any]:
    if given["wait"] < 0:
        raise hf.asl.Error("Declined", "no")
    return given


@pytest.fixture
def sale(shop):
    return shop.state_machine("sale", SALE, tasks={"pay": pay})


def texts(page: Any) -> list[str]:
    return [each.text for each in page.main.all("text")]


async def test_the_states_of_an_execution_are_marked_in_its_picture(shop, sale, person, eventually):
    async with shop.worker():
        await person.log_in()
        with suppress(hf.ExecutionFailed):
            await (await sale.start({"wait": -1}, id="bad"))
        page = await person.get(at("sale", "bad"))
        assert texts(page)[:4] == ["Check", "Pass · ✓ left", "Pay", "Task · ✗ failed"]
        assert texts(page)[-2:] == ["<b>Done</b>", "Succeed"]
        handle = await sale.start({"wait": 3600}, id="open")

        async def waits() -> bool:
            return bool((await handle.status()).waits)

        await eventually(waits)
        page = await person.get(at("sale", "open"))
        assert texts(page)[2:6] == ["Pay", "Task · ✓ left", "Wait", "Wait · ▶ current"]
        assert page.header("content-security-policy") == POLICY
        assert "unsafe-inline" not in POLICY
        assert not page.main.all("style")
        assert not [each for each in page.main.all("text") if "style" in each.attributes]
        await handle.terminate()


async def test_who_may_not_see_the_input_does_not_see_the_definition_in_it(shop, sale):
    person = Person(shop, authenticate=tokens())
    async with shop.worker():
        await person.log_in("reader")
        await (await sale.start({"wait": 0}, id="s"))
        page = await person.get(at("sale", "s"))
    assert page.status == 200
    assert texts(page) == []


async def test_other_workflows_have_no_picture(shop, person):
    async with shop.worker():
        await person.log_in()
        await (await shop.registry.workflow("checkout").start("visa", id="o"))
        assert not (await person.get(at("checkout", "o"))).main.all("section", **{"aria-labelledby": "machine"})


__all__ = ["eventually"]
