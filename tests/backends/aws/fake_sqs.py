"""As much of SQS as a function needs to ring: an HTTP server that keeps what it is sent ("SendMessageBatch", API
reference of Amazon SQS, JSON protocol).
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class FakeSqs:
    """One queue, whatever it is called."""

    def __init__(self) -> None:
        self._sent: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def taken(self) -> list[dict[str, Any]]:
        """What was sent since the last time."""
        taken, self._sent = self._sent, []
        return taken

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                match self.headers["x-amz-target"]:
                    case "AmazonSQS.GetQueueUrl":
                        answer: dict[str, Any] = {"QueueUrl": f"{fake.endpoint}/0/{asked['QueueName']}"}
                    case "AmazonSQS.SendMessageBatch":
                        fake._sent += [json.loads(each["MessageBody"]) for each in asked["Entries"]]
                        answer = {"Successful": [_accepted(each) for each in asked["Entries"]], "Failed": []}
                    case other:
                        raise AssertionError(f"nobody expected {other}")
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/x-amz-json-1.0")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _accepted(entry: dict[str, Any]) -> dict[str, str]:
    digest = hashlib.md5(entry["MessageBody"].encode(), usedforsecurity=False).hexdigest()  # botocore may compare it
    return {"Id": entry["Id"], "MessageId": entry["Id"], "MD5OfMessageBody": digest}
