"""A client of DynamoDB as lean as the emulator allows: the same requests and answers, at a third of botocore's work.

For runs of hundreds of thousands of requests. It signs nothing, since DynamoDB Local only asks who calls; what botocore
itself does is tested by everything else here.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, ConnectionClosedError

HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=0",
}
OK = 200
IDLE_SECONDS = 5.0
"""The emulator closes what was not used for half a minute."""


class LeanClient:
    """One connection that stays open. Use it in one thread."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._used_at = 0.0
        self._connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=60)

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        operation = "".join(word.capitalize() for word in method.split("_"))
        return lambda **parameters: self._call(operation, parameters)

    def _call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(parameters, default=_encoded).encode()
        headers = HEADERS | {"X-Amz-Target": f"DynamoDB_20120810.{operation}"}
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self._connection.close()  # the server may just be about to; it opens again by itself
        try:
            self._connection.request("POST", "/", body, headers)
            response = self._connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read(), object_hook=decoded)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ConnectionClosedError(endpoint_url=self._endpoint) from error
        self._used_at = time.monotonic()
        if response.status == OK:
            return answer
        raise ClientError(refusal(response.status, answer), operation)


def _encoded(value: Any) -> str:
    return base64.b64encode(value).decode()


def refusal(status: int, answer: dict[str, Any]) -> dict[str, Any]:
    """A refusal as botocore shows it, from the answer on the wire."""
    told = {
        "Error": {
            "Code": answer.pop("__type").rpartition("#")[2],
            "Message": answer.pop("message", None) or answer.pop("Message", ""),
        },
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return told | answer


def decoded(value: dict[str, Any]) -> Any:
    """A value with bytes in place of their text on the wire."""
    binary = value.get("B")
    return {"B": base64.b64decode(binary)} if isinstance(binary, str) and len(value) == 1 else value
