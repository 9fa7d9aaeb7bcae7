"""``http:invoke``: what is sent where, and where nothing is sent."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import holdfast as hf
from holdfast.asl import connections
from holdfast.asl.connections import Connection

ARN = "arn:aws:events:us-east-1:000000000000:connection/billing/0f1e"


@pytest.fixture
def api():
    """A server on loopback, and the requests that it has got."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("content-length", 0))
            seen.append((self.command, self.path, dict(self.headers), self.rfile.read(length).decode()))
            status = 302 if "moved" in self.path else 404 if "missing" in self.path else 200
            body = b'{"ok": [1, 2]}' if status == 200 else b"not here"
            self.send_response(status)
            if status == 302:
                self.send_header("location", "http://169.254.169.254/latest/meta-data")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    for method in ("GET", "POST"):
        setattr(Handler, f"do_{method}", Handler.answer)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
        server.shutdown()


def machine(app, connection, **arguments):
    definition = {
        "StartAt": "Call",
        "States": {
            "Call": {
                "Type": "Task",
                "Resource": "arn:aws:states:::http:invoke",
                "Parameters": {"Authentication": {"ConnectionArn": ARN}, **arguments},
                "End": True,
            }
        },
    }
    return app.state_machine("m", definition, http={"billing": connection})


async def failed(machine):
    with pytest.raises(hf.ExecutionFailed) as told:
        await (await machine.start({}, id="e"))
    assert isinstance(told.value.__cause__, hf.asl.Error)
    return told.value.__cause__


async def test_a_request_is_sent_with_the_headers_of_its_connection(memory_world, api):
    url, seen = api
    app = memory_world.app()
    called = machine(
        app,
        Connection(url, {"authorization": "Bearer secret"}, private=True),
        ApiEndpoint=f"{url}/bills",
        Method="POST",
        QueryParameters={"a": ["1", "2"]},
        Headers={"x-own": "yes", "Authorization": "Bearer mine", "Host": "evil.example"},
        RequestBody={"cents": 500},
    )
    async with app.worker():
        told = await (await called.start({}, id="e"))
    ((method, path, headers, body),) = seen
    assert (method, path, json.loads(body)) == ("POST", "/v1/bills?a=1&a=2", {"cents": 500})
    sent = {name.lower(): value for name, value in headers.items()}
    assert (sent["x-own"], sent["authorization"], sent["content-type"]) == ("yes", "Bearer secret", "application/json")
    assert sent["host"].startswith("127.0.0.1") and len(sent["idempotency-key"]) == 40
    assert (told["StatusCode"], told["StatusText"], told["ResponseBody"]) == (200, "OK", {"ok": [1, 2]})


@pytest.mark.parametrize(("path", "error"), [("missing", "404"), ("moved", "302")])
async def test_another_status_fails_the_state_and_no_redirect_is_followed(memory_world, api, path, error):
    url, seen = api
    app = memory_world.app()
    called = machine(app, Connection(url, private=True), ApiEndpoint=f"{url}/{path}", Method="GET")
    async with app.worker():
        told = await failed(called)
    assert (told.error, told.cause, len(seen)) == (f"States.Http.StatusCode.{error}", "not here", 1)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://169.254.169.254/v1",
        "{url}/../admin",
        "{url}/%2e%2e/admin",
        "{root}/v10",
        "http://x@{host}/v1",
        "{url}?a=b",
    ],
)
async def test_an_endpoint_that_does_not_lie_below_the_connection_is_refused(memory_world, api, endpoint):
    url, seen = api
    root = url.removesuffix("/v1")
    app = memory_world.app()
    filled = endpoint.format(url=url, root=root, host=root.removeprefix("http://"))
    called = machine(app, Connection(url, private=True), ApiEndpoint=filled, Method="GET")
    async with app.worker():
        told = await failed(called)
    assert (told.error, seen) == ("States.Http.Socket", [])


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "192.168.1.1", "::1", "fd00::1"])
async def test_an_address_of_a_private_network_is_refused_whatever_its_name_is(memory_world, monkeypatch, address):
    asked = []

    def resolve(host, port, **_):
        asked.append(host)
        return [(0, 0, 0, "", (address, port))]

    monkeypatch.setattr(connections.socket, "getaddrinfo", resolve)
    app = memory_world.app()
    called = machine(app, Connection("https://api.example"), ApiEndpoint="https://api.example/x", Method="GET")
    async with app.worker():
        told = await failed(called)
    assert told.error == "States.Http.Socket" and "private network" in told.cause
    assert asked == ["api.example"]


async def test_a_connection_that_the_app_does_not_name_is_refused(memory_world):
    app = memory_world.app()
    definition = {
        "StartAt": "Call",
        "States": {
            "Call": {
                "Type": "Task",
                "Resource": "arn:aws:states:::http:invoke",
                "Parameters": {
                    "Authentication": {"ConnectionArn": "other"},
                    "ApiEndpoint": "https://api.example/x",
                    "Method": "GET",
                },
                "End": True,
            }
        },
    }
    called = app.state_machine("m", definition, http={"billing": Connection("https://api.example")})
    async with app.worker():
        told = await failed(called)
    assert "no connection is called 'other'" in told.cause


def test_without_a_connection_nothing_is_called(memory_world):
    app = memory_world.app()
    definition = {
        "StartAt": "C",
        "States": {"C": {"Type": "Task", "Resource": "arn:aws:states:::http:invoke", "End": True}},
    }
    with pytest.raises(hf.ConfigurationError, match="nothing is mapped"):
        app.state_machine("m", definition)


@pytest.mark.parametrize(
    "url", ["http://api.example", "ftp://api.example", "https://", "https://a@b.example", "https://x/?a"]
)
def test_a_connection_is_to_an_https_url(url):
    with pytest.raises(hf.ConfigurationError, match="a connection is to an https URL"):
        Connection(url)
