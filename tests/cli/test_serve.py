"""``holdfast serve``: what it refuses, and a real server on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
from tests.strangers import given_away

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


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_of_tokens_that_others_may_write_is_refused_by_name(shop, mode):
    shop.path("tokens").write_text(f"till {TOKEN}\n")
    shop.path("tokens").chmod(mode)
    message = shop.refusal("serve", "--tokens", "tokens")["message"]
    assert "tokens can be written by other users" in message
    assert "chmod go-w" in message


def test_a_pipe_is_no_file_of_tokens(shop):
    os.mkfifo(shop.path("tokens"), 0o600)
    result = shop.invoke("serve", "--tokens", "tokens")
    assert result.exit_code == 2
    assert "tokens cannot be read" in result.output


@pytest.mark.parametrize("theirs", ["tokens", "link"])
def test_a_file_of_tokens_of_another_user_is_refused_by_name(shop, monkeypatch, theirs):
    shop.path("tokens").write_text(f"till {TOKEN}\n")
    shop.path("link").symlink_to("tokens")
    given_away(shop.path(theirs), monkeypatch)
    message = shop.refusal("serve", "--tokens", theirs)["message"]
    assert theirs in message
    assert "of the user" in message or "belongs to the user" in message


@pytest.mark.parametrize("url", ["http://10.0.0.7:8080", "https://127.0.0.1:8080", "http://127.0.0.1.evil.example"])
def test_the_token_is_asked_with_on_this_machine_only(shop, url):
    assert "not on this machine" in shop.refusal("ask", "/v1/workflows", "--at", url)["message"]


def test_a_server_that_is_not_there_is_told(shop):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "holdfast serve" in shop.refusal("ask", "/v1/health", "--at", f"http://127.0.0.1:{port}")["message"]


class Hostile(BaseHTTPRequestHandler):
    """Answers with what a terminal would act on."""

    def do_GET(self) -> None:
        text = "one\x1b[2J\u202e\x9btwo".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None: ...


def test_an_answer_does_nothing_to_a_terminal(shop):
    with HTTPServer(("127.0.0.1", 0), Hostile) as server:
        Thread(target=server.handle_request, daemon=True).start()
        result = shop.invoke("ask", "/v1/x", "--at", f"http://127.0.0.1:{server.server_port}")
    assert result.output == "one\\x1b[2J\\u202e\\x9btwo\n"


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_is_served_is_told_without_the_password_of_its_home(shop, monkeypatch, form):
    async def opens(*_: object) -> None: ...

    def serve(*_: object, announce: Callable[[], None], **__: object) -> bool:
        announce()
        return True

    module = sys.modules["holdfast.cli.serving"]
    monkeypatch.setattr(module, "look_whether_it_opens", opens)
    monkeypatch.setattr(module, "_uvicorn_server", lambda: serve)
    home = "aws://shop?region=x&endpoint=http://ann:hunter2@127.0.0.1:9"
    result = shop.invoke("serve", "--home", home, "--port", "0", *form)
    assert "ann:***@127.0.0.1:9" in result.output + result.stderr
    assert "hunter2" not in result.output + result.stderr


@contextmanager
def served(shop, **environment):
    """What a server says that has started on a free port of loopback, with a worker; ended by its process id, in peace
    and without another word: an access log would hold the tokens of callbacks.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    command = [sys.executable, "-m", "holdfast.cli", "serve", "-a", "shop:app", "--port", "0", "--work", "--json"]
    with subprocess.Popen(
        command, cwd=shop.folder, env=inherited | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
            assert (said["event"], said["pid"]) == ("serving", server.pid)
            yield said
        finally:
            server.send_signal(signal.SIGTERM)
            out, err = server.communicate(timeout=PATIENCE_SECONDS)
    assert (out, err) == ("", "")


@pytest.mark.process
def test_the_command_line_finds_the_token_of_a_private_database(shop):
    """Started without tokens: who can read the file beside the database is let in."""
    with served(shop) as said:
        token = Path(said["token_file"]).read_text().split()[-1]
        assert Path(said["token_file"]).samefile(shop.path("shop.db-token"))
        assert ask(said["url"], "GET", "/v1/workflows", token=token)[0] == 200
        assert ask(said["url"], "GET", "/v1/workflows", token=WRONG)[0] == 401
        started = shop.invoke("ask", "/v1/workflows/checkout/a?wait=20s", "--data", '["tok", 5]', "--at", said["url"])
        assert json.loads(started.output)["result"] == {"payment": "pay-tok-5"}
        missing = shop.invoke("ask", "/v1/workflows/checkout/none", "--at", said["url"])
        assert missing.exit_code == 1
        assert "not_found" in missing.output


@pytest.mark.process
def test_a_server_serves_works_and_stops(shop):
    """Each caller may do what the line of its token says."""
    with served(shop, HOLDFAST_TOKENS=f"till {TOKEN}\ngrafana {'g' * 32} read\n") as said:
        status, answer = ask(said["url"], "POST", "/v1/workflows/checkout/a?wait=20s", ["tok", 5])
        assert (status, answer["result"]) == (200, {"payment": "pay-tok-5"})
        assert ask(said["url"], "GET", "/v1/workflows", token="g" * 32)[0] == 200
        assert ask(said["url"], "POST", "/v1/workflows/checkout/b", ["tok"], token="g" * 32)[0] == 403
        assert ask(said["url"], "GET", "/v1/workflows", token=WRONG)[0] == 401
        assert ask(said["url"], "POST", "/v1/callbacks/hf1.canary.x", token=WRONG)[1]["code"] == "invalid_token"


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
