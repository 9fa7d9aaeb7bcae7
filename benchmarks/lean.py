"""A connection to DynamoDB that costs a tenth of botocore's, so that a machine can offer more than botocore could send.

It signs nothing, since emulators do not look; what botocore itself does is measured by everything else here.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec

from holdfast.testing.hostile.upstream import TARGET, Upstream

OK = 200


class Refused(Exception):
    """A refusal, with what botocore's errors have."""

    def __init__(self, response: dict[str, Any]) -> None:
        super().__init__(response["Error"])
        self.response = response


class LeanConnection:
    """Sends each request once."""

    def __init__(self, endpoint: str) -> None:
        self._upstream = Upstream(endpoint)

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        reply = await self._upstream.send(TARGET + operation, msgspec.json.encode(parameters))
        answer: dict[str, Any] = json.loads(reply.body, object_hook=_decoded)
        if reply.status == OK:
            return answer
        told = {
            "Error": {
                "Code": answer.pop("__type").rpartition("#")[2],
                "Message": answer.pop("message", None) or answer.pop("Message", ""),
            },
            "ResponseMetadata": {"HTTPStatusCode": reply.status},
        }
        raise Refused(told | answer)

    def close(self) -> None:
        self._upstream.abort()


def _decoded(value: dict[str, Any]) -> Any:
    binary = value.get("B")
    return {"B": base64.b64decode(binary)} if isinstance(binary, str) and len(value) == 1 else value
