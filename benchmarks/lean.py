"""A connection to DynamoDB that costs a tenth of botocore's, so that a machine can offer more than botocore could send.

It signs nothing, since emulators do not look; what botocore itself does is measured by everything else here.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.backends.aws.lean import decoded, refusal

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
        answer: dict[str, Any] = json.loads(reply.body, object_hook=decoded)
        if reply.status == OK:
            return answer
        raise Refused(refusal(reply.status, answer))

    def close(self) -> None:
        self._upstream.abort()
