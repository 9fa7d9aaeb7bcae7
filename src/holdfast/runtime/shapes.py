"""The events that AWS invokes a function with, recognised by their shape. An unknown event is an error, never a
success.

The shapes are those of "Using Lambda with Amazon SQS", "Using AWS Lambda with Amazon DynamoDB" and "Events and event
patterns in Amazon EventBridge" (developer and user guides).
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from msgspec import Raw, Struct

from holdfast.codec.collisions import MOST_ALIKE, numbers_collide
from holdfast.commands.arguments import NO_ARGUMENTS
from holdfast.errors import ConfigurationError, InvalidInput
from holdfast.items import HEAD
from holdfast.letters import ORIGINAL_ID
from holdfast.messaging.arrivals import IncomingEvent
from holdfast.runtime.lambda_table import Order, Sweep, order_of

CLOCKS: Final = frozenset({"aws.events", "aws.scheduler"})
"""The sources of EventBridge's own events, which only say that a schedule is due."""

DETAIL_TYPE_KEY: Final = "detail-type"
"""The key by which an event from a bus is recognised."""


class Message(Struct, frozen=True):
    """A message of a standard queue. Its body is decoded when it is handled. ``original_id`` is that of the dead letter
    whose copy it is.
    """

    id: str
    body: str
    original_id: str = ""

    @property
    def own_id(self) -> str:
        """The id by which a repeat is recognised."""
        return self.original_id or self.id


class Messages(Struct, frozen=True):
    """A batch from a standard queue: each message is acknowledged by itself."""

    messages: tuple[Message, ...]


class OrderedMessage(Struct, frozen=True, kw_only=True):
    """A message of a FIFO queue. ``group`` is the key of the actor that receives it.

    ``queue`` is the queue's ARN. ``deduplication_id`` is what the sender named the message by, ``sequence`` its number
    in the queue, ``sent_at`` when it was sent (milliseconds), ``receives`` how often it was received, and ``receipt``
    the handle of this time. Each is in the attributes that SQS has for a message
    (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html).
    """

    id: str
    group: str
    body: str
    queue: str = ""
    deduplication_id: str = ""
    sequence: str = ""
    sent_at: int = 0
    receives: int = 1
    receipt: str = ""


class Ordered(Struct, frozen=True):
    """A batch from a FIFO queue, in order. After a failure the rest of the group is not handled."""

    messages: tuple[OrderedMessage, ...]


class OrderedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an ordered message: a call of an actor's method. A repeat is recognised by ``id``, or else by the
    ``MessageDeduplicationId`` of the message.
    """

    actor: str
    method: str
    args: Raw = NO_ARGUMENTS
    id: str | None = None


class Changes(Struct, frozen=True):
    """Records of the table's stream, in their order: an entity, and whether there was something to do for it then."""

    changes: tuple[tuple[str, bool], ...]

    @property
    def unfinished(self) -> list[str]:
        """The entities for which there was something to do after the last of their changes."""
        return [partition for partition, waits in dict(self.changes).items() if waits]


class Direct(Struct, frozen=True):
    """A direct invocation: a command whose caller may wait for the answer."""

    command: Order


class FromBus(Struct, frozen=True):
    """An event from a bus, with which its rule invokes the function."""

    incoming: IncomingEvent


Work = Messages | Ordered | Changes | Direct | FromBus


class HasDetailType(Struct, frozen=True):
    """Whether a message has the key of an event from a bus. The value is ignored."""

    found: Raw = msgspec.field(name=DETAIL_TYPE_KEY, default=Raw(b""))


has_detail_type: Final = msgspec.json.Decoder(HasDetailType).decode
incoming_of: Final = msgspec.json.Decoder(IncomingEvent).decode
ordered_call_of: Final = msgspec.json.Decoder(OrderedCall).decode


SHOWN_CHARACTERS: Final = 200
"""How much of an event that is not understood is quoted in the error."""


def recognised(event: Any) -> Work:
    """The work that an event asks for. Raises ``InvalidInput`` for an unknown event, naming its keys, and
    ``ConfigurationError`` for an HTTP request, which a front would have taken.
    """
    try:
        return _recognised(event)
    except (AttributeError, KeyError, TypeError, UnicodeError, RecursionError) as error:
        told = f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS]
        raise InvalidInput(
            f"this event resembles one that this function knows, but has another form ({told})"
        ) from None


def _recognised(event: Any) -> Work:
    if isinstance(event, dict):
        known = cast("dict[str, Any]", event)
        if "holdfast" in known:
            return Direct(_command(known))
        if isinstance(known.get("Records"), list):
            return _batch(cast("list[dict[str, Any]]", known["Records"]))
        if known.get("source") in CLOCKS:
            return Direct(Sweep())
        if "requestContext" in known:
            raise ConfigurationError(
                "this is an HTTP request, and the function answers none, because nothing says who may call: write "
                "app.lambda_handler(http=hf.BearerTokens({...})), or http=hf.iam_caller behind AWS_IAM"
            )
        if DETAIL_TYPE_KEY in known:
            return FromBus(_incoming(msgspec.json.encode(known)))
        raise InvalidInput(
            f"this function knows no event with the keys {', '.join(sorted(map(str, known)))[:SHOWN_CHARACTERS]}"
        )
    raise InvalidInput(f"this function knows no event that is a {type(event).__name__}")


def message_of(body: str) -> Order | IncomingEvent:
    """What a message asks for: a command, or an event that a rule of a bus sent to the queue.

    Raises ``msgspec.DecodeError`` or ``InvalidInput``.
    """
    check_numbers(body)
    return _incoming(body.encode()) if has_detail_type(body).found else order_of(body)


def check_numbers(body: str) -> None:
    """Raise ``InvalidInput`` if a message holds many numbers with equal hashes: a set of them takes too long."""
    if numbers_collide(body.encode()):
        raise InvalidInput(f"the message holds over {MOST_ALIKE} numbers that have the hash of another one")


def _incoming(event: bytes) -> IncomingEvent:
    try:
        return incoming_of(event)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"this event has a {DETAIL_TYPE_KEY}, but is not an event of EventBridge: {error}") from None


def _command(event: dict[str, Any]) -> Order:
    try:
        return order_of(msgspec.json.encode(event))
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the command {repr(event['holdfast'])[:60]} is not understood: {error}") from None


def _batch(records: list[dict[str, Any]]) -> Work:
    sources = {str(record.get("eventSource")) for record in records}
    if sources <= {"aws:sqs"}:
        arns = {str(record.get("eventSourceARN", "")) for record in records}
        if any(arn.endswith(".fifo") for arn in arns):
            return Ordered(tuple(_ordered(record) for record in records))
        return Messages(tuple(_message(record) for record in records))
    if sources == {"aws:dynamodb"}:
        return Changes(tuple(_changed(each) for each in records if each["dynamodb"]["Keys"]["s"]["S"] == HEAD))
    raise InvalidInput(f"this function knows no records from {', '.join(sorted(sources))}")


def _message(record: dict[str, Any]) -> Message:
    return Message(str(record["messageId"]), str(record.get("body", "")), _original_id(record))


def _original_id(record: dict[str, Any]) -> str:
    """The id of the dead letter that a message is the copy of."""
    return str(record.get("messageAttributes", {}).get(ORIGINAL_ID, {}).get("stringValue") or "")


def _ordered(record: dict[str, Any]) -> OrderedMessage:
    attributes = record.get("attributes", {})
    group = attributes.get("MessageGroupId")
    if not group:
        raise InvalidInput(f"message {record.get('messageId')} comes from a FIFO queue and names no MessageGroupId")
    return OrderedMessage(
        id=str(record["messageId"]),
        group=str(group),
        body=str(record.get("body", "")),
        queue=str(record.get("eventSourceARN", "")),
        deduplication_id=_original_id(record) or str(attributes.get("MessageDeduplicationId", "")),
        sequence=_digits(attributes.get("SequenceNumber")),
        sent_at=int(_digits(attributes.get("SentTimestamp")) or 0),
        receives=int(_digits(attributes.get("ApproximateReceiveCount")) or 1),
        receipt=str(record.get("receiptHandle", "")),
    )


def _digits(attribute: Any) -> str:
    """A number that SQS writes as text; empty if there is none."""
    text = str(attribute or "")
    return text if text.isascii() and text.isdecimal() else ""


def _changed(record: dict[str, Any]) -> tuple[str, bool]:
    """The entity that a record of the stream is about, and whether its head is due since then: it has ``w``, which its
    owner takes away with what it was for.
    """
    partition = str(record["dynamodb"]["Keys"]["p"]["S"])
    return partition, "w" in record["dynamodb"].get("NewImage", {})
