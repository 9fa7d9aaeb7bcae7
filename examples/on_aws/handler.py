"""What Lambda calls: for rings and messages of the queues, for sweeps, for commands, and for requests over HTTP.

Without the faults it would be the last line of ``app.lambda_handler(front)`` alone.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any

from examples.on_aws.app import TOKEN_VARIABLE, app
from examples.on_aws.faults import LOST, TWICE, busy, happens, point, seen

import holdfast as hf
from holdfast.http.api import Options
from holdfast.http.lambda_events import Shape, shape_of, to_request, to_response
from holdfast.http.respond import respond

options = Options(authenticate=hf.BearerTokens({"till": os.environ[TOKEN_VARIABLE]}))


async def serve(event: Any, shape: Shape) -> Any:
    request = to_request(event)
    assert request is not None
    return to_response(await respond(app, request, options), shape)


def front(event: Any) -> Awaitable[Any] | None:
    """Answers requests of the function URL."""
    shape = shape_of(event)
    return None if shape is None else serve(event, shape)


def is_ring(body: str) -> bool:
    return '"ring"' in body[:30]


answering = app.lambda_handler(front)


def handler(event: Any, context: Any) -> Any:
    """One invocation."""
    with busy():
        if "Records" not in event:
            return answering(event, context)
        again = sum(int(each["attributes"]["ApproximateReceiveCount"]) > 1 for each in event["Records"])
        for _ in range(again):
            seen("message came again")
        point("received")
        if all(is_ring(each["body"]) for each in event["Records"]) and happens(LOST):
            return {"batchItemFailures": []}
        answer = answering(event, context)
        if happens(TWICE):
            answer = answering(event, context)
        point("handled")
        return answer
