"""What a queue brings is in no log: types and frames are enough to find a bug."""

from __future__ import annotations

import json
from typing import Any

import pytest

import holdfast as hf

CARD = "4111-1111-1111-1111"
FORGED = f"{CARD}\nERROR holdfast: all is well\x1b[2J\u202e"


def event_of(body: str, group: str | None = None) -> dict[str, Any]:
    attributes = {} if group is None else {"MessageGroupId": group}
    source = "arn:aws:sqs:eu-west-1:1:shop.fifo" if group else "arn:aws:sqs:eu-west-1:1:shop"
    record = {"messageId": "m-1", "eventSource": "aws:sqs", "eventSourceARN": source}
    return {"Records": [record | {"body": body, "attributes": attributes}]}


def shop() -> hf.App:
    app = hf.App("shop", home="memory://")

    class Till(hf.Actor, app=app):
        async def pay(self, card: str) -> None:
            try:
                raise LookupError(card)
            except LookupError as error:
                raise ValueError(f"declined: {card}") from error

    @app.workflow
    async def checkout(card: str) -> None: ...

    return app


BODIES = [
    (
        json.dumps({"holdfast": "call", "actor": "Till", "key": "k", "method": "pay", "args": [FORGED]}),
        None,
        "ValueError",
    ),
    (json.dumps({"actor": "Till", "method": "pay", "args": [FORGED]}), "k", "ValueError"),
    (json.dumps({"holdfast": "call", "actor": FORGED, "key": "k", "method": "pay"}), None, "UnknownName"),
    (json.dumps({"holdfast": "start", "workflow": FORGED}), None, "UnknownName"),
    (json.dumps({"holdfast": "start", "workflow": "checkout", "input": {FORGED: 1}}), None, "InvalidInput"),
    (FORGED, None, "ValidationError"),
]


@pytest.mark.parametrize(("body", "group", "name"), BODIES)
async def test_a_message_that_fails_leaves_types_and_frames_in_the_log(caplog, body, group, name):
    handler = shop().lambda_handler()
    answer = await handler.invoke(event_of(body, group))
    await handler.aclose()
    assert answer["batchItemFailures"]
    tried = group is not None and name == "ValueError"  # the actor has run, and tells of the attempt
    told = "failed, attempt 1 of 20" if tried else "was not handled"
    (line,) = [each.getMessage() for each in caplog.records if told in each.getMessage()]
    assert name in line
    assert CARD not in caplog.text and "all is well" not in caplog.text
    assert not set("\x1b\u202e") & set(caplog.text)
    assert ("holdfast/commands/" in line) == (name in {"ValueError", "InvalidInput"} and not tried)


async def test_the_id_of_a_message_cannot_forge_a_line(caplog):
    event, handler = event_of("{"), shop().lambda_handler()
    event["Records"][0]["messageId"] = FORGED
    answer = await handler.invoke(event)
    await handler.aclose()
    assert answer["batchItemFailures"] == [{"itemIdentifier": FORGED}]
    (line,) = [each.getMessage() for each in caplog.records if "was not handled" in each.getMessage()]
    assert "1111\\x0aERROR holdfast: all is well\\x1b[2J\\u202e was not handled" in line.splitlines()[0]


@pytest.mark.parametrize("group", [None, "k"])
async def test_a_message_whose_numbers_have_one_hash_is_refused_before_a_set_is_made(caplog, group):
    app, taken = hf.App("shop", home="memory://"), []

    class Till(hf.Actor, app=app):
        async def pay(self, cents: set[int]) -> None:
            taken.append(cents)

    for count, is_taken in ((1_000, False), (10, True)):
        numbers = [n * (2**61 - 1) for n in range(16, 16 + count)]
        body = {"actor": "Till", "method": "pay", "args": [numbers]}
        body |= {} if group else {"holdfast": "call", "key": "k"}
        handler = app.lambda_handler()
        answer = await handler.invoke(event_of(json.dumps(body), group))
        await handler.aclose()
        assert (bool(taken), not answer["batchItemFailures"]) == (is_taken, is_taken)
    assert "InvalidInput" in caplog.text


async def test_what_telemetry_logs_cannot_forge_a_line(caplog):
    shop().telemetry.emit("lease_lost", partition="a\nERROR b\x1b[31m\u202e", fence=1)
    assert caplog.messages == ["lease_lost partition=a\\x0aERROR b\\x1b[31m\\u202e fence=1"]
