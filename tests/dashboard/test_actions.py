"""What a person can do: each action is one command, with a row in the audit and an outcome that is told."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest
from tests.dashboard.conftest import Person, at, tokens

import holdfast as hf
from holdfast.commands import NAMED
from holdfast.coordination.audit import rows_since
from holdfast.dashboard import acting
from holdfast.dashboard.actions import ACTIONS
from holdfast.errors import StoreUnavailable

PATIENCE_SECONDS = 60


async def rows(app: hf.App) -> list[tuple[str, str, str, str]]:
    runtime = app.runtime()
    found = await rows_since(runtime.home.store, runtime.clock, 0, 100)
    return [(row.who, row.action, row.what, row.outcome) for row in reversed(found)]


async def status(app: hf.App, id: str) -> str:
    return (await app.handle("approval", id).status()).status


async def until(holds) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await holds():
            await asyncio.sleep(0.01)


async def test_an_execution_is_paused_resumed_signalled_and_deleted(shop, person):
    async with shop.worker():
        await person.log_in()
        await shop.registry.workflow("approval").start(5, id="a")
        page = await person.get(at("approval", "a"))
        page = await person.follow(await person.act(page, "pause"))
        assert "approval a starts nothing new" in page.text
        assert await status(shop, "a") == "PAUSED"
        assert "approval a starts nothing new" not in (await person.get(at("approval", "a"))).text, "it is told once"
        page = await person.follow(await person.act(page, "resume"))
        page = await person.get("/dashboard/signal?workflow=approval&id=a")
        page = await person.follow(await person.act(page, "signal", name="decision", value='"yes"'))
        await until(lambda: is_ended(shop, "a"))
        assert await shop.handle("approval", "a").result() == "yes: 5"
        sure = await person.act(await person.get(at("approval", "a")), "delete")
        assert "cannot be taken back" in sure.text
        assert await status(shop, "a") == "COMPLETED", "nothing is done before it is confirmed"
        assert (await person.confirm(sure)).status == 303
        with pytest.raises(hf.NotFound):
            await shop.handle("approval", "a").status()
        assert [row for row in await rows(shop) if row[1] != "signal"] == [
            ("ann", "pause", "approval a", "done"),
            ("ann", "resume", "approval a", "done"),
            ("ann", "delete", "approval a", "done"),
        ]


async def is_ended(app: hf.App, id: str) -> bool:
    return await status(app, id) == "COMPLETED"


async def test_a_form_that_is_sent_twice_is_one_request(shop, person):
    async with shop.worker():
        await person.log_in()
        await shop.registry.workflow("approval").start(5, id="a")
        await shop.handle("approval", "a").pause()
        page = await person.get(at("approval", "a"))
        form = {each.attributes["name"]: each.attributes["value"] for each in page.main.all("input", type="hidden")}
        for fields in (
            {"action": "signal", "name": "other", "value": "1"},
            {"action": "cancel", "reason": "because", "sure": "yes"},
            {"action": "fork", "before": ""},
        ):
            for _ in range(2):
                await person.post("/dashboard/act", form | fields)
        await until(lambda: has_ended(shop, "a"))
        history = [(event.kind, event.name) for event in await shop.handle("approval", "a").history()]
        assert history.count(("signal", "other")) == 1
        assert history.count(("cancel", "because")) == 1
        listed = await shop.executions("approval")
        assert len([each for each in listed.executions if each.id.startswith("fork-")]) == 1


async def has_ended(app: hf.App, id: str) -> bool:
    return await status(app, id) == "CANCELLED"


async def test_what_has_changed_meanwhile_is_told_with_how_it_stands_now(shop, person):
    async with shop.worker():
        await person.log_in()
        await shop.registry.workflow("approval").start(5, id="a")
        page = await person.get(at("approval", "a"))
        await shop.handle("approval", "a").terminate("by another person")
        told = await person.act(page, "pause")
        assert told.status == 409
        assert "TERMINATED" in told.text
        assert [each.text for each in told.main.all("span", **{"class": "badge s-terminated"})] == ["terminated"]
        assert (await rows(shop))[-1] == ("ann", "pause", "approval a", "invalid_state")


async def test_an_action_on_a_selection_tells_the_outcome_of_each(shop, person):
    async with shop.worker():
        await person.log_in()
        for n in range(3):
            await shop.registry.workflow("approval").start(n, id=f"a{n}")
        await shop.handle("approval", "a1").terminate()
        page = await person.get("/dashboard/executions")
        on = [json.dumps(["approval", f"a{n}"]) for n in range(3)]
        told = await person.act(page, "pause", on=on)
        assert "2 of 3 done" in told.text
        assert [await status(shop, f"a{n}") for n in range(3)] == ["PAUSED", "TERMINATED", "PAUSED"]
        sure = await person.act(page, "cancel", on=on[:1])
        assert "asked to stop" in sure.text
        assert await status(shop, "a0") == "PAUSED"
        assert (await person.act(page, "pause")).status == 400, "nothing is selected"
        assert (
            await person.act(page, "pause", on=[json.dumps(["approval", str(n)]) for n in range(101)])
        ).status == 400
        for wrong in ('["approval"]', "{", '["a","b","c"]', "[" * 10_000, "[1, 2]"):
            assert (await person.act(page, "pause", on=wrong)).status == 400
        assert (await person.post("/dashboard/act", {"csrf": csrf_of(page), "action": "start"})).status == 404


def csrf_of(page) -> str:
    return page.page.all("input", name="csrf")[0].attributes["value"]


async def test_a_failed_execution_is_retried_and_forked_before_an_operation(shop, person):
    async with shop.worker():
        await person.log_in()
        with suppress(hf.ExecutionFailed):
            await (await shop.registry.workflow("checkout").start("bad", id="c"))
        page = await person.get(at("checkout", "c"))
        assert (await person.act(page, "retry")).status == 303
        with suppress(hf.ExecutionFailed):
            await shop.handle("checkout", "c").result()
        forked = await person.act(page, "fork", before="charge#0", new_id="d")
        assert forked.header("location") == at("checkout", "d")
        page = await person.follow(forked)
        assert page.main.all("h1")[0].text == "d"
        long = await person.act(await person.get(at("checkout", "c")), "fork", before="", new_id="x" * 600)
        assert long.status == 400


async def test_dead_letters_are_redriven_with_other_arguments_and_discarded(shop, person):
    async with shop.worker():
        await person.log_in()
        await hf.send(shop.Basket.at("ann").add, "bug")
        await hf.send(shop.Basket.at("ann").add, "bug2")
        await until(lambda: are_parked(shop, 2))
        page = await person.get("/dashboard/letters")
        links = [each.attributes["href"] for each in page.main.all("a") if "letter?" in each.attributes["href"]]
        one = await person.get(links[0])
        assert "ZeroDivisionError" in one.text
        assert "Redrive" in one.text
        assert (await person.act(one, "dlq redrive", args="{nonsense")).status == 400
        assert (await person.act(one, "dlq redrive", args='["tea"]')).status == 303
        await until(lambda: are_parked(shop, 1))
        sure = await person.act(await person.get(links[1]), "dlq discard")
        assert "never handled" in sure.text
        await person.confirm(sure)
        assert not (await shop.parked()).items
        actor = await person.get("/dashboard/actor?actor=Basket&key=ann")
        assert "tea" in actor.text
        assert [row[1:2] for row in await rows(shop)] == [("dlq redrive",), ("dlq discard",)]


async def are_parked(app: hf.App, count: int) -> bool:
    return len((await app.parked()).items) == count


async def test_a_tenant_has_no_page_and_no_letter_of_others(shop):
    async with shop.worker():
        person = Person(shop, authenticate=tokens())
        await person.log_in("acme")
        await hf.send(shop.Basket.at("other").add, "bug")
        await until(lambda: are_parked(shop, 1))
        (letter,) = (await shop.parked()).items
        for page in ("overview", "outbox", "schedules", "leases", "workers", "audit", "metrics", "queues", "limits"):
            assert (await person.get(f"/dashboard/{page}")).status == 403
        assert "other" not in (await person.get("/dashboard/letters")).main.text
        assert (await person.get(f"/dashboard/letter?id={letter.id.replace('#', '%23')}")).status == 404
        assert (await person.get("/dashboard/actor?actor=Basket&key=other")).status == 403
        page = await person.get("/dashboard/executions")
        fields = {"csrf": csrf_of(page), "action": "dlq redrive", "on": json.dumps([letter.id])}
        assert (await person.post("/dashboard/act", fields)).status == 404
        assert await are_parked(shop, 1)
        links = [each.text for each in page.page.all("nav", **{"aria-label": "Pages"})[0].all("a")]
        assert links == ["Executions", "Actors", "Dead letters"]


def test_every_action_is_a_command_with_a_right_and_those_that_cannot_be_taken_back_ask():
    assert {NAMED[each.command].name for each in ACTIONS} >= {"cancel", "terminate", "retry", "fork", "dlq redrive"}
    assert all(each.right is not None for each in ACTIONS)
    destructive = {
        "cancel",
        "terminate",
        "delete",
        "move",
        "actor delete",
        "actor park",
        "actor discard",
        "dlq discard",
        "queue purge",
    }
    assert {each.name for each in ACTIONS if each.asks} == destructive


async def test_a_callback_is_answered_without_its_token_and_executions_are_found_by_what_they_wait_for(shop, person):
    async with shop.worker():
        await person.log_in()
        await shop.registry.workflow("parcel").start(id="p")
        await shop.registry.workflow("approval").start(1, id="a")
        await until(lambda: waits(shop))
        found = await person.get("/dashboard/executions?waits_for=callback")
        assert [each.attributes["title"] for each in found.main.all("a") if "title" in each.attributes] == ["p"]
        page = await person.get(at("parcel", "p"))
        assert "hf1." not in page.text, "no token is shown"
        (operation,) = page.main.all("select", name="operation")[0].all("option")
        answer = {"operation": operation.attributes["value"], "value": '"arrived"'}
        assert (await person.act(page, "callback answer", **answer)).status == 303
        assert await shop.handle("parcel", "p").result() == "arrived"


async def waits(app: hf.App) -> bool:
    return all([(await app.handle(*each).status()).waits for each in (("parcel", "p"), ("approval", "a"))])


async def test_a_form_that_is_sent_at_once_by_two_clicks_makes_one_fork_and_leads_both_to_it(shop, person):
    async with shop:
        await person.log_in()
        await shop.registry.workflow("approval").start(5, id="a")
        page = await person.get(at("approval", "a"))
        told = await asyncio.gather(*(person.act(page, "fork", before="") for _ in range(5)))
        assert {each.status for each in told} == {303}
        assert len({each.header("location") for each in told}) == 1
        taken = await person.act(page, "fork", before="", new_id="a")
        assert taken.status == 409, "an id that was chosen is another's"


async def test_a_form_that_says_something_else_is_another_request(shop, person):
    async with shop.worker():
        await person.log_in()
        await shop.registry.workflow("approval").start(5, id="a")
        page = await person.get("/dashboard/signal?workflow=approval&id=a")
        for name, value in (("other", "1"), ("other", "2"), ("other", "2"), ("decision", "1")):
            assert (await person.act(page, "signal", name=name, value=value)).status == 303
        await until(lambda: is_ended(shop, "a"))
        history = [(event.kind, event.name) for event in await shop.handle("approval", "a").history()]
        assert history.count(("signal", "other")) == 2


async def test_a_store_that_does_not_answer_is_waited_for_once(shop, person, monkeypatch):
    async with shop:
        await person.log_in()
        for n in range(3):
            await shop.registry.workflow("approval").start(n, id=f"a{n}")
        page = await person.get("/dashboard/executions")
        tried = 0

        async def unavailable(*_):
            nonlocal tried
            tried += 1
            raise StoreUnavailable("locked")

        monkeypatch.setattr(acting, "perform", unavailable)
        told = await person.act(page, "pause", on=[json.dumps(["approval", f"a{n}"]) for n in range(3)])
        assert tried == 1
        assert told.text.count("was not tried") == 2
