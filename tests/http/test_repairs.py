"""Operators over HTTP: what they see of actors and parked messages, and how they repair them, on every world."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from tests.http.conftest import Api

import holdfast as hf
from holdfast.coordination.audit import rows_since

ACME = hf.Caller("ann", tenant="acme/")
PASSWORD, TOKEN = "hunter2", f"hf1.abc.{'0' * 64}"


class Declared(Exception):
    pass


class Shelf:
    """An app whose actors stop at messages until they are repaired."""

    def __init__(self, app: hf.App) -> None:
        self.app = app
        self.broken = True
        shelf, once = self, hf.Retry(max_attempts=1)

        class Cart(hf.Actor, app=app, retry=once, raises=(Declared,)):
            items: list[str] = hf.field(default_factory=list)
            password: hf.Secret = hf.field(default_factory=lambda: hf.Secret(PASSWORD))

            async def add(self, sku: str, note: str = "") -> int:
                if shelf.broken and sku != "fine":
                    raise (Declared if sku == "declared" else ValueError)(f"{sku} {PASSWORD}")
                self.items = [*self.items, sku]
                return len(self.items)

        class Till(hf.Actor, app=app, retry=once, poison="halt"):
            cents: int = 0

            async def pay(self, cents: int) -> int:
                if shelf.broken:
                    raise ValueError("stuck")
                self.cents += cents
                return self.cents


@pytest.fixture
def shelf(world):
    return Shelf(world.app())


@pytest.fixture
def memory_shelf(memory_world):
    return Shelf(memory_world.app())


def api_of(shelf, caller="tester"):
    return Api(shelf.app, authenticate=lambda _request: caller)


async def parked_by(api, eventually, *keys, sku="lamp"):
    """Park a message for each key; answers them in the order they were sent."""
    for key in keys:
        assert (await api.post(f"/v1/actors/Cart/{quote(key, safe='')}/add/send", {"sku": sku, "note": TOKEN}))[
            0
        ] == 202

    async def all_of_them():
        messages = (await api.get("/v1/dlq"))[1]["messages"]
        return messages if len(messages) == len(keys) else None

    return await eventually(all_of_them)


async def test_actors_are_listed_without_their_states(shelf):
    async with shelf.app.worker():
        api = api_of(shelf)
        for key in ("u1", "u2", "u3"):
            await api.post(f"/v1/actors/Cart/{key}/add", ["fine"])
        await api.post("/v1/actors/Cart/u3/add", ["fine"])
        found, cursor = [], ""
        while cursor is not None:
            status, page = await api.get(f"/v1/actors/Cart?limit=2{cursor and f'&after={cursor}'}")
            assert status == 200
            found += page["actors"]
            cursor = page["cursor"]
        assert sorted(each["key"] for each in found) == ["u1", "u2", "u3"]
        assert {"state", "owner"}.isdisjoint(found[0])
        assert len((await api.get("/v1/actors"))[1]["actors"]) == 3
        assert (await api.get("/v1/actors?status=HALTED"))[1]["actors"] == []
        for path, wrong in (("/v1/actors?status=GONE", 400), ("/v1/actors?limit=0", 400), ("/v1/actors?after=x", 400),
                            ("/v1/actors/None", 404), ("/v1/actors/!shop.bill", 404)):  # fmt: skip
            assert (await api.get(path))[0] == wrong


async def test_an_actor_is_shown_with_its_messages_but_no_secret_no_token_and_no_undeclared_words(shelf, eventually):
    async with shelf.app.worker():
        api = api_of(shelf)
        await api.post("/v1/actors/Cart/u1/add", ["fine"])
        await parked_by(api, eventually, "u1")
        await api.post("/v1/actors/Cart/u1/add/send?delay=1h", ["fine"])
        status, told = await api.get("/v1/actors/Cart/u1")
        assert (status, told["key"], told["state"]) == (200, "u1", {"items": ["fine"], "password": "***"})
        ((waiting,), (parked,)) = told["waiting"], told["parked"]
        assert (waiting["method"], parked["args"]["sku"], parked["error"]) == ("add", "lamp", "ValueError")
        assert PASSWORD not in str(told) and TOKEN not in str(told) and "traceback" not in str(told)
        assert (await api.get("/v1/actors/Cart/none"))[0] == 404


async def test_no_more_messages_are_shown_than_asked_for(memory_shelf, eventually):
    async with memory_shelf.app.worker():
        api = api_of(memory_shelf)
        await parked_by(api, eventually, *["u1"] * 3)
        for _ in range(3):
            await api.post("/v1/actors/Cart/u1/add/send?delay=1h", ["fine"])
        _, told = await api.get("/v1/actors/Cart/u1?limit=2")
        assert (len(told["waiting"]), len(told["parked"])) == (2, 2)
        assert (await api.get("/v1/actors/Cart/u1?limit=0"))[0] == 400
        assert (await api.get("/v1/actors/Cart/u1?limit=1001"))[0] == 400


async def test_an_actor_is_deleted(shelf):
    async with shelf.app.worker():
        api = api_of(shelf)
        await api.post("/v1/actors/Cart/u1/add", ["fine"])
        assert await api.delete("/v1/actors/Cart/u1") == (200, {"actor": "Cart", "key": "u1", "action": "delete"})
        assert (await api.get("/v1/actors/Cart"))[1]["actors"] == []
        assert (await api.delete("/v1/actors/Cart/none"))[0] == 404
        assert (await api.delete("/v1/actors/None/none"))[0] == 404


async def test_a_deletion_that_nobody_does_is_waited_for_as_long_as_asked(memory_shelf):
    async with memory_shelf.app.worker():
        await api_of(memory_shelf).post("/v1/actors/Cart/u1/add", ["fine"])
    async with memory_shelf.app:
        status, problem = await api_of(memory_shelf).delete("/v1/actors/Cart/u1?wait=50ms")
        assert (status, problem["code"]) in {(504, "wait_timeout"), (504, "call_timeout")}


async def test_a_parked_message_is_put_back_or_dropped(shelf, eventually):
    async with shelf.app.worker():
        api = api_of(shelf)
        first, second, third, fourth = await parked_by(api, eventually, "u1", "u1", "u1", "u1")
        shelf.broken = False
        _, shown = await api.get(f"/v1/dlq/{first['id']}")
        assert (shown["actor"], shown["key"], shown["args"]["sku"]) == ("Cart", "u1", "lamp")
        assert "args" not in first and TOKEN not in str(shown)
        answer = await api.post(f"/v1/dlq/{first['id']}/redrive")
        assert answer == (200, {"id": first["id"], "actor": "Cart", "key": "u1", "action": "redrive"})
        assert (await api.delete(f"/v1/dlq/{second['id']}"))[1]["action"] == "discard"
        place = quote(third["place"], safe="")
        answer = await api.post(f"/v1/actors/Cart/u1/parked/{place}/unpark", {"args": ["desk"]})
        assert answer == (200, {"actor": "Cart", "key": "u1", "action": "unpark", "place": third["place"]})
        assert (await api.delete(f"/v1/actors/Cart/u1/parked/{quote(fourth['place'], safe='')}"))[0] == 200
        assert (await api.get("/v1/dlq"))[1] == {"messages": [], "cursor": None}

        async def both():
            return (await api.get("/v1/actors/Cart/u1"))[1]["state"]["items"] == ["lamp", "desk"]

        await eventually(both)
        for method, path in (("GET", ""), ("POST", "/redrive"), ("DELETE", "")):
            assert (await api.delete(f"/v1/dlq/{first['id']}") if method == "DELETE" else
                    await api.post(f"/v1/dlq/{first['id']}{path}") if method == "POST" else
                    await api.get(f"/v1/dlq/{first['id']}"))[0] == 404  # fmt: skip
        assert (await api.delete(f"/v1/actors/Cart/u1/parked/{place}"))[0] == 404


@pytest.mark.parametrize("body", [{"args": [7]}, {"arguments": []}, [], "x"])
async def test_what_does_not_fit_is_refused_and_the_message_stays(memory_shelf, eventually, body):
    async with memory_shelf.app.worker():
        api = api_of(memory_shelf)
        (parked,) = await parked_by(api, eventually, "u1")
        place = quote(parked["place"], safe="")
        for path in (f"/v1/dlq/{parked['id']}/redrive", f"/v1/actors/Cart/u1/parked/{place}/unpark"):
            status, problem = await api.post(path, body)
            assert (status, problem["code"]) == (400, "invalid_input")
        assert len((await api.get("/v1/dlq"))[1]["messages"]) == 1


async def test_an_actor_that_has_halted_goes_on(shelf, eventually):
    async with shelf.app.worker():
        api = api_of(shelf)
        for key in ("t1", "t2"):
            await api.post(f"/v1/actors/Till/{key}/pay/send", [5])

        async def halted():
            return len((await api.get("/v1/actors/Till?status=HALTED"))[1]["actors"]) == 2

        await eventually(halted)
        shelf.broken = False
        told = await api.post("/v1/actors/Till/t1/halted/resume")
        assert told == (200, {"actor": "Till", "key": "t1", "action": "resume"})
        assert (await api.post("/v1/actors/Till/t2/halted/park"))[1]["action"] == "park"
        assert (await api.post("/v1/actors/Till/t1/pay", [1])) == (200, {"result": 6})
        assert (await api.post("/v1/actors/Till/t2/pay", [1])) == (200, {"result": 1})
        assert (await api.post("/v1/actors/Till/t1/halted/resume"))[0] == 409
        assert (await api.post("/v1/actors/Till/none/halted/park"))[0] == 404


async def test_only_a_declared_error_is_told_in_its_own_words(memory_shelf, eventually):
    async with memory_shelf.app.worker():
        api = api_of(memory_shelf)
        (parked,) = await parked_by(api, eventually, "u1", sku="declared")
        assert parked["error"] == f"Declared: declared {PASSWORD}"


async def test_what_is_changed_is_in_the_audit_and_what_is_looked_at_is_not(memory_shelf, eventually):
    async with memory_shelf.app.worker():
        api = api_of(memory_shelf)
        (parked,) = await parked_by(api, eventually, "u1")
        for path in ("/v1/actors", "/v1/actors/Cart", "/v1/actors/Cart/u1", "/v1/dlq", f"/v1/dlq/{parked['id']}"):
            assert (await api.get(path))[0] == 200
        runtime = api.app.runtime()
        assert await rows_since(runtime.home.store, runtime.clock, 0, 10) == []
        await api.post(f"/v1/dlq/{parked['id']}/redrive", {"args": ["fine"]})
        await api.post("/v1/actors/Cart/u1/halted/resume")
        rows = await rows_since(runtime.home.store, runtime.clock, 0, 10)
        assert {(row.action, row.what, row.outcome) for row in rows} == {
            ("dlq redrive", parked["id"], "done"),
            ("actor resume", "Cart u1", "invalid_state"),
        }


async def test_a_tenant_sees_and_repairs_its_own_alone(shelf, eventually):
    async with shelf.app.worker():
        api, acme = api_of(shelf), api_of(shelf, ACME)
        messages = await parked_by(api, eventually, "acme/1", "beta/1", "acmeplus", "acme/2")
        own = {each["id"] for each in messages if each["key"].startswith("acme/")}
        for path in ("/v1/actors", "/v1/actors/Cart"):
            found, cursor = [], ""
            while cursor is not None:
                _, page = await acme.get(f"{path}?limit=1{cursor and f'&after={cursor}'}")
                found += [each["key"] for each in page["actors"]]
                cursor = page["cursor"]
            assert sorted(found) == ["acme/1", "acme/2"]
        assert {each["id"] for each in (await acme.get("/v1/dlq"))[1]["messages"]} == own
        for each in messages:
            paths = (("GET", f"/v1/dlq/{each['id']}"), ("POST", f"/v1/dlq/{each['id']}/redrive"),
                     ("DELETE", f"/v1/dlq/{each['id']}"))  # fmt: skip
            if each["id"] in own:
                assert (await acme.get(paths[0][1]))[0] == 200
                continue
            for method, path in paths:
                theirs, absent = [
                    await acme.send(method, path.replace(each["id"], id)) for id in (each["id"], "0" * len(each["id"]))
                ]
                told = [json.loads(one.body)["detail"].replace(each["id"], "0" * len(each["id"]))
                        for one in (theirs, absent)]  # fmt: skip
                assert (theirs.status, told[0]) == (404, told[1]), "it is as if it were not there"
        assert len((await api.get("/v1/dlq"))[1]["messages"]) == 4


@pytest.mark.parametrize("length", [501, 3_000])
async def test_ids_are_bounded(memory_shelf, length):
    async with memory_shelf.app.worker():
        api, long = api_of(memory_shelf), "k" * length
        for method, path in (("GET", f"/v1/actors/Cart/{long}"), ("DELETE", f"/v1/actors/Cart/{long}"),
                             ("GET", f"/v1/dlq/{long}"), ("DELETE", f"/v1/actors/Cart/k/parked/{long}"),
                             ("POST", f"/v1/actors/Cart/{long}/halted/park")):  # fmt: skip
            response = await api.send(method, path)
            assert (response.status, json.loads(response.body)["code"]) == (400, "invalid_input")
