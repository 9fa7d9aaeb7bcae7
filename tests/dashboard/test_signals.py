"""The form of a signal: fields of the type that the body waits for, and what is typed stays until it fits."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from msgspec import Struct
from tests.dashboard.conftest import Person, tokens

import holdfast as hf
from holdfast.dashboard.schema_fields import field_of, leaves, value_of

PATIENCE_SECONDS = 60


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(Struct):
    street: str
    number: int = 1
    more: dict[str, int] | None = None


class Decision(Struct):
    approved: bool
    by: str
    count: int
    how: Literal["mail", "phone"] = "mail"
    colour: Colour | None = None
    note: str | None = None
    share: float = 0.5
    day: date | None = None
    sure: bool | None = None
    to: Address | None = None
    tags: list[str] = []


PAGE = "/dashboard/signal?workflow=approval&id=a&name=decision"


def make_app(home: str) -> hf.App:
    app = hf.App("shop", home=home)

    @app.workflow
    async def approval() -> str:
        return repr(await hf.signal("decision", Decision))

    @app.workflow
    async def loose() -> str:
        return repr(await hf.signal("decision"))

    return app


def inputs(page) -> dict[str, tuple[str, str]]:
    found = {}
    for each in page.main.all("*"):
        if (name := each.attributes.get("name", "")).startswith("v."):
            kind = each.attributes.get("type", "text") if each.tag == "input" else each.tag
            chosen = [option.attributes["value"] for option in each.all("option") if "selected" in option.attributes]
            shown = each.attributes.get("value", "") if each.tag == "input" else ("".join(chosen) or each.text.strip())
            found[name] = (kind, shown)
    return found


async def waiting(app: hf.App, workflow: str = "approval") -> None:
    await app.registry.workflow(workflow).start(id="a")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await app.handle(workflow, "a").status()).waits:
            await asyncio.sleep(0.01)


@pytest.fixture
def app(tmp_path) -> hf.App:
    return make_app(f"sqlite:///{tmp_path}/shop.db")


async def test_the_form_has_a_field_for_each_part_and_the_body_gets_what_was_typed(app):
    person = Person(app, authenticate=tokens())
    async with app.worker():
        await person.log_in("writer")
        await waiting(app)
        page = await person.get("/dashboard/execution?workflow=approval&id=a")
        (link,) = [each for each in page.main.all("a") if each.text == "Signal…"]
        page = await person.get(link.attributes["href"])
        found = inputs(page)
        assert {name.removeprefix("v."): kind for name, (kind, _) in found.items()} == {
            "approved": "checkbox",
            "by": "text",
            "count": "number",
            "how": "select",
            "colour": "select",
            "note": "text",
            "share": "number",
            "day": "text",
            "sure": "select",
            "to.street": "text",
            "to.number": "number",
            "to.more": "textarea",
            "tags": "textarea",
        }
        assert (found["v.share"][1], found["v.how"][1]) == ("0.5", '"mail"'), "defaults stand in the form"
        typed = {"v.approved": "on", "v.by": 'a "b" <c>', "v.count": "2", "v.how": '"phone"', "v.colour": '"blue"'}
        more = {"v.day": "2025-11-30", "v.sure": "false", "v.to.street": "High", "v.to.number": "7", "v.tags": '["x"]'}
        for wrong, told in (
            ({"v.count": "two"}, "count: a number is written here"),
            ({"v.count": ""}, "count: something must be written here"),
            ({"v.count": "2.5"}, "count: expected int, got float"),
            ({"v.to.number": "1.5"}, "to.number: expected int, got float"),
            ({"v.day": "soon"}, "day: invalid RFC3339"),
            ({"v.tags": "[1"}, "tags: tags is not JSON"),
            ({"v.how": '"owl"'}, "how: not one of the allowed values"),
        ):
            again = await person.act(page, "signal", **typed | more | wrong)
            assert (again.status, told in again.text) == (400, True), again.text
            kept = inputs(again)
            assert kept["v.by"] == ("text", 'a "b" <c>')
            if kept[next(iter(wrong))][0] != "select":
                assert kept[next(iter(wrong))][1] == next(iter(wrong.values())), "what was typed is kept"
        done = await person.act(page, "signal", **typed | more | {"v.share": "", "v.note": ""})
        assert done.status == 303, done.text
        to = "Address(street='High', number=7, more=None)"
        assert await app.handle("approval", "a").result() == repr(
            Decision(True, 'a "b" <c>', 2, "phone", Colour.BLUE, None, 0.5, date(2025, 11, 30), False, None, ["x"])
        ).replace("to=None", f"to={to}")


async def test_without_a_type_or_the_code_the_form_is_json_and_says_why(app, tmp_path):
    async with app.worker():
        await waiting(app)
        await waiting(app, "loose")
        person = Person(app, authenticate=tokens())
        await person.log_in("writer")
        page = await person.get(f"{PAGE}&json=yes")
        again = await person.act(page, "signal", name="decision", value='{"approved": 1}')
        assert again.status == 400
        assert "approved: expected bool, got int" in again.text
        assert [each.text for each in again.main.all("textarea")] == ['{"approved": 1}']
        for query, why in (
            ("workflow=approval&id=a&name=other", "waits for no signal &#39;other&#39; now"),
            ("workflow=loose&id=a&name=decision", "the body takes any JSON"),
        ):
            page = await person.get(f"/dashboard/signal?{query}")
            assert why in page.text
            assert page.main.all("textarea", name="value")
        assert (await person.act(page, "signal", name="decision", value="{}")).status == 303
        assert await app.handle("loose", "a").result() == "{}"
        fields = await person.get(PAGE)
        form = {each.attributes["name"]: each.attributes["value"] for each in fields.main.all("input", type="hidden")}
        form |= {"name": "other", "action": "signal", "v.by": "ann", "v.count": "3"}
        again = await person.post("/dashboard/act", form)
        assert again.status == 400, "the fields are of another signal"
        assert json.loads(again.main.all("textarea")[0].text) == {"v.by": "ann", "v.count": "3"}
        await app.handle("approval", "a").terminate()
        late = await person.act(fields, "signal", **{"v.by": "ann"})
        assert late.status == 400, "a value that is missing"
        late = await person.act(fields, "signal", **{"v.by": "ann", "v.count": "3", "v.approved": "on"})
        assert late.status == 409
    async with hf.App("shop", home=app.home_url) as bare:
        person = Person(bare, authenticate=tokens())
        await person.log_in("writer")
        page = await person.get(PAGE)
        assert "the code of workflow &#39;approval&#39; is not in this process" in page.text
    other = hf.App("shop", home=f"sqlite:///{tmp_path}/shop.db")

    @other.workflow
    async def loose() -> str:
        return str(await hf.callback(str))

    async with other:
        await other.registry.workflow("loose").start(id="b")
    async with other:
        person = Person(other, authenticate=tokens())
        await person.log_in("writer")
        page = await person.get("/dashboard/signal?workflow=loose&id=a&name=decision")
        assert "does not fit" in page.text or "waits for no signal" in page.text


async def test_who_may_not_see_an_execution_learns_nothing_of_its_signals(app):
    async with app.worker():
        await waiting(app)
        for name, status in (("reader", 403), ("acme", 403)):
            person = Person(app, authenticate=tokens())
            await person.log_in(name)
            assert (await person.get(PAGE)).status == status
        page = await person.get("/dashboard/executions")
        form = {
            "csrf": page.page.all("input", name="csrf")[0].attributes["value"],
            "on": '["approval","a"]',
            "action": "signal",
            "checked": "yes",
            "fields": "yes",
            "name": "decision",
        }
        told = await person.post("/dashboard/act", form)
        assert told.status == 403
        assert "approved" not in told.text


@pytest.mark.parametrize(
    ("type", "typed", "value"),
    [
        (bool, {"v": "on"}, True),
        (bool, {}, False),
        (str, {"v": ""}, ""),
        (int, {"v": " 12345678901234567890 "}, 12345678901234567890),
        (int | None, {"v": ""}, None),
        (Colour, {"v": '"red"'}, "red"),
        (Literal[1, 2], {"v": "2"}, 2),
        (list[int], {"v": "[1]"}, [1]),
        (int | str, {"v": '"a"'}, "a"),
        (Address, {"v.street": "", "v.number": ""}, {"street": "", "more": None}),
    ],
)
def test_a_field_and_its_value(type, typed, value):
    field = field_of(type)
    assert field is not None
    assert value_of(field, typed) == value
    assert all(each.kind != "group" for each in leaves(field))


def test_a_type_without_a_schema_has_no_field():
    assert field_of(Any) is None
    assert field_of(complex) is None


async def test_a_selection_gets_one_signal_by_fields_and_one_that_it_does_not_fit_is_told(tmp_path):
    app = make_app(f"sqlite:///{tmp_path}/shop.db")
    numbers = app.workflow(name="numbers")(takes_a_number)
    async with app.worker():
        person = Person(app, authenticate=tokens())
        await person.log_in()
        for id in ("a", "b", "c"):
            await (numbers if id == "c" else app.registry.workflow("approval")).start(id=id)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not all(each.waits for each in (await app.executions()).executions):
                await asyncio.sleep(0.01)
        on = [json.dumps(each) for each in (["approval", "a"], ["approval", "b"], ["numbers", "c"])]
        asked = await person.act(await person.get("/dashboard/executions"), "signal", on=on)
        assert asked.main.all("input", name="name")[0].attributes["value"] == "decision"
        page = await person.confirm(asked, name="decision", sure="fields")
        assert inputs(page)["v.by"] == ("text", "")
        assert [each.attributes["value"] for each in page.main.all("input", name="on")] == [
            each.replace(", ", ",") for each in on
        ]
        again = await person.act(page, "signal", **{"v.by": "ann", "v.count": "many"})
        assert again.status == 400
        assert inputs(again)["v.by"] == ("text", "ann"), "what was typed stays"
        assert len(again.main.all("input", name="on")) == 3
        assert [len((await app.handle("approval", id).status()).waits) for id in "ab"] == [1, 1], "nothing was sent"
        told = await person.act(again, "signal", **{"v.approved": "yes", "v.by": "ann", "v.count": "2"})
        assert "2 of 3 done" in told.text
        assert "numbers c" in told.text
        for id in "ab":
            assert "by='ann', count=2" in await app.handle("approval", id).result()
        assert (await app.handle("numbers", "c").status()).waits


async def takes_a_number() -> int:
    return await hf.signal("decision", int)
