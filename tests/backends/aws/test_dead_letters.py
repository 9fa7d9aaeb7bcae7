"""Dead letters of SQS, by a queue in this process that hides what it hands out, and can refuse or lose a request."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import Refusal, event_of

import holdfast as hf
from holdfast.backends.aws.dead_letters import SqsDeadLetters
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.letters import ORIGINAL_ID
from holdfast.ports import Home


class Sqs:
    """The dead letters of one home. ``refused`` says what the next requests of an operation meet."""

    def __init__(self) -> None:
        self.letters: dict[str, list[dict[str, Any]]] = {"ordered": [], "doorbell": []}
        self.hidden: set[str] = set()
        self.sent: list[dict[str, Any]] = []
        self.refused: dict[str, str] = {}

    def put(self, which: str, id: str, body: str, group: str = "", **attributes: str) -> None:
        system = {"SentTimestamp": "1000", **attributes}
        if group:
            system |= {"MessageGroupId": group, "MessageDeduplicationId": id}
        self.letters[which].append({"MessageId": id, "ReceiptHandle": id, "Body": body, "Attributes": system})

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if code := self.refused.get(operation):
            raise Refusal(code)
        url = parameters.get("QueueUrl", "")
        which = "ordered" if "ordered" in url else "doorbell"
        match operation:
            case "GetQueueUrl":
                return {"QueueUrl": parameters["QueueName"]}
            case "GetQueueAttributes":
                return {"Attributes": {"ApproximateNumberOfMessages": str(len(self.letters[which]))}}
            case "ReceiveMessage":
                return {"Messages": self._received(which)}
            case "ChangeMessageVisibilityBatch":
                self.hidden -= {each["ReceiptHandle"] for each in parameters["Entries"]}
            case "SendMessage":
                self.sent.append(parameters)
            case "DeleteMessage":
                kept = [each for each in self.letters[which] if each["ReceiptHandle"] != parameters["ReceiptHandle"]]
                self.letters[which] = kept
        return {}

    def _received(self, which: str) -> list[dict[str, Any]]:
        groups = {each["Attributes"].get("MessageGroupId") for each in self.letters[which] if self._hides(each)}
        found = [
            each
            for each in self.letters[which]
            if not self._hides(each) and each["Attributes"].get("MessageGroupId") not in groups - {None}
        ][:10]
        self.hidden |= {each["ReceiptHandle"] for each in found}
        return found

    def _hides(self, message: dict[str, Any]) -> bool:
        return message["ReceiptHandle"] in self.hidden

    def close(self) -> None:
        pass


def letters_of(sqs: Sqs) -> SqsDeadLetters:
    return SqsDeadLetters(sqs, "shop")


async def test_a_look_shows_the_first_ten_of_each_group_and_tells_of_the_others() -> None:
    sqs = Sqs()
    for number in range(12):
        sqs.put("ordered", f"a{number}", "{}", "a")
    sqs.put("ordered", "b", "{}", "b")
    looked = await letters_of(sqs).look(100)
    assert [each.id for each in looked.letters] == [*(f"ordered:a{number}" for number in range(10)), "ordered:b"]
    assert [note.partition(" are in ")[0] for note in looked.notes] == ["some 2 more"]
    assert not sqs.hidden
    assert len((await letters_of(sqs).look(4)).letters) == 4
    assert not sqs.hidden


async def test_a_queue_that_is_not_there_has_no_letters_and_one_that_refuses_is_told() -> None:
    sqs = Sqs()
    sqs.refused = {"GetQueueUrl": "QueueDoesNotExist"}
    assert await letters_of(sqs).look(10) == await letters_of(Sqs()).look(10)
    sqs.put("doorbell", "m", "{}")
    sqs.refused = {"ReceiveMessage": "AccessDenied"}
    (note,) = (await letters_of(sqs).look(10)).notes
    assert note == "the dead letters in shop-holdfast-doorbell-dead cannot be read: AccessDenied: AccessDenied"
    for act in (letters_of(sqs).find("doorbell:m"), letters_of(sqs).send_back("doorbell:m", None)):
        with pytest.raises(StoreUnavailable, match="cannot be read: AccessDenied"):
            await act


async def test_a_letter_that_was_sent_back_and_not_deleted_is_sent_under_the_same_ids_again() -> None:
    sqs = Sqs()
    sqs.put("ordered", "m1", '{"actor": "Till"}', "u1", MessageDeduplicationId="d1")
    sqs.refused = {"DeleteMessage": "InternalError"}
    with pytest.raises(StoreUnavailable, match="was not moved: InternalError"):
        await letters_of(sqs).send_back("ordered:m1", None)
    assert not sqs.hidden
    sqs.refused = {}
    assert await letters_of(sqs).send_back("ordered:m1", None) is not None
    assert not sqs.letters["ordered"]
    first, second = sqs.sent
    assert first == second
    assert (first["QueueUrl"], first["MessageGroupId"]) == ("shop-holdfast-ordered.fifo", "u1")
    assert first["MessageDeduplicationId"] == "m1", "SQS drops what has an id of the last five minutes"
    assert await letters_of(sqs).send_back("ordered:m1", None) is None


async def test_a_letter_that_is_not_sent_stays() -> None:
    sqs = Sqs()
    sqs.put("doorbell", "m1", "{}")
    sqs.refused = {"SendMessage": "AccessDenied"}
    with pytest.raises(StoreUnavailable):
        await letters_of(sqs).send_back("doorbell:m1", None)
    assert (sqs.sent, len(sqs.letters["doorbell"]), sqs.hidden) == ([], 1, set())


async def test_attributes_and_the_trace_go_along_and_the_first_id_stays() -> None:
    sqs = Sqs()
    sqs.put("doorbell", "m2", "{}", AWSTraceHeader="Root=1")
    given = {"kind": {"StringValue": "x", "DataType": "String", "StringListValues": []}}
    sqs.letters["doorbell"][0]["MessageAttributes"] = given | {ORIGINAL_ID: {"StringValue": "m1", "DataType": "String"}}
    await letters_of(sqs).send_back("doorbell:m2", None)
    (sent,) = sqs.sent
    assert sent["MessageAttributes"] == {
        "kind": {"StringValue": "x", "DataType": "String"},
        ORIGINAL_ID: {"StringValue": "m1", "DataType": "String"},
    }
    assert sent["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"] == "Root=1"


async def test_a_command_that_was_performed_before_it_became_a_dead_letter_is_not_performed_again() -> None:
    sqs, started, data = Sqs(), [], MemoryData()

    async def open_home() -> Home:
        home = open_memory_home(data=data, owner="one")
        return replace(home, dead_letters=letters_of(sqs))

    app = hf.App("shop", home=open_home)

    @app.workflow
    async def checkout(order: str) -> str:
        started.append(order)
        return order

    body = '{"holdfast": "start", "workflow": "checkout", "input": ["one"]}'
    handler = app.lambda_handler()
    await handler.invoke(event_of(("m1", body)))
    sqs.put("doorbell", "m1", body)
    assert await letters_of(sqs).send_back("doorbell:m1", None) is not None
    copy = event_of(("m2", sqs.sent[0]["MessageBody"]))
    attribute = sqs.sent[0]["MessageAttributes"][ORIGINAL_ID]
    copy["Records"][0]["messageAttributes"] = {ORIGINAL_ID: {"stringValue": attribute["StringValue"]}}
    assert await handler.invoke(copy) == {"batchItemFailures": []}
    assert started == ["one"]
    await handler.aclose()
