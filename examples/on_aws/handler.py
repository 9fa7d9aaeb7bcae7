"""What Lambda calls: for rings and messages of the queues, for sweeps, for commands, and for requests over HTTP.

Without the faults it would be the last line of ``app.lambda_handler(front)`` alone.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable
from typing import Any

from examples.on_aws.app import TOKEN_VARIABLE, app
from examples.on_aws.faults import busy, point, seen

import holdfast as hf
from holdfast.http.api import Options
from holdfast.http.lambda_events import Shape, shape_of, to_request, to_response
from holdfast.http.respond import respond

REDELIVER_EVERY = 5
"""Each fifth batch is handled twice, as if SQS had delivered it again."""

options = Options(authenticate=hf.BearerTokens({"till": os.environ[TOKEN_VARIABLE]}))
LOSE_EVERY = 9
"""Each ninth batch, if there is nothing but rings in it, is lost: the next sweep has to find what they were for."""

batches = itertools.count(1)


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
        number = next(batches)
        if number % LOSE_EVERY == 0 and all(is_ring(each["body"]) for each in event["Records"]):
            seen("batch of rings lost")
            return {"batchItemFailures": []}
        answer = answering(event, context)
        if number % REDELIVER_EVERY == 0:
            seen("batch handled twice")
            answer = answering(event, context)
        point("handled")
        return answer
