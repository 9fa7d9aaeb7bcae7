"""What is wrong with a request is said with a status, a stable code, and nothing that callers must not know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.http.conftest import Api, Shop, read

import holdfast as hf
from holdfast.errors import Refused, StoreUnavailable, StoreUnusable
from holdfast.http.problems import problem_of
from holdfast.http.respond import respond
from holdfast.workflows.handle import Handle

BAD = [
    # method, path, body, status, code, what is told
    ("GET", "/", b"", 404, "no_route", "nothing"),
    ("GET", "/v2/health", b"", 404, "no_route", "nothing"),
    ("GET", "v1/health", b"", 404, "no_route", "nothing"),
    ("GET", "/v1/workflows//x", b"", 404, "no_route", "nothing"),
    ("GET", "/v1/workflows/checkout/%FF", b"", 404, "no_route", "nothing"),
    ("PUT", "/v1/workflows/checkout/a", b"", 405, "method_not_allowed", "GET"),
    ("OPTIONS", "/v1/health", b"", 405, "method_not_allowed", "GET"),
    ("POST", "/v1/workflows/nope/a", b"[]", 404, "unknown_name", "checkout"),
    ("GET", "/v1/workflows/nope/a", b"", 404, "unknown_name", "checkout"),
    ("GET", "/v1/workflows/nope", b"", 404, "unknown_name", "checkout"),
    ("GET", "/v1/workflows/checkout/nope", b"", 404, "not_found", "'nope'"),
    ("GET", "/v1/workflows/checkout/nope?wait=10s", b"", 404, "not_found", "'nope'"),
    ("GET", "/v1/workflows/checkout/nope/history", b"", 404, "not_found", "'nope'"),
    ("GET", "/v1/workflows/checkout/nope/queries/x", b"", 404, "not_found", "'nope'"),
    ("POST", "/v1/workflows/checkout/nope/cancel", b"", 404, "not_found", "'nope'"),
    ("POST", "/v1/workflows/checkout/nope/terminate", b"", 404, "not_found", "'nope'"),
    ("POST", "/v1/workflows/checkout/nope/pause", b"", 404, "not_found", "'nope'"),
    ("POST", "/v1/workflows/checkout/nope/signals/x", b"1", 404, "not_found", "'nope'"),
    ("POST", "/v1/workflows/checkout/a%00b", b'["tok"]', 400, "invalid_input", "printable"),
    ("POST", f"/v1/workflows/checkout/{'x' * 501}", b'["tok"]', 400, "invalid_input", "500"),
    ("POST", "/v1/workflows/checkout/a", b"", 400, "invalid_input", "card"),
    ("POST", "/v1/workflows/checkout/a", b"{", 400, "invalid_input", "not JSON"),
    ("POST", "/v1/workflows/checkout/a", b"\xff\xfe", 400, "invalid_input", "not JSON"),
    ("POST", "/v1/workflows/checkout/a", b'{"card": 7}', 400, "invalid_input", "'card'"),
    ("POST", "/v1/workflows/checkout/a", b'["tok", "secret-5"]', 400, "invalid_input", "'cents'"),
    ("POST", "/v1/workflows/checkout/a", b'{"card": "x", "extra": 1}', 400, "invalid_input", "'extra'"),
    ("POST", "/v1/workflows/checkout/a", b"[" * 100_000, 400, "serialization", "64 levels"),
    ("POST", "/v1/workflows/checkout/a?wiat=1s", b'["tok"]', 400, "invalid_input", "wait, timeout, tag"),
    ("POST", "/v1/workflows/checkout/a?wait=soon", b'["tok"]', 400, "invalid_input", "'soon'"),
    ("POST", "/v1/workflows/checkout/a?wait=-1s", b'["tok"]', 400, "invalid_input", "duration"),
    ("POST", "/v1/workflows/checkout/a?wait=1s&wait=2s", b'["tok"]', 400, "invalid_input", "2 times"),
    ("POST", "/v1/workflows/checkout/a?timeout=x", b'["tok"]', 400, "invalid_input", "'x'"),
    ("POST", "/v1/workflows/checkout/a?tag=x", b'["tok"]', 400, "invalid_input", "key=value"),
    ("POST", "/v1/workflows/checkout/a?wait=%FF", b'["tok"]', 400, "invalid_input", "query"),
    ("POST", "/v1/workflows/checkout/a?" + "tag=a=b&" * 200, b'["tok"]', 400, "invalid_input", "query"),
    ("GET", "/v1/workflows?limit=x", b"", 400, "invalid_input", "number"),
    ("GET", "/v1/workflows?limit=0", b"", 400, "invalid_input", "must be"),
    ("GET", "/v1/workflows?limit=1000000", b"", 400, "invalid_input", "must be"),
    ("GET", "/v1/workflows?status=DONE", b"", 400, "invalid_input", "COMPLETED"),
    ("GET", "/v1/workflows?since=yesterday", b"", 400, "invalid_input", "moment"),
    ("GET", "/v1/workflows?since=2026-01-01T00:00:00", b"", 400, "invalid_input", "time zone"),
    ("POST", "/v1/workflows/approval/there/cancel", b'{"why": "x"}', 400, "invalid_input", "why"),
    ("POST", "/v1/workflows/approval/there/cancel", b"[]", 400, "invalid_input", "body"),
    ("POST", "/v1/workflows/approval/there/signals/x", b"nan", 400, "invalid_input", "not JSON"),
    ("POST", "/v1/actors/Nope/k/add", b"[]", 404, "unknown_name", "Cart"),
    ("POST", "/v1/actors/!shop!bill/k/handle", b"[]", 404, "unknown_name", "!shop!bill"),
    ("POST", "/v1/actors/Cart/k/nope", b"[]", 404, "unknown_name", "add"),
    ("POST", "/v1/actors/Cart/k/__init__", b"[]", 404, "unknown_name", "add"),
    ("POST", "/v1/actors/Cart/%07/add", b'["x"]', 400, "invalid_input", "key"),
    ("POST", "/v1/actors/Cart/k/add", b"[1]", 400, "invalid_input", "'sku'"),
    ("POST", "/v1/actors/Cart/k/total/send", b"", 400, "invalid_input", "only reads"),
    ("POST", "/v1/actors/Cart/k/add/send?delay=x", b'["x"]', 400, "invalid_input", "'x'"),
    ("GET", "/v1/actors/Cart/k/total?args=x", b"", 400, "invalid_input", "not JSON"),
    ("GET", "/v1/actors/Cart/k/requests/%07", b"", 400, "invalid_input", "request_id"),
    ("GET", "/v1/actors/Cart/k/requests/r", b"", 404, "not_found", "'k'"),
    ("POST", "/v1/events/Nope", b"{}", 404, "unknown_name", "Placed"),
    ("POST", "/v1/events/Placed", b'{"order": 1}', 400, "invalid_input", ".order"),
    ("POST", "/v1/events/Placed", b"", 400, "invalid_input", "order"),
    ("POST", "/v1/events/Placed", b"[" * 1000, 400, "invalid_input", "expected object"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code", "told"), BAD)
async def test_a_bad_request_is_told_what_is_wrong(memory_shop, method, path, body, status, code, told):
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/approval/there", [1])
        answered, problem = read(await api.send(method, path, body))
        assert (answered, problem["code"]) == (status, code), problem
        assert told in problem["detail"]
        assert "secret-5" not in problem["detail"]
        assert memory_shop.runs == []


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("/v1/workflows/checkout", "idempotency-key"),
        ("/v1/actors/Cart/k/add", "request-id"),
        ("/v1/workflows/approval/there/signals/x", "message-id"),
        ("/v1/events/Placed", "message-id"),
    ],
)
async def test_an_id_in_a_header_is_one_proper_id(memory_shop, path, header):
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/approval/there", [1])
        body = b'{"order": "x"}' if "events" in path else b'["x"]'
        for values in (("a", "b"), ("x" * 600,), ("",), ("a\tb",)):
            if "signals" in path and len(values) == 1:
                continue  # any text will do
            request = hf.Request(method="POST", path=path, headers=tuple((header, each) for each in values), body=body)
            status, problem = read(await respond(api.app, request, api.options))
            assert (status, problem["code"]) == (400, "invalid_input"), values
        assert memory_shop.runs == []


@pytest.mark.parametrize(
    ("limits", "request_", "status", "code"),
    [
        ({"body_bytes": 7}, {"body": b'["tok"] '}, 413, "payload_too_large"),
        ({"headers": 1}, {"headers": (("a", "b"), ("c", "d"))}, 431, "headers_too_large"),
        ({"headers_bytes": 3}, {"headers": (("ab", "cd"),)}, 431, "headers_too_large"),
        ({"path_bytes": 40}, {"query": "tag=" + "x" * 40}, 414, "path_too_long"),
        ({}, {"headers": (("content-encoding", "gzip"),)}, 415, "compressed_body"),
    ],
)
async def test_a_request_over_a_limit_is_refused(memory_shop, limits, request_, status, code):
    async with memory_shop.working(limits=hf.HttpLimits(**limits)) as api:
        request = hf.Request(**({"method": "POST", "path": "/v1/workflows/checkout/a", "body": b'["tok"]'} | request_))
        answered, problem = read(await respond(api.app, request, api.options))
        assert (answered, problem["code"]) == (status, code)


async def test_a_body_with_two_lengths_is_refused(memory_shop):
    async with memory_shop.working() as api:
        headers = (("content-length", "7"), ("transfer-encoding", "chunked"))
        request = hf.Request(method="POST", path="/v1/workflows/checkout/a", headers=headers, body=b'["tok"]')
        assert read(await respond(api.app, request, api.options))[0] == 400
        assert memory_shop.runs == []


async def test_a_request_at_a_limit_is_served(memory_shop):
    limits = hf.HttpLimits(body_bytes=7, path_bytes=24, headers=0, headers_bytes=0)
    async with memory_shop.working(limits=limits) as api:
        assert (await api.send("POST", "/v1/workflows/checkout/a", b'["tok"]')).status == 202


async def test_an_input_over_the_apps_limit_is_too_large(memory_world):
    shop = Shop(memory_world.app(limit_bytes=100))
    async with shop.working() as api:
        long = "x" * 200
        for path, value in (
            ("/v1/workflows/checkout/a", [long]),
            ("/v1/actors/Cart/k/add", [long]),
            ("/v1/actors/Cart/k/add/send", [long]),
            ("/v1/events/Placed", {"order": long}),
        ):
            status, problem = await api.post(path, value)
            assert (status, problem["code"]) == (413, "payload_too_large"), path


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (StoreUnavailable("no answer from /var/lib/shop.db"), 503, "does not answer"),
        (StoreUnusable("/var/lib/shop.db is full"), 500, "log of the server"),
        (Refused(0, None), 500, "log of the server"),
        (hf.ConfigurationError("sqlite:////var/lib/shop.db"), 500, "log says more"),
        (hf.DuplicateName("/var/lib/shop.py:3"), 500, "log says more"),
        (hf.NondeterminismError("asks for a, the journal holds b"), 500, "asks for a"),
    ],
)
def test_an_error_of_the_server_names_none_of_its_files(error, status, told):
    response = problem_of(error).response()
    problem = json.loads(response.body)
    assert (response.status, problem["code"]) == (status, error.code)
    assert told in problem["detail"]
    assert "/var/lib" not in response.body.decode()
    assert (response.header("retry-after") is not None) == (status == 503)


async def test_a_store_that_does_not_answer_is_503(memory_shop, monkeypatch):
    async with memory_shop.working() as api:

        async def silent(*_: object) -> None:
            raise StoreUnavailable("no answer from table-7")

        monkeypatch.setattr(Handle, "history", silent)
        status, problem = await api.get("/v1/workflows/checkout/a/history")
        assert (status, problem["code"]) == (503, "store_unavailable")
        assert "table-7" not in str(problem)


async def test_a_bug_is_told_to_the_log_without_what_the_request_held(memory_shop, errors_expected, monkeypatch):
    async with memory_shop.working() as api:

        async def buggy(event: Any, _id: str | None) -> None:
            raise KeyError(event.order)

        monkeypatch.setattr(memory_shop.app.outbox, "publish", buggy)
        status, problem = await api.post("/v1/events/Placed", {"order": "canary"})
        assert (status, problem["code"]) == (500, "internal")
        assert "canary" not in str(problem)
        assert "POST /v1/events/{event} failed with KeyError" in errors_expected.text
        assert "canary" not in errors_expected.text


async def test_an_app_that_is_not_open_is_the_servers_fault(memory_shop, errors_expected):
    api = Api(memory_shop.app)
    status, problem = await api.get("/v1/health")
    assert (status, problem["code"]) == (500, "configuration")


async def test_every_response_says_that_it_is_private_and_no_page(memory_shop):
    async with memory_shop.working() as api:
        for method, path in (("GET", "/v1/health"), ("GET", "/nope"), ("POST", "/v1/workflows/checkout")):
            response = await api.send(method, path)
            assert response.header("cache-control") == "no-store"
            assert response.header("x-content-type-options") == "nosniff"
            assert response.header("content-length") == str(len(response.body))
