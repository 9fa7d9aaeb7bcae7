"""Who is let in, for how long, and which forms are taken."""

from __future__ import annotations

import asyncio

import pytest
from tests.dashboard.conftest import ORIGIN, RIGHTS, TENANTS, TOKENS, Person, at, tokens

import holdfast as hf
from holdfast.clock import SystemClock
from holdfast.commands.right import Right
from holdfast.coordination.audit import rows_since
from holdfast.errors import StoreUnavailable
from holdfast.token_file import token_of_database


async def rows(app: hf.App):
    runtime = app.runtime()
    return await rows_since(runtime.home.store, runtime.clock, 0, 100)


async def test_a_stranger_is_led_to_the_login_and_back(shop, person):
    async with shop:
        answer = await person.get("/dashboard/executions?status=FAILED")
        assert answer.status == 303
        login = await person.follow(answer)
        form = login.main.all("form")[0]
        fields = {each.attributes["name"]: each.attributes.get("value", "") for each in form.all("input")}
        assert fields["back"] == "/dashboard/executions?status=FAILED"
        answer = await person.post(form.attributes["action"], fields | {"token": TOKENS["ann"]})
        assert answer.header("location") == "/dashboard/executions?status=FAILED"
        assert (await person.follow(answer)).status == 200


async def test_a_wrong_token_lets_nobody_in(shop, person):
    async with shop:
        for fields in ({"token": "x" * 32}, {"token": ""}, {}, {"code": "0" * 32}):
            answer = await person.post("/dashboard/login", fields)
            assert answer.status == 403
        assert not person.cookies


async def test_the_cookie_is_out_of_reach_and_holds_no_token(shop, person):
    async with shop:
        cookie = (await person.log_in()).header("set-cookie")
        assert {"HttpOnly", "SameSite=strict", "Path=/dashboard", "Max-Age=43200"} <= set(cookie.split("; "))
        assert TOKENS["ann"] not in cookie
        person.scope = {"scheme": "https"}
        cookie = (await person.log_in()).header("set-cookie")
        assert cookie.startswith("__Secure-")
        assert "Secure" in cookie.split("; ")
        at_root = Person(shop, authenticate=tokens(), dashboard=hf.Dashboard(path="/"))
        at_root.scope = {"scheme": "https"}
        assert (await at_root.post("/login", {"token": TOKENS["ann"]})).header("set-cookie").startswith("__Host-")


async def test_a_cookie_that_was_changed_or_made_elsewhere_lets_nobody_in(shop, person, tmp_path):
    async with shop:
        await person.log_in()
        ((name, value),) = person.cookies.items()
        forged = value[:-5] + ("A" if value[-5] != "A" else "B") + value[-4:]  # the last one has idle bits
        for changed in (forged, value[1:], "", "x.y.z", value * 2):
            person.cookies = {name: changed}
            assert (await person.get("/dashboard/executions")).status == 303
    other = hf.App("other", home=f"sqlite:///{tmp_path}/other.db")
    async with other:
        stranger = Person(other, authenticate=tokens())
        own = (await stranger.log_in()).header("set-cookie").partition("=")[0]
        assert own != name, "each home has a cookie of its own name"
        stranger.cookies = {own: value}
        assert (await stranger.get("/dashboard/executions")).status == 303


async def test_a_session_ends_with_its_token_and_has_the_rights_of_now(shop, person):
    async with shop:
        await person.log_in()
        assert (await person.get("/dashboard/executions")).status == 200
        without = Person(shop, authenticate=hf.BearerTokens({"bob": "b" * 32}))
        without.cookies = person.cookies
        assert (await without.get("/dashboard/executions")).status == 303
        less = Person(shop, authenticate=hf.BearerTokens(TOKENS, rights={"ann": ["write"]}))
        less.cookies = person.cookies
        assert (await less.get("/dashboard/executions")).status == 403


class Later(SystemClock):
    """A clock that is set forward by hand."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


async def test_a_session_lasts_twelve_hours(shop, person):
    shop.clock = clock = Later()
    async with shop:
        await person.log_in()
        clock.ahead_ms = 12 * 3_600_000 - 60_000
        assert (await person.get("/dashboard/executions")).status == 200
        clock.ahead_ms = 12 * 3_600_000 + 1
        assert (await person.get("/dashboard/executions")).status == 303


async def test_logging_out_ends_the_session_for_every_process(shop, person):
    async with shop:
        await person.log_in()
        stolen = Person(shop, authenticate=tokens())
        stolen.cookies = dict(person.cookies)
        page = await person.get("/dashboard/executions")
        form = next(each for each in page.page.all("form") if each.attributes["action"].endswith("/logout"))
        csrf = form.all("input", name="csrf")[0].attributes["value"]
        assert (await person.post("/dashboard/logout", {"csrf": "no"})).status == 403
        assert (await person.get("/dashboard/logout")).status == 405
        assert (await person.post("/dashboard/logout", {"csrf": csrf})).status == 303
        assert not person.cookies
        assert (await stolen.get("/dashboard/executions")).status == 303


async def test_a_log_out_that_the_store_does_not_note_is_said(shop, person, monkeypatch):
    async with shop:
        await person.log_in()
        page = await person.get("/dashboard/executions")
        csrf = page.page.all("input", name="csrf")[0].attributes["value"]

        async def down(*_writes):
            raise StoreUnavailable("no answer")

        monkeypatch.setattr("holdfast.persist.CALLER_PATIENCE_SECONDS", 0.0)
        monkeypatch.setattr(type(shop.runtime().home.store), "write", down)
        answer = await person.post("/dashboard/logout", {"csrf": csrf})
        assert answer.status == 503
        assert person.cookies


async def test_a_code_lets_one_browser_in_once(shop, tmp_path):
    async with shop:
        person = Person(shop)
        where = person.api.site.login_path()
        asked = await person.get(f"/dashboard{where}")
        assert asked.status == 200
        code = asked.main.all("input", name="code")[0].attributes["value"]
        assert (await person.get(f"/dashboard{where}")).status == 200, "looking uses nothing"
        assert (await person.post("/dashboard/login", {"code": code}, origin="http://evil.example")).status == 403
        assert (await person.post("/dashboard/login", {"code": code})).status == 303
        assert (await person.get("/dashboard/executions")).status == 200
        again = Person(shop)
        again.api = person.api
        assert (await again.post("/dashboard/login", {"code": code})).status == 403
        token = token_of_database(str(tmp_path / "shop.db"))
        assert (await again.post("/dashboard/login", {"token": token})).status == 303
        assert (await again.get("/dashboard/executions")).status == 200


async def test_a_private_home_is_served_to_its_machine_alone(shop):
    async with shop:
        person = Person(shop)
        assert (await person.get("/dashboard/executions")).status == 303
        person.scope = {"client": ("10.0.0.7", 5)}
        assert (await person.get("/dashboard/executions")).status == 401
        person.scope = {}
        for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8080"):  # a name that was bound again
            person.host = host
            assert (await person.get("/dashboard/executions")).status == 403
        named = Person(shop, authenticate=tokens(), dashboard=hf.Dashboard(hosts=("shop.example",)))
        assert (await named.get("/dashboard/executions")).status == 403
        named.host = "shop.example"
        assert (await named.get("/dashboard/executions")).status == 303


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", None, "http://127.0.0.1:9", f"{ORIGIN}.evil.example"]
)
async def test_a_form_from_elsewhere_is_not_taken(shop, person, origin):
    async with shop.worker():
        await person.log_in()
        await shop.registry.workflow("approval").start(5, id="a")
        page = await person.get(at("approval", "a"))
        csrf = page.page.all("input", name="csrf")[0].attributes["value"]
        fields = {"csrf": csrf, "action": "pause", "on": '["approval", "a"]'}
        assert (await person.post("/dashboard/act", fields, origin=origin)).status == 403
        assert (await shop.handle("approval", "a").status()).status != "PAUSED"
        assert await rows(shop) == []


async def test_a_form_without_the_token_of_its_session_is_not_taken(shop, person):
    async with shop.worker():
        await person.log_in()
        other = Person(shop, authenticate=tokens())
        await other.log_in()
        foreign = (await other.get("/dashboard/executions")).page.all("input", name="csrf")[0].attributes["value"]
        await shop.registry.workflow("approval").start(5, id="a")
        for csrf in ("", "x", foreign):
            fields = {"csrf": csrf, "action": "pause", "on": '["approval", "a"]'}
            assert (await person.post("/dashboard/act", fields)).status == 403
        page = await person.get(at("approval", "a"))
        own = page.page.all("input", name="csrf")[0].attributes["value"]
        json = await person.post("/dashboard/act", {"csrf": own}, content_type="text/plain")
        assert json.status == 415
        large = await person.send("POST", "/dashboard/act", b"csrf=" + b"x" * (1024 * 1024))
        assert large.status == 413
        assert (await person.get("/dashboard/act?action=pause&on=x")).status == 405, "nothing changes by GET"
        assert await rows(shop) == []


async def test_every_answer_has_the_headers(shop, person):
    async with shop:
        await person.log_in()
        pages = ("executions", "nothing-here", "login", "static/hf.css", "static/none", "execution", "act")
        for answer in [await person.get(f"/dashboard/{page}") for page in pages]:
            policy = answer.header("content-security-policy")
            assert policy.startswith("default-src 'none'; ")
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.header("x-content-type-options") == "nosniff"
            assert answer.header("referrer-policy") == "same-origin"
            assert answer.header("cache-control") in {"no-store", "public, max-age=31536000, immutable"}
        assert (await person.get("/dashboard/executions")).header("cache-control") == "no-store"


@pytest.mark.parametrize("name", ["reader", "writer", "operator", "ann"])
async def test_buttons_and_actions_go_by_rights(shop, name):
    rights = set(RIGHTS.get(name, list(Right)))
    async with shop.worker():
        person = Person(shop, authenticate=tokens())
        await person.log_in(name)
        await shop.registry.workflow("approval").start(5, id="a")
        await asyncio.sleep(0)
        page = await person.get(at("approval", "a"))
        buttons = {each.attributes["value"] for each in page.main.all("button", name="action")}
        links = {each.text for each in page.main.all("a")}
        assert ("Signal…" in links) == ("write" in rights)
        assert ("terminate" in buttons) == ("control" in rights)
        csrf = page.page.all("input", name="csrf")[0].attributes["value"]
        fields = {"csrf": csrf, "action": "pause", "on": '["approval", "a"]', "back": "/dashboard/"}
        answer = await person.post("/dashboard/act", fields)
        assert answer.status == (303 if "control" in rights else 403)
        assert [(row.who, row.action, row.what) for row in await rows(shop)] == (
            [(name, "pause", "approval a")] if "control" in rights else []
        )


async def test_a_tenant_sees_and_changes_its_own_alone(shop):
    async with shop.worker():
        person = Person(shop, authenticate=tokens())
        await person.log_in("acme")
        workflow = shop.registry.workflow("approval")
        await workflow.start(1, id="acme/1")
        await workflow.start(2, id="other/1")
        for query in ("", "?id=other", "?id=acme%2F", "?workflow=approval"):
            listed = await person.get(f"/dashboard/executions{query}")
            assert "other/1" not in listed.text
        assert "acme/1" in (await person.get("/dashboard/executions")).text
        assert (await person.get(at("approval", "other/1"))).status == 403
        page = await person.get(at("approval", "acme/1"))
        csrf = page.page.all("input", name="csrf")[0].attributes["value"]
        fields = {"csrf": csrf, "action": "pause", "on": ['["approval", "other/1"]', '["approval", "acme/1"]']}
        answer = await person.post("/dashboard/act", fields)
        assert "1 of 2 done" in answer.text
        assert (await workflow.handle("other/1").status()).status != "PAUSED"
        assert (await workflow.handle("acme/1").status()).status == "PAUSED"
        fields = {"csrf": csrf, "action": "fork", "on": '["approval", "acme/1"]', "before": "", "new_id": "other/2"}
        assert (await person.post("/dashboard/act", fields)).status == 403
        for action in ("signal", "fork", "callback answer"):
            fields = {"csrf": csrf, "action": action, "on": '["approval", "other/1"]'}
            assert (await person.post("/dashboard/act", fields)).status == 403, "names of another's are not offered"
        assert TENANTS["acme"] == "acme/"


@pytest.mark.parametrize("path", ["", "dash", "/dash/", "//", "/v1/x", "/v1", "/a b", "/<x>", "/../x", "/."])
def test_a_path_that_cannot_be_one_is_refused(path):
    with pytest.raises(hf.ConfigurationError):
        hf.Dashboard(path=path)


async def test_no_address_leads_to_another_host(shop, person):
    async with shop:
        person.host = "elsewhere.example"
        await person.log_in()
        told = await person.get("/dashboard/overview/")
        assert told.status == 404
        assert told.header("location") is None


async def test_a_form_of_a_session_that_is_over_is_answered_by_a_page(shop, person):
    async with shop:
        told = await person.post("/dashboard/act", {"action": "pause"})
        assert told.status == 401
        assert "log in again" in told.main.text
        assert told.main.all("a")[0].attributes["href"] == "/dashboard/"
