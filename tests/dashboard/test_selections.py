"""What an action on a selection asks for, and what is told of each that was selected."""

from __future__ import annotations

import json

import pytest
from tests.dashboard.conftest import Answer, Person, tokens
from tests.dashboard.test_actions import rows
from tests.dashboard.world import EXECUTIONS, World

import holdfast as hf
from holdfast.dashboard import acting
from holdfast.errors import StoreUnavailable


def outcomes(answer: Answer) -> dict[str, str]:
    """The outcome of each that was selected."""
    told = [each.all("td") for each in answer.main.all("tbody")[0].all("tr")]
    return {what.all("a")[0].attributes["title"]: outcome.text for what, outcome in told}


async def forks(shop: hf.App) -> list[str]:
    return sorted(each.id for each in (await shop.executions()).executions if each.id.startswith("fork-"))


async def test_a_selection_is_forked_before_an_operation_and_one_without_it_is_told(shop, person):
    world = World(shop)
    async with shop.worker():
        await person.log_in()
        await world.failed()
        await world.waiting()
        on = [json.dumps(each) for each in (["purchase", "x0"], ["approval", "x1"], ["purchase", "x2"], ["nope", "x3"])]
        asked = await person.act(await person.get(EXECUTIONS), "fork", on=on)
        assert asked.status == 200
        assert [each.attributes["value"] for each in asked.main.all("datalist")[0].all("option")] == ["pay#0"]
        assert await forks(shop) == [], "nothing is done before it is said"
        told = await person.confirm(asked, before="pay#0")
        assert "2 of 4 done" in told.text
        made = await forks(shop)
        assert len(made) == 2
        for one in ("purchase x0", "purchase x2"):
            assert outcomes(told)[one].removeprefix("is forked as ") in made
        assert "has no finished operation &#39;pay#0&#39;" in told.text
        assert "no execution" in outcomes(told)["nope x3"] or "no workflow" in outcomes(told)["nope x3"]
        for id in made:
            assert await shop.handle("purchase", id).result() == "paid"
        await shop.handle("purchase", "x0").delete()
        repeated = await person.confirm(asked, before="pay#0")
        assert (outcomes(repeated), await forks(shop)) == (outcomes(told), made), "a form sent twice is one request"
        other = await person.confirm(asked, before="")
        assert "0 of 4" not in other.text
        assert len(await forks(shop)) > 2, "a form that says something else is another request"
        assert [row[1:] for row in await rows(shop)][:4] == [
            ("fork", "purchase x0", "done"),
            ("fork", "approval x1", "invalid_input"),
            ("fork", "purchase x2", "done"),
            ("fork", "nope x3", "not_found"),
        ]


async def test_a_store_that_fails_half_way_leaves_whole_forks_and_the_same_form_makes_the_others(
    shop, person, monkeypatch
):
    world = World(shop)
    async with shop.worker():
        await person.log_in()
        await world.failed()
        asked = await person.act(
            await person.get(EXECUTIONS), "fork", on=[json.dumps(["purchase", f"x{n}"]) for n in range(3)]
        )
        perform, failed = acting.perform, 0

        async def failing(visit, command):
            nonlocal failed
            if command.id == "x1":
                failed += 1
                raise StoreUnavailable("locked")
            return await perform(visit, command)

        with monkeypatch.context() as patch:
            patch.setattr(acting, "perform", failing)
            told = await person.confirm(asked, before="pay#0")
        assert failed == 1
        assert "1 of 3 done" in told.text
        assert outcomes(told)["purchase x2"] == "was not tried"
        assert len(await forks(shop)) == 1
        again = await person.confirm(asked, before="pay#0")
        assert "3 of 3 done" in again.text
        assert outcomes(again)["purchase x0"] == outcomes(told)["purchase x0"]
        assert len(await forks(shop)) == 3


async def test_callbacks_of_a_selection_are_answered_and_one_that_waits_for_none_is_told(shop, person):
    world = World(shop)
    async with shop.worker():
        await person.log_in()
        await world.parcels()
        await world.waiting()
        on = [json.dumps(each) for each in (["parcel", "x0"], ["approval", "x1"], ["parcel", "x2"])]
        asked = await person.act(await person.get(EXECUTIONS), "callback answer", on=on)
        assert asked.main.all("input", name="operation")[0].attributes["value"] == "callback#0"
        assert "hf1." not in asked.text, "no token is shown"
        for wrong in ({"operation": ""}, {"operation": "other#0"}, {"operation": "callback#0", "value": "{"}):
            assert "0 of 3 done" in (await person.confirm(asked, **wrong)).text
        both = await person.confirm(asked, operation="callback#0", value="1", error="lost")
        assert "with a value or an error, not with both" in both.text
        assert [await world.waits(("parcel", f"x{n}")) for n in range(3)] == [True] * 3
        told = await person.confirm(asked, operation="callback#0", value='"arrived"')
        assert "2 of 3 done" in told.text
        assert "waits for no callback" in outcomes(told)["approval x1"]
        assert "hf1." not in told.text
        assert [await shop.handle("parcel", id).result() for id in ("x0", "x2")] == ["arrived", "arrived"]
        again = await person.confirm(asked, operation="callback#0", value='"arrived"')
        assert outcomes(again) == outcomes(told), "the same answer is taken again"
        late = await person.confirm(asked, operation="callback#0", error="lost")
        assert "0 of 3 done" in late.text
        lost = await person.act(await person.get(EXECUTIONS), "callback answer", on=json.dumps(["parcel", "x1"]))
        assert (await person.confirm(lost, operation="callback#0", error="lost")).status == 303
        with pytest.raises(hf.ExecutionFailed, match="lost"):
            await shop.handle("parcel", "x1").result()


async def test_who_may_not_act_is_not_asked(shop):
    async with shop.worker():
        await World(shop).waiting()
        asking = ("signal", "fork", "callback answer")
        for name, known in (("reader", ()), ("writer", asking[:1]), ("operator", asking)):
            person = Person(shop, authenticate=tokens())
            await person.log_in(name)
            page = await person.get(EXECUTIONS)
            csrf = page.page.all("input", name="csrf")[0].attributes["value"]
            for action in asking:
                fields = {"csrf": csrf, "action": action, "on": json.dumps(["approval", "x0"])}
                told = await person.post("/dashboard/act", fields)
                assert told.status == (200 if action in known else 403), (name, action)
                assert len(page.main.all("button", value=action)) == (action in known)
                forged = await person.post("/dashboard/act", fields | {"csrf": "0" * 64})
                assert forged.status == 403


async def test_a_reason_is_asked_for_with_the_question(shop, person):
    async with shop.worker():
        await person.log_in()
        await World(shop).waiting()
        on = [json.dumps(["approval", f"x{n}"]) for n in range(2)]
        asked = await person.act(await person.get(EXECUTIONS), "cancel", on=on)
        assert "2 of 2 done" in (await person.confirm(asked, reason="they left")).text
        for n in range(2):
            with pytest.raises(hf.ExecutionCancelled):
                await shop.handle("approval", f"x{n}").result()
            history = [(event.kind, event.name) for event in await shop.handle("approval", f"x{n}").history()]
            assert ("cancel", "they left") in history
