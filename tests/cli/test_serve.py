"""``holdfast serve``: what it refuses, and a real server on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

TOKEN = "t" * 32
WRONG = "x" * 32
PATIENCE_SECONDS = 60


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "shop.example"])  # noqa: S104 - it is refused
def test_another_address_than_loopback_demands_tokens(shop, host, monkeypatch):
    monkeypatch.delenv("HOLDFAST_TOKENS", raising=False)
    refusal = shop.refusal("serve", "--host", host, "--port", "0")
    assert refusal["code"] == "configuration"
    assert "--tokens" in refusal["message"]


def test_a_home_that_cannot_be_opened_is_told_before_anything_is_served(shop):
    assert "nowhere://" in shop.refusal("serve", "--home", "nowhere://x", "--port", "0")["message"]


def test_a_file_of_tokens_without_tokens_is_refused(shop):
    shop.path("tokens").write_text("# nobody\n")
    assert "no token" in shop.refusal("serve", "--tokens", "tokens")["message"]


def test_without_uvicorn_it_says_what_to_install(shop, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "holdfast.http.uvicorn_server", raising=False)
    assert ".[server]" in shop.refusal("serve", "--port", "0")["message"]


def test_a_port_that_is_taken_is_told(shop):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}" in shop.refusal("serve", "--port", port)["message"]


@pytest.mark.process
def test_a_server_serves_works_and_stops(shop):
    """Started on a free port of loopback, with a worker and a token; ended by its process id."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    environment["HOLDFAST_TOKENS"] = f"till {TOKEN}\ngrafana {'g' * 32} read\n"
    command = [sys.executable, "-m", "holdfast.cli", "serve", "-a", "shop:app", "--port", "0", "--work", "--json"]
    with subprocess.Popen(
        command, cwd=shop.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
            assert (said["event"], said["pid"]) == ("serving", server.pid)
            status, answer = ask(said["url"], "POST", "/v1/workflows/checkout/a?wait=20s", ["tok", 5])
            assert (status, answer["result"]) == (200, {"payment": "pay-tok-5"})
            assert ask(said["url"], "GET", "/v1/workflows", token="g" * 32)[0] == 200
            assert ask(said["url"], "POST", "/v1/workflows/checkout/b", ["tok"], token="g" * 32)[0] == 403
            assert ask(said["url"], "GET", "/v1/workflows", token=WRONG)[0] == 401
            assert ask(said["url"], "POST", "/v1/callbacks/hf1.canary.x", token=WRONG)[1]["code"] == "invalid_token"
        finally:
            server.send_signal(signal.SIGTERM)
            out, err = server.communicate(timeout=PATIENCE_SECONDS)
    assert out == ""
    assert err == "", "no access log, which would hold the tokens of callbacks"


def ask(url, method, path, value=None, *, token=TOKEN):
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_SECONDS)
    try:
        body = None if value is None else json.dumps(value)
        connection.request(method, path, body=body, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()
