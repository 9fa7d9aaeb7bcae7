"""What Lambda calls: for rings and messages of the queues, for sweeps, for commands, and for requests over HTTP.

Without the faults it would be ``app.lambda_handler(http=...)`` alone.
"""

from __future__ import annotations

import os
from typing import Any

from examples.on_aws.app import TOKEN_VARIABLE, app
from examples.on_aws.faults import LOST, TWICE, busy, happens, point, seen

import holdfast as hf


def is_ring(body: str) -> bool:
    return '"ring"' in body[:30]


answering = app.lambda_handler(http=hf.BearerTokens({"till": os.environ[TOKEN_VARIABLE]}))


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
