"""The pages, as functions of what the home holds."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.dashboard.conftest import Person, at, tokens

import holdfast as hf

PATIENCE_SECONDS = 60


async def test_the_list_shows_executions_and_finds_them_by_its_address(shop, person):
    async with shop.worker():
        await person.log_in()
        assert "No executions yet" in (await person.get("/dashboard/executions")).text
        workflow = shop.registry.workflow("checkout")
        await (await workflow.start("visa", id="order-17"))
        with suppress(hf.ExecutionFailed):
            await (await workflow.start("bad", id="order-18"))
        await shop.registry.workflow("approval").start(5, id="wait-1", tags={"customer": "c7"})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await shop.handle("approval", "wait-1").status()).waits:
                await asyncio.sleep(0.01)
        listed = await person.get("/dashboard/executions")
        assert listed.status == 200
        assert [each.attributes["title"] for each in listed.main.all("a") if "title" in each.attributes] == [
            "wait-1",
            "order-18",
            "order-17",
        ]
        for query, found in (
            ("status=FAILED", ["order-18"]),
            ("workflow=checkout&id=order-17", ["order-17"]),
            ("tag=customer%3Dc7", ["wait-1"]),
            ("since=1h", ["wait-1", "order-18", "order-17"]),
            ("since=0s", []),
            ("status=PAUSED", []),
            ("error=keyerror", ["order-18"]),
            ("error=another", []),
            ("waits_for=signal:decision", ["wait-1"]),
        ):
            page = await person.get(f"/dashboard/executions?{query}")
            assert [each.attributes["title"] for each in page.main.all("a") if "title" in each.attributes] == found
        assert (await person.get("/dashboard/executions?status=NONE")).status == 400
        assert (await person.get("/dashboard/executions?nonsense=1")).status == 400


async def test_who_may_not_see_the_texts_of_errors_finds_nothing_by_them(shop):
    async with shop:
        person = Person(shop, authenticate=tokens())
        await person.log_in("reader")
        assert (await person.get("/dashboard/executions?error=KeyError")).status == 403
        assert not (await person.get("/dashboard/executions")).main.all("input", name="error")


async def test_an_execution_shows_the_children_that_it_has_called(tmp_path):
    app = hf.App("shop", home=f"sqlite:///{tmp_path}/shop.db")

    @app.workflow
    async def pack(n: int) -> int:
        return n

    @app.workflow
    async def order() -> int:
        return sum([await pack(n) for n in range(22)])

    async with app.worker():
        assert await (await order.start(id="o")).result() == sum(range(22))
        person = Person(app, authenticate=lambda _request: hf.Caller("ann"))
        page = await person.get(at("order", "o"))
        children = [each for each in page.main.all("table") if "Created" in each.text and "pack" in each.text]
        assert len(children[0].all("tr")) == 21, "the newest twenty, and the head"
        bars = [each for each in page.main.all("title") if each.text == "done"]
        assert len(bars) == 22, "a bar for each child"
        (link, *_) = [each for each in page.main.all("a") if each.text == "Look for all of them"]
        listed = await person.get(link.attributes["href"])
        assert len(listed.main.all("input", name="on")) == 22


async def test_the_metrics_of_the_process_are_tables(shop, person):
    async with shop.worker():
        await person.log_in()
        await person.get("/dashboard/metrics")  # from now on it counts
        await (await shop.registry.workflow("checkout").start("visa", id="order-17")).result()
        page = await person.get("/dashboard/metrics")
        tables = {each.all("th")[-1].text: each for each in page.main.all("table")}
        ended = tables["holdfast_executions_ended_total"]
        assert [each.text for each in ended.all("td")] == ["checkout", "COMPLETED", "1"]
        assert "on average" in tables["holdfast_step_seconds"].text
        assert "holdfast_running" in tables


async def test_one_execution_shows_what_happened_and_why_it_failed(shop, person):
    async with shop.worker():
        await person.log_in()
        with suppress(hf.ExecutionFailed):
            await (await shop.registry.workflow("checkout").start("bad-card", id="order-18"))
        page = await person.get(at("checkout", "order-18"))
        assert page.status == 200
        assert "charge#0" in page.text
        assert "KeyError" in page.text
        assert "raise KeyError(card)" in page.text  # the traceback
        assert "bad-card" in page.text
        assert page.main.all("rect"), "a bar is drawn for the step"
        assert {each.attributes["value"] for each in page.main.all("button", name="action")} >= {"retry", "delete"}
        assert (await person.get(at("checkout", "none"))).status == 404
        assert (await person.get("/dashboard/execution")).status == 400


@pytest.mark.parametrize("id", ["a/b", "..", ".", "a b", "ä%2F?&#", "a" * 200, "<script>alert(1)</script>", "'\"", "+"])
async def test_every_id_works_in_an_address(shop, person, id):
    async with shop:
        await person.log_in()
        await shop.registry.workflow("approval").start(5, id=id)
        listed = await person.get("/dashboard/executions")
        link = next(each for each in listed.main.all("a") if each.attributes.get("title") == id)
        page = await person.get(link.attributes["href"])
        assert page.status == 200
        assert page.main.all("h1")[0].attributes["title"] == id


async def test_a_fragment_is_the_content_alone(shop, person):
    async with shop:
        await person.log_in()
        page = await person.get("/dashboard/executions", holdfast_fragment="main")
        assert page.text.lstrip().startswith("<title>")
        assert len(page.page.all("main")) == 1
        assert not page.page.all("nav", **{"aria-label": "Pages"})


async def test_the_dashboard_needs_no_login_where_every_process_of_the_machine_may_do_everything():
    app = hf.App("shop", home="memory://")
    async with app:
        person = Person(app)
        page = await person.get("/dashboard/executions")
        assert page.status == 200
        assert person.cookies, "a session, for its forms"
