"""Consumers are actors too, and nobody calls them: not by a queue, not directly, not over HTTP."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast as hf


@dataclass
class Paid:
    cents: int


def shop(handled: list[Paid]) -> hf.App:
    app = hf.App("shop", home="memory://")

    @app.consumer(Paid)
    async def book(event: Paid) -> None:
        handled.append(event)

    return app


ARGS = {"place": 0, "id": "x", "event": {"cents": 1_000_000}}


def batch(body: dict[str, Any], group: str | None) -> dict[str, Any]:
    attributes = {} if group is None else {"MessageGroupId": group}
    source = "arn:aws:sqs:eu-west-1:1:shop" + ("" if group is None else ".fifo")
    record = {"messageId": "m-1", "eventSource": "aws:sqs", "eventSourceARN": source, "body": json.dumps(body)}
    return {"Records": [record | {"attributes": attributes}]}


@pytest.mark.parametrize("command", ["call", "send"])
async def test_a_consumer_cannot_be_called_from_a_queue(command, caplog):
    handled: list[Paid] = []
    app = shop(handled)
    (hidden,) = app.registry.actors
    handler = app.lambda_handler()
    asked = {"holdfast": command, "actor": hidden, "key": "x", "method": "handle", "args": ARGS}
    ordered = {"actor": hidden, "method": "handle", "args": ARGS}
    for event in (batch(asked, None), batch(ordered, "x")):
        answer = await handler.invoke(event)
        assert answer["batchItemFailures"] == [{"itemIdentifier": "m-1"}]
    with pytest.raises(hf.UnknownName, match="no actor"):
        await handler.invoke(asked)
    await handler.aclose()
    assert handled == []
    assert caplog.text.count("UnknownName") == 2
