"""The dead letters of a home's queues of SQS: looked at, sent back, and deleted.

SQS shows a message only by receiving it, which hides it for a while and, in a FIFO queue, the rest of its group behind
the first ten. So a look receives, and then shows again what it has received.

A letter is sent back by a message of ours and not by ``StartMessageMoveTask``, which moves all of a queue and makes
each a new message: "All redriven messages are considered new messages with a new messageID"
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html).
The copy carries the id by which the original was known, in the attribute ``holdfast-id``. Its deduplication id is the
letter's own message id, which no other message of the queue has had: with the original one SQS would accept the copy
and deliver nothing, if it comes within five minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.backends.aws import names
from holdfast.backends.aws.bellringer import BATCH
from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.tries import MISSING_QUEUE, code_of, refused_for
from holdfast.errors import StoreUnavailable
from holdfast.letters import ORIGINAL_ID, DeadLetter, Looked

HIDDEN_SECONDS: Final = 30
"""How long a letter stays hidden if the process dies that has received it."""

MOST_SEARCHED: Final = 1_000

MOST_ATTRIBUTES: Final = 10
"""A message has no more ("Amazon SQS message metadata", developer guide)."""

Received = dict[str, Any]


class SqsDeadLetters:
    """See ``DeadLetters``. An id is the queue's, a colon, and the id of the message. ``doorbells`` are those of all
    functions of the home.
    """

    def __init__(self, connection: Connection, prefix: str, doorbells: Sequence[str] = (names.DOORBELL,)) -> None:
        self._connection = connection
        self._prefix = prefix
        self._queues = (names.ORDERED, *doorbells)
        self._urls: dict[str, str] = {}

    def names(self, id: str, /) -> bool:
        """See ``DeadLetters.names``."""
        which, colon, _ = id.partition(":")
        return bool(colon) and which in self._queues

    async def look(self, limit: int, /) -> Looked:
        """See ``DeadLetters.look``."""
        letters: list[DeadLetter] = []
        notes: list[str] = []
        for which in self._queues:
            name = names.queue(self._prefix, which, dead=True)
            try:
                if not (count := await self._count(name)):
                    continue
                received = await self._receive(name, limit - len(letters))
                await self._show_again(name, received)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                if code_of(error) not in MISSING_QUEUE:
                    notes.append(f"the dead letters in {name} cannot be read: {refused_for(error)}")
                continue
            letters += [self._letter(which, each) for each in received[: limit - len(letters)]]
            if (more := count - len(received)) > 0:
                notes.append(
                    f"some {more:,} more are in {name}: of each group, SQS shows the first ten until these are gone"
                )
        return Looked(tuple(letters), tuple(notes))

    async def find(self, id: str, /) -> DeadLetter | None:
        """See ``DeadLetters.find``."""
        which, name, found, others = await self._take(id)
        await self._show_again(name, [*others, *found])
        return self._letter(which, found[0]) if found else None

    async def send_back(self, id: str, body: str | None, /) -> DeadLetter | None:
        """See ``DeadLetters.send_back``."""
        which, name, found, others = await self._take(id)
        try:
            if not found:
                return None
            message = found[0]
            url = await self._url(names.queue(self._prefix, which))
            await self._connection.send("SendMessage", {"QueueUrl": url, **_copy(message, body)})
            await self._delete(name, message)
        except Exception as error:
            others = [*others, *found]
            raise StoreUnavailable(
                f"{id} was not moved: {refused_for(error)}. If it was sent, its copy is known by its id"
            ) from error
        finally:
            await self._show_again(name, others)
        return self._letter(which, message)

    async def drop(self, id: str, /) -> DeadLetter | None:
        """See ``DeadLetters.drop``."""
        which, name, found, others = await self._take(id)
        try:
            if not found:
                return None
            await self._delete(name, found[0])
        except Exception as error:
            raise StoreUnavailable(f"{id} was not deleted: {refused_for(error)}") from error
        finally:
            await self._show_again(name, others)
        return self._letter(which, found[0])

    # ── Requests ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _url(self, name: str) -> str:
        if name not in self._urls:
            self._urls[name] = str((await self._connection.send("GetQueueUrl", {"QueueName": name}))["QueueUrl"])
        return self._urls[name]

    async def _count(self, name: str) -> int:
        counted = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        asked = {"QueueUrl": await self._url(name), "AttributeNames": list(counted)}
        answer = await self._connection.send("GetQueueAttributes", asked)
        return sum(int(answer["Attributes"].get(each, 0)) for each in counted)

    async def _receive(self, name: str, most: int, wanted: str | None = None) -> list[Received]:
        """Receive at most this number of messages, or up to the one that is wanted. They are hidden then."""
        asked = {
            "QueueUrl": await self._url(name),
            "MaxNumberOfMessages": BATCH,
            "VisibilityTimeout": HIDDEN_SECONDS,
            "WaitTimeSeconds": 1,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        }
        received: list[Received] = []
        try:
            while len(received) < most and not any(each["MessageId"] == wanted for each in received):
                answer = await self._connection.send("ReceiveMessage", asked)
                if not (messages := answer.get("Messages", ())):
                    break
                received += messages
        except BaseException:
            await self._show_again(name, received)
            raise
        return received

    async def _take(self, id: str) -> tuple[str, str, list[Received], list[Received]]:
        """The queue, the message that has this id, and others that were received with it. All of them are hidden."""
        which, _, message = id.partition(":")
        name = names.queue(self._prefix, which, dead=True)
        try:
            received = await self._receive(name, MOST_SEARCHED, message)
        except Exception as error:
            raise StoreUnavailable(f"the dead letters in {name} cannot be read: {refused_for(error)}") from error
        found = [each for each in received if each["MessageId"] == message]
        return which, name, found[:1], [each for each in received if each not in found[:1]]

    async def _show_again(self, name: str, received: Sequence[Received]) -> None:
        """Show again what was received. What cannot be shown now shows itself in a while."""
        for first in range(0, len(received), BATCH):
            entries = [
                {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"], "VisibilityTimeout": 0}
                for n, each in enumerate(received[first : first + BATCH])
            ]
            try:
                asked = {"QueueUrl": await self._url(name), "Entries": entries}
                await self._connection.send("ChangeMessageVisibilityBatch", asked)
            except Exception:  # noqa: BLE001 - a hint: it shows itself when the time is over
                return

    async def _delete(self, name: str, message: Received) -> None:
        receipt = {"QueueUrl": await self._url(name), "ReceiptHandle": message["ReceiptHandle"]}
        await self._connection.send("DeleteMessage", receipt)

    def _letter(self, which: str, message: Received) -> DeadLetter:
        attributes = message.get("Attributes", {})
        return DeadLetter(
            id=f"{which}:{message['MessageId']}",
            queue=names.queue(self._prefix, which),
            is_ordered=which == names.ORDERED,
            group=str(attributes.get("MessageGroupId", "")),
            body=str(message["Body"]),
            sent_at=int(attributes.get("SentTimestamp", 0)),
        )


def _copy(message: Received, body: str | None) -> dict[str, Any]:
    """The message that is sent for a letter."""
    system: dict[str, str] = message.get("Attributes", {})
    attributes = {
        name: {part: value for part, value in each.items() if part in {"DataType", "StringValue", "BinaryValue"}}
        for name, each in message.get("MessageAttributes", {}).items()
    }
    original = system.get("MessageDeduplicationId") or message["MessageId"]
    if ORIGINAL_ID not in attributes and len(attributes) < MOST_ATTRIBUTES:
        attributes[ORIGINAL_ID] = {"DataType": "String", "StringValue": original}
    copy: dict[str, Any] = {
        "MessageBody": message["Body"] if body is None else body,
        "MessageAttributes": attributes,
    }
    if group := system.get("MessageGroupId"):
        copy |= {"MessageGroupId": group, "MessageDeduplicationId": message["MessageId"]}
    if trace := system.get("AWSTraceHeader"):
        copy["MessageSystemAttributes"] = {"AWSTraceHeader": {"DataType": "String", "StringValue": trace}}
    return copy
