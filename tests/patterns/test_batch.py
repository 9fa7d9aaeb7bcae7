"""Batches of SQS messages: only those that failed come again, and FIFO groups keep their order."""

from __future__ import annotations

import asyncio
import json

import pytest

import holdfast as hf

STANDARD = "arn:aws:sqs:eu-west-1:123456789012:orders"
FIFO = STANDARD + ".fifo"


def record(id, group=None, arn=STANDARD, **body):
    attributes = {} if group is None else {"MessageGroupId": group}
    return {"messageId": id, "eventSourceARN": arn, "attributes": attributes, "body": json.dumps(body)}


def failures(response):
    return [each["itemIdentifier"] for each in response["batchItemFailures"]]


def run(records, bad=()):
    batch, seen = hf.SqsBatch({"Records": records}), []
    for each in batch:
        with batch.attempt(each):
            seen.append(each["messageId"])
            if each["messageId"] in bad:
                raise OSError(each["messageId"])
    return batch, seen


def test_when_all_went_well_nothing_comes_again():
    batch, seen = run([record("a"), record("b")])
    assert batch.response() == {"batchItemFailures": []} and seen == ["a", "b"] and batch.errors == {}


def test_only_what_failed_comes_again():
    batch, seen = run([record("a"), record("b"), record("c")], bad={"b"})
    assert batch.response() == {"batchItemFailures": [{"itemIdentifier": "b"}]} and seen == ["a", "b", "c"]
    assert str(batch.errors["b"]) == "b"


def test_after_a_failure_the_rest_of_its_group_comes_again_in_order():
    records = [record(f"{group}{n}", group, FIFO) for n in (1, 2, 3) for group in "xy"]
    batch, seen = run(records, bad={"x2"})
    assert seen == ["x1", "y1", "x2", "y2", "y3"]
    assert failures(batch.response()) == ["x2", "x3"] and batch.errors["x3"] is None


def test_groups_of_a_standard_queue_keep_no_order():
    batch, seen = run([record("a", "g"), record("b", "g")], bad={"a"})
    assert seen == ["a", "b"] and failures(batch.response()) == ["a"]


def test_what_was_never_handled_comes_again():
    batch = hf.SqsBatch({"Records": [record("a"), record("b"), record("c")]})
    for each in batch:
        if each["messageId"] == "b":
            break
        with batch.attempt(each):
            pass
    assert failures(batch.response()) == ["b", "c"]


def test_what_is_no_error_of_a_message_ends_the_batch():
    batch = hf.SqsBatch({"Records": [record("a")]})
    (each,) = batch
    with pytest.raises(KeyboardInterrupt), batch.attempt(each):
        raise KeyboardInterrupt
    assert failures(batch.response()) == ["a"]


def test_a_message_is_handled_once_and_only_if_it_is_of_the_batch():
    batch = hf.SqsBatch({"Records": [record("a")]})
    (each,) = batch
    with batch.attempt(each):
        pass
    for other in (each, record("z")):
        with pytest.raises(hf.InvalidState), batch.attempt(other):
            raise AssertionError("ran")


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"Records": None},
        {"Records": {}},
        {"Records": ["a"]},
        {"Records": [{"body": "x"}]},
        {"Records": [{"kinesis": {"sequenceNumber": "1"}}]},
        {"detail": {}},
    ],
    ids=str,
)
def test_events_of_another_shape_are_refused(event):
    with pytest.raises(hf.InvalidInput):
        hf.SqsBatch(event)


def test_a_fifo_message_without_its_group_is_refused():
    batch = hf.SqsBatch({"Records": [record("a", None, FIFO)]})
    with pytest.raises(hf.InvalidInput, match="MessageGroupId"):
        list(batch)


async def test_with_idempotent_handlers_a_batch_that_comes_again_repeats_nothing(memory_world):
    app = memory_world.app()
    runs, broken = [], {"b"}

    @app.idempotent(key="record.messageId")
    async def handle(record: dict[str, object]) -> None:
        runs.append(record["messageId"])
        if record["messageId"] in broken:
            raise OSError("the line is dead")

    async def function(event):
        batch = hf.SqsBatch(event)

        async def one(each):
            with batch.attempt(each):
                await handle(each)

        await asyncio.gather(*map(one, batch))
        return batch.response()

    event = {"Records": [record("a"), record("b")]}
    async with app:
        assert failures(await function(event)) == ["b"]
        broken.clear()
        assert failures(await function(event)) == []  # Lambda sends all again if the function itself has died
    assert runs == ["a", "b", "b"]
