"""``holdfast ask``: to whom the token of the database goes, and what it prints."""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

import pytest
from tests.strangers import STRANGER

from holdfast.token_file import token_of_database

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
NOBODY = "00000000:0000"
LINUX = Path("/proc/net/tcp").exists()


class Answering(BaseHTTPRequestHandler):
    """Answers with what it is told to, and remembers what came."""

    def do_GET(self) -> None:
        self.server.came.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.send_header("content-length", str(len(self.server.text)))
        self.end_headers()
        self.wfile.write(self.server.text)

    def log_message(self, *_: object) -> None: ...


class ByIPv6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@contextmanager
def listening(text="{}", host="127.0.0.1", kind: type[HTTPServer] = ThreadingHTTPServer):
    with kind((host, 0), Answering) as server:
        server.came, server.text = [], text.encode()
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def token(shop):
    """The shop's, as a server has made it."""
    return token_of_database(str(shop.path("shop.db").resolve()))


def asked(shop, server, *more, host="127.0.0.1"):
    return shop.invoke("ask", "/v1/x", "--at", f"http://{host}:{server.server_port}", *more)


def place(address, port):
    """As the kernel writes it on a machine whose numbers begin with their last byte."""
    raw = ip_address(address).packed
    return b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4)).hex().upper() + f":{port:04X}"


def row(local, uid, *, remote=NOBODY, state="0A"):
    return (
        f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid:5}        0 49 1 0 100 0 0 10 0\n"
    )


@pytest.fixture
def tables(monkeypatch, tmp_path):
    """Says what the kernel's tables hold."""

    def say(*texts):
        paths = [tmp_path / f"table{number}" for number, _ in enumerate(texts)]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(HEADING + text)
        monkeypatch.setattr("holdfast.cli.listener.TABLES", (*paths, tmp_path / "none"))
        monkeypatch.setattr("sys.byteorder", "little")

    return say


@pytest.mark.parametrize(
    ("host", "kind"),
    [("127.0.0.1", ThreadingHTTPServer), ("0.0.0.0", ThreadingHTTPServer), ("::", ByIPv6)],  # noqa: S104
)
def test_the_token_goes_to_what_this_user_serves(shop, token, host, kind):
    with listening(host=host, kind=kind) as server:
        result = asked(shop, server)
    assert (result.exit_code, server.came) == (0, [f"Bearer {token}"])


@pytest.mark.skipif(not LINUX or os.geteuid() != 0, reason="takes root to become somebody else")
def test_the_token_does_not_go_to_another_user(shop, token):
    os.seteuid(STRANGER)
    try:
        theirs = listening()
        server = theirs.__enter__()
    finally:
        os.seteuid(0)
    try:
        refusal = shop.refusal("ask", "/v1/x", "--at", f"http://127.0.0.1:{server.server_port}")
    finally:
        theirs.__exit__(None, None, None)
    assert f"uid {STRANGER}" in refusal["message"]
    assert not server.came


@pytest.mark.parametrize(
    "local",
    [("127.0.0.1",), ("0.0.0.0",), ("::",), ("::ffff:127.0.0.1",), ("::ffff:0.0.0.0",)],  # noqa: S104
)
def test_who_listens_is_told_and_what_to_do(shop, token, tables, local):
    with listening() as server:
        tables("", row(place(*local, server.server_port), STRANGER))
        refusal = shop.refusal("ask", "/v1/x", "--at", f"http://127.0.0.1:{server.server_port}")
    assert refusal["code"] == "configuration"
    assert f"(uid {STRANGER}) listens" in refusal["message"]
    assert "holdfast serve --port" in refusal["message"]
    assert token not in refusal["message"]
    assert not server.came


def test_who_has_accepted_and_no_longer_listens_gets_nothing(shop, token, tables, monkeypatch):
    """They make room for the server that is to be believed."""
    with listening() as server:
        mine = place("127.0.0.1", server.server_port)
        held = socket.create_connection(("127.0.0.1", server.server_port))
        monkeypatch.setattr("http.client.socket.create_connection", lambda *_: held)
        remote = place(*held.getsockname())
        tables(row(mine, os.geteuid()) + row(mine, STRANGER, remote=remote, state="01"))
        refusal = shop.refusal("ask", "/v1/x", "--at", f"http://127.0.0.1:{server.server_port}")
    assert f"uid {STRANGER}" in refusal["message"]
    assert not server.came


def test_where_nobody_is_seen_to_listen_nothing_is_sent(shop, token, tables):
    with listening() as server:
        tables(row(place("127.0.0.1", server.server_port), 0, state="01"))
        refusal = shop.refusal("ask", "/v1/x", "--at", f"http://127.0.0.1:{server.server_port}")
    assert "cannot be determined" in refusal["message"]
    assert not server.came


def test_a_table_that_cannot_be_read_is_told(shop, token, tables, tmp_path):
    with listening() as server:
        tables("")
        (tmp_path / "table0").unlink()
        (tmp_path / "table0").mkdir()
        refusal = shop.refusal("ask", "/v1/x", "--at", f"http://127.0.0.1:{server.server_port}")
    assert "table0" in refusal["message"]
    assert not server.came


@pytest.mark.parametrize("owner", [0, os.geteuid()])
def test_root_and_this_user_are_believed_whoever_listens_elsewhere(shop, token, tables, owner):
    """Others have the same port at another address, or have only connected."""
    with listening() as server:
        port = server.server_port
        own = place("127.0.0.1", port)
        others = row(place("127.0.0.2", port), STRANGER) + row(place("127.0.0.1", port + 1), STRANGER)
        others += row(own, STRANGER, remote=place("127.0.0.1", 1), state="01")
        tables(row(own, owner) + others, row(place("::", port), STRANGER) + row(place("::1", port), STRANGER))
        result = asked(shop, server)
    assert (result.exit_code, server.came) == (0, [f"Bearer {token}"])


def test_a_system_without_the_tables_is_not_in_the_way(shop, token, tables):
    tables()
    with listening() as server:
        assert asked(shop, server).exit_code == 0
    assert server.came == [f"Bearer {token}"]


def test_where_there_is_no_token_anybody_may_be_asked(shop, tables):
    with listening() as server:
        tables(row(place("127.0.0.1", server.server_port), STRANGER))
        assert asked(shop, server).exit_code == 0
    assert server.came == [None]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_answer_in_json_stays_json(shop, form):
    value = {"title": 'a\x9bb\x7f\u202e\U000e0001 "c"', "n": 1.0, "url": "redis://ann:hunter2@cache", "o": '?token=a"b'}
    with listening(json.dumps(value, ensure_ascii=False, indent=1)) as server:
        result = asked(shop, server, *form)
    assert json.loads(result.output) == value | {"url": "redis://ann:***@cache", "o": "?token=***"}
    assert result.output.removesuffix("\n").isprintable()


def test_an_answer_that_is_no_json_is_a_text_in_json(shop):
    with listening("one\x9b\ntwo") as server:
        assert json.loads(asked(shop, server, "--json").output) == "one\x9b\ntwo"
