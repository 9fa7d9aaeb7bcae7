"""Names and texts of users are data: whatever is in them, no page has an element, an attribute or a link from them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.dashboard.conftest import Person

import holdfast as hf
from holdfast.dashboard.navigation import ADDRESSES

EVIL = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"
PATIENCE_SECONDS = 60
ALLOWED_SCHEMES = ("/", "#")


class Evil(Exception):
    pass


def make_app(home: str) -> hf.App:
    app = hf.App("shop", home=home)

    @app.step(retry=hf.Retry(max_attempts=1))
    async def fail(text: str) -> str:
        raise type(EVIL, (Evil,), {})(text)

    @app.workflow
    async def failing(text: str) -> str:
        return await fail(text)

    @app.workflow
    async def waiting(text: str) -> str:
        return str(await hf.signal(f"go {EVIL}"))

    class Basket(hf.Actor, app=app, retry=hf.Retry(max_attempts=1)):
        items: list[str] = hf.field(default_factory=list)

        async def add(self, text: str, fails: bool = False) -> None:
            if fails:
                raise Evil(text)
            self.items.append(text)

    app.Basket = Basket
    return app


def check(text: str, page, where: str) -> None:
    scripts = page.all("script")
    assert [each.attributes.get("src", "").split("?")[0] for each in scripts] in ([], ["/dashboard/static/hf.js"]), (
        where
    )
    assert all(not each.text for each in scripts)
    for element in page.all("*"):
        assert element.tag not in {"iframe", "object", "embed", "base", "style"}, where
        assert element.tag != "img" or element.attributes["src"].startswith("/dashboard/static/"), where
        for name, value in element.attributes.items():
            assert not name.startswith("on") and name != "style", (where, name)
            if name in {"href", "action", "src"}:
                assert value.startswith(ALLOWED_SCHEMES) and not value.startswith("//"), (where, value)
    assert "<script>alert" not in text, where


async def test_a_script_in_every_name_is_text(tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/shop.db")
    caller = hf.Caller(EVIL)
    async with app.worker():
        with suppress(hf.ExecutionFailed):
            await (await app.registry.workflow("failing").start(EVIL, id=EVIL, tags={EVIL[:60]: EVIL}))
        handle = await app.registry.workflow("waiting").start(EVIL, id=f"w{EVIL}")
        await handle.signal(f"mistyped {EVIL}", EVIL)
        await app.registry.workflow("waiting").start(EVIL, id="x")
        await app.handle("waiting", "x").terminate(EVIL)
        await app.Basket.at(EVIL).add(EVIL)
        await hf.send(app.Basket.at(EVIL).add, EVIL, fails=True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await app.parked()).items:
                await asyncio.sleep(0.01)
        async with app.lease("a-lease"):
            person = Person(app, authenticate=lambda _request: caller, dashboard=hf.Dashboard(title=EVIL))
            pages = [f"/dashboard/{each.page}" for each in ADDRESSES if each.label]
            seen = set()
            while pages:
                where = pages.pop()
                answer = await person.get(where)
                assert answer.status == 200, (where, answer.text)
                check(answer.text, answer.page, where)
                seen.add(where)
                for link in answer.main.all("a"):
                    where = link.attributes["href"]
                    if where not in seen and where not in pages and not where.startswith("#"):
                        pages.append(where)
            assert len(seen) > 25, "every link was followed"
        form = {"csrf": answer.page.all("input", name="csrf")[0].attributes["value"], "form": "1", "back": EVIL}
        for action, on in (("retry", ["failing", EVIL]), ("cancel", ["waiting", f"w{EVIL}"]), (EVIL, ["x"])):
            for sure in ("", "yes"):
                on_text = hf_json(on)
                told = await person.post("/dashboard/act", form | {"action": action, "on": on_text, "sure": sure})
                if told.status != 303:
                    check(told.text, told.page, action)
        both = form | {"on": [hf_json(["failing", EVIL]), hf_json(["waiting", f"w{EVIL}"])]}
        for action, field in (("signal", "name"), ("fork", "before"), ("callback answer", "operation")):
            for said in (
                {},
                {field: EVIL},
                {field: f"go {EVIL}", "sure": "fields"},
                {field: f"none {EVIL}", "value": "{"},
            ):
                told = await person.post("/dashboard/act", both | {"action": action} | said)
                assert told.status == 200, told.text
                assert "&lt;script&gt;alert" in told.text
                check(told.text, told.page, action)
        for query in ("status", "workflow", "id", "tag", "since", "after", "nothing", "parent"):
            told = await person.get(f"/dashboard/executions?{query}=%3Cscript%3Ealert(1)%3C/script%3E=1")
            check(told.text, told.page, query)
        assert EVIL in {row.who for row in await rows(app)}


async def test_what_a_terminal_or_a_reader_would_obey_is_shown_escaped(tmp_path):
    app, obeyed = make_app(f"sqlite:///{tmp_path}/shop.db"), "a\u202eb\x1b[31mc\x07"
    async with app.worker():
        with suppress(hf.ExecutionFailed):
            await (await app.registry.workflow("failing").start(obeyed, id="a"))
        await app.Basket.at("k").add(obeyed)
        await hf.send(app.Basket.at("k").add, obeyed, fails=True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (letters := (await app.parked()).items):
                await asyncio.sleep(0.01)
        person = Person(app, authenticate=lambda _request: "ann")
        for page in (
            "execution?workflow=failing&id=a",
            "actor?actor=Basket&key=k",
            f"letter?id={letters[0].id}",
        ):
            told = (await person.get(f"/dashboard/{page}")).text
            assert r"\u202eb" in told, page
            assert told.replace("\n", "").isprintable(), page


def hf_json(on):
    from holdfast.dashboard.links import on_text

    return on_text(*on)


async def rows(app):
    from holdfast.coordination.audit import rows_since

    runtime = app.runtime()
    return await rows_since(runtime.home.store, runtime.clock, 0, 100)
