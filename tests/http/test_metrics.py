"""``GET /v1/metrics``, and the port of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from prometheus_client.parser import text_string_to_metric_families

import holdfast as hf
from holdfast.http.metrics_port import metrics_port

TOKEN = "0" * 32


async def test_the_route_answers_what_prometheus_reads(memory_shop):
    async with memory_shop.working() as api:
        await api.send("GET", "/v1/metrics")
        await api.post("/v1/workflows/checkout/a?wait=10s", ["visa"])
        response = await api.send("GET", "/v1/metrics")
    assert response.status == 200
    assert response.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    found = {family.name: family for family in text_string_to_metric_families(response.body.decode())}
    (ended,) = found["holdfast_executions_ended"].samples
    assert (ended.labels, ended.value) == ({"workflow": "checkout", "status": "COMPLETED"}, 1)
    assert "visa" not in response.body.decode()


async def test_a_tenant_is_refused(memory_shop):
    caller = hf.Caller("ann", frozenset({hf.Right.READ}), tenant="acme/")
    async with memory_shop.working(authenticate=lambda _request: caller) as api:
        response = await api.send("GET", "/v1/metrics")
    assert response.status == 403
    assert b"holdfast_" not in response.body


@contextlib.asynccontextmanager
async def port_of(app, authenticate=None):
    listener = socket.create_server(("127.0.0.1", 0))
    async with app, metrics_port(app, listener, authenticate):
        yield listener.getsockname()[1]


async def asked(port: int, *lines: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer.decode()


async def test_a_port_of_its_own_serves_metrics_alone(memory_shop):
    async with port_of(memory_shop.app) as port:
        told = await asked(port, "GET /metrics HTTP/1.1", f"Host: 127.0.0.1:{port}")
        head, _, body = told.partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 200 OK")
        assert "holdfast_running" in {family.name for family in text_string_to_metric_families(body)}
        for line in ("GET /v1/workflows HTTP/1.1", "POST /metrics HTTP/1.1", "GET /metrics/ HTTP/1.1"):
            assert (await asked(port, line, "Host: localhost")).startswith("HTTP/1.1 404"), line
        assert (await asked(port, "nonsense")).startswith("HTTP/1.1 400")
        assert await asked(port, "GET /metrics HTTP/1.1", f"X: {'x' * 20_000}") == "", "it is no request of a scraper"


async def test_a_page_of_another_site_reads_nothing_by_that_port(memory_shop):
    async with port_of(memory_shop.app) as port:
        rebound = await asked(port, "GET /metrics HTTP/1.1", "Host: evil.example")
        cross = await asked(port, "GET /metrics HTTP/1.1", "Host: localhost", "Origin: https://evil.example")
        proxied = await asked(port, "GET /metrics HTTP/1.1", "Host: a", "Host: localhost")
    assert all(each.startswith("HTTP/1.1 401") and "holdfast_" not in each for each in (rebound, cross, proxied))


async def test_with_tokens_the_port_asks_for_one(memory_shop):
    tokens = hf.BearerTokens({"grafana": TOKEN}, rights={"grafana": ["read"]})
    async with port_of(memory_shop.app, tokens) as port:
        unknown = await asked(port, "GET /metrics HTTP/1.1", "Host: localhost")
        known = await asked(port, "GET /metrics HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}")
    assert unknown.startswith("HTTP/1.1 401")
    assert known.startswith("HTTP/1.1 200")


async def test_the_port_closes_connections_that_wait_when_it_ends(memory_shop):
    async with port_of(memory_shop.app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTT")
        await writer.drain()
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionResetError):  # it may not have been accepted yet
            assert await reader.read() == b""
    writer.close()
