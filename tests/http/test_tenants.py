"""A caller that is confined to a tenant reaches what is the tenant's, by every route, and nothing else."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from tests.http.conftest import Api

import holdfast as hf
from holdfast.coordination.audit import rows_since
from holdfast.http.routes import ROUTES

ACME = hf.Caller("ann", tenant="acme/")
THEIRS = {
    "workflow": "approval",
    "id": "beta%2F1",
    "name": "asked",
    "actor": "Cart",
    "key": "beta%2Fcart",
    "method": "total",
    "event": "Placed",
    "place": "p",
    "operation": "o",
}
PLACED = [route for route in ROUTES if route.right and ("{id}" in route.path or "{key}" in route.path)]
UNPLACED = {
    "GET /v1/metrics",
    "GET /v1/workflows",
    "GET /v1/workflows/{workflow}",
    "POST /v1/workflows/{workflow}",
    "POST /v1/events/{event}",
    "GET /v1/actors",
    "GET /v1/actors/{actor}",
    "GET /v1/dlq",
    "GET /v1/dlq/{message}",
    "POST /v1/dlq/{message}/redrive",
    "DELETE /v1/dlq/{message}",
    "POST /",
}
WHOLE = {
    *(
        f"GET /v1/{name}"
        for name in ("overview", "outbox", "schedules", "leases", "workers", "audit", "queues", "limits")
    ),
    "GET /v1/queues/{queue}",
    *(f"POST /v1/queues/{{queue}}/{name}" for name in ("pause", "resume", "set", "reset", "purge")),
    "GET /v1/limits/{limit}",
    *(f"POST /v1/limits/{{limit}}/{name}" for name in ("set", "reset")),
}
"""Routes about the whole home: no tenant's caller may use them."""

"""Routes without an id in the path: each has a test of its own below, in ``test_repairs``, or in
``states/test_rights``."""


def test_no_other_route_is_without_an_id():
    assert {str(route) for route in ROUTES if route.right} - {str(route) for route in PLACED} == UNPLACED | WHOLE


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("route", PLACED, ids=str)
async def test_what_is_another_tenants_is_refused_whether_it_is_there_or_not(memory_shop, route, there):
    async with memory_shop.working() as api:
        if there:
            await api.post("/v1/workflows/approval/beta%2F1", [1])
            await api.post("/v1/actors/Cart/beta%2Fcart/add", ["lamp"])
        acme = Api(api.app, authenticate=lambda _request: ACME)
        response = await acme.send(route.method, route.path.format_map(THEIRS), b"[1]")
        told = response.body.decode()
        assert response.status == 403
        assert "beta" not in told and "confined" in told


@pytest.mark.parametrize("route", sorted(WHOLE))
async def test_what_is_about_the_whole_home_is_for_no_tenant(memory_shop, route):
    method, path = route.split()
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/approval/beta%2F1", [1])
        if "{" not in path:
            assert (await api.get(path))[0] == 200
        acme = Api(api.app, authenticate=lambda _request: ACME)
        response = await acme.send(method, path)
        assert response.status == 403 and "beta" not in response.body.decode()


@pytest.mark.parametrize("way", ["acme%2F..%2Fbeta", "acme%252F", "ACME%2F1", "%20acme%2F", "acme", "acme%EF%BC%8Fx"])
async def test_a_prefix_is_the_prefix_and_nothing_that_looks_like_it(memory_shop, way):
    async with memory_shop.working(authenticate=lambda _request: ACME) as api:
        status, _ = await api.get(f"/v1/workflows/approval/{way}")
        assert status == (404 if way == "acme%2F..%2Fbeta" else 403)


async def test_its_own_is_served(memory_shop):
    async with memory_shop.working(authenticate=lambda _request: ACME) as api:
        assert (await api.post("/v1/workflows/checkout/acme%2F1?wait=10s", ["tok"]))[1]["status"] == "COMPLETED"
        assert (await api.get("/v1/workflows/checkout/acme%2F1"))[0] == 200
        assert (await api.post("/v1/actors/Cart/acme%2Fc/add", ["lamp"]))[0] == 200
        assert (await api.get("/v1/actors/Cart/acme%2Fc/total"))[1] == {"result": 1}


async def test_ids_that_the_server_makes_begin_with_it_and_keys_must(memory_shop):
    async with memory_shop.working(authenticate=lambda _request: ACME) as api:
        _, made = await api.post("/v1/workflows/checkout", ["tok"])
        assert made["id"].startswith("acme/")
        assert (await api.post("/v1/workflows/checkout", ["tok"], idempotency_key="beta/1"))[0] == 403
        assert (await api.post("/v1/workflows/checkout", ["tok"], idempotency_key="acme/1"))[1]["id"] == "acme/1"


async def test_a_fork_stays_within(memory_shop):
    async with memory_shop.working(authenticate=lambda _request: ACME) as api:
        await api.post("/v1/workflows/checkout/acme%2F1?wait=10s", ["tok"])
        assert (await api.post("/v1/workflows/checkout/acme%2F1/fork", {"id": "beta/2"}))[0] == 403
        assert (await api.post("/v1/workflows/checkout/acme%2F1/fork", {"id": "acme/2"}))[0] in {200, 202}


async def test_a_caller_that_is_refused_leaves_nothing(memory_shop):
    async with memory_shop.working(authenticate=lambda _request: ACME) as api:
        await api.post("/v1/workflows/checkout/acme%2F1?wait=10s", ["tok"])
        runtime = api.app.runtime()
        for path, body in (("acme%2F1/fork", {"id": "beta/2"}), ("beta%2F1/retry", {}), ("beta%2F1/cancel", {})):
            assert (await api.post(f"/v1/workflows/checkout/{path}", body))[0] == 403
        assert await rows_since(runtime.home.store, runtime.clock, 0, 10) == []
        assert [each.id for each in (await api.app.executions("checkout")).executions] == ["acme/1"]
        assert (await api.post("/v1/workflows/checkout/acme%2F1/retry", {}))[0] == 409
        (row,) = await rows_since(runtime.home.store, runtime.clock, 0, 10)
        assert (row.action, row.outcome) == ("retry", "invalid_state"), "it may do this, and the status forbids it"


async def test_a_listing_has_its_own_alone_whatever_is_asked_for(shop):
    async with shop.working() as api:
        for id in ("acme%2F1", "beta%2F1", "acme%2F2", "acmeplus", "beta%2F2", "acme%2F3"):
            await api.post(f"/v1/workflows/checkout/{id}?wait=10s&tag=a=b", ["tok"])
        acme = Api(api.app, authenticate=lambda _request: ACME)
        for path in ("/v1/workflows", "/v1/workflows/checkout"):
            for query in ("", "&status=COMPLETED", "&tag=a=b"):
                found, cursor = [], ""
                while cursor is not None:
                    _, page = await acme.get(f"{path}?limit=1{query}{cursor and f'&after={cursor}'}")
                    found += [each["id"] for each in page["executions"]]
                    cursor = page["cursor"]
                    assert "beta" not in str(page)
                assert sorted(found) == ["acme/1", "acme/2", "acme/3"]
        _, page = await acme.get("/v1/workflows?root=checkout/beta%2F1")
        assert page["executions"] == []


async def test_cursors_tell_nothing_and_are_good_for_their_tenant_alone(shop):
    async with shop.working() as api:
        for id in ("acme%2F1", "beta%2F1", "beta%2F2", "acme%2F2", "acme%2F3"):
            await api.post(f"/v1/workflows/checkout/{id}?wait=10s", ["tok"])
        acme = Api(api.app, authenticate=lambda _request: ACME)
        (_, first), (_, everybodys) = [await each.get("/v1/workflows?limit=1") for each in (acme, api)]
        cursor = first["cursor"]
        assert len(cursor) >= 100, "neither a number nor a key, which are shorter"
        assert (await api.get(f"/v1/workflows?limit=1&after={cursor}"))[0] == 400
        for wrong in (everybodys["cursor"], "1", "é", cursor[:-2]):
            status, told = await acme.get(f"/v1/workflows?limit=1&after={quote(wrong)}")
            assert (status, told["code"]) == (400, "invalid_input")
        changed = ("B" if cursor[0] == "A" else "A") + cursor[1:]
        assert (await acme.get(f"/v1/workflows?limit=1&after={changed}"))[0] == 400
        (_, second) = await acme.get(f"/v1/workflows?limit=1&after={cursor}")
        assert [each["id"] for each in second["executions"]] == ["acme/2"]


async def test_an_event_is_published_under_an_id_of_its_own(memory_shop, eventually):
    async with memory_shop.working(authenticate=lambda _request: ACME) as api:
        assert (await api.post("/v1/events/Placed", {"order": "1"}, message_id="beta/1"))[0] == 403
        assert (await api.post("/v1/events/Placed", {"order": "1"}, message_id="acme/1"))[1]["id"] == "acme/1"
        assert (await api.post("/v1/events/Placed", {"order": "2"}))[1]["id"].startswith("acme/")
        await eventually(lambda: sorted(memory_shop.handled) == ["1", "2"])
