"""JSON over HTTP between processes of one machine: a small server for the outside world, and a client for steps."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

ADDRESS: Final = "127.0.0.1"
ANSWER_SECONDS: Final = 5.0
"""The longest that a client waits for an answer. Steps have shorter time-outs of their own."""

Answer = tuple[int, dict[str, Any]]
Handle = Callable[[str, dict[str, Any]], Answer]


class HttpRefused(Exception):
    """The service answered with an error status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.reason}"


def post(url: str, data: dict[str, Any]) -> dict[str, Any]:
    """Send ``data`` and return the answer. Raises ``HttpRefused``, or ``OSError`` if there is none."""
    if not url.startswith(f"http://{ADDRESS}:"):
        raise ValueError(f"{url} is not on this machine")
    body = json.dumps(data).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - it was checked above
    try:
        with _opener.open(request, timeout=ANSWER_SECONDS) as response:
            found: dict[str, Any] = json.load(response)
            return found
    except urllib.error.HTTPError as error:
        with error:
            raise HttpRefused(error.code, json.load(error)["reason"]) from None


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without the proxies of the environment: nothing here leaves the machine."""


def serve(handle: Handle) -> None:
    """Answer POST requests with ``handle(path, data)``, each in a thread, until standard input ends.

    The only line on standard output is a JSON object with the service's ``url``.
    """
    server = _Server((ADDRESS, 0), _handler_of(handle))
    threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
    print(json.dumps({"url": f"http://{ADDRESS}:{server.server_address[1]}"}), flush=True)
    sys.stdin.buffer.read()
    server.shutdown()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore it: a client may be killed while it waits."""


def _handler_of(handle: Handle) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            status, answer = handle(self.path, json.loads(self.rfile.read(size)))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            """Quiet: requests carry cards and tokens."""

    return Handler
