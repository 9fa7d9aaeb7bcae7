"""The doorbell and the ordered source, each with a queue for messages that could not be handled."""

from __future__ import annotations

from typing import Any, Final

from holdfast.backends.aws.names import DOORBELL, ORDERED, doorbell, queue
from holdfast.infra.intrinsics import Properties, Resources, arn, attribute, ref, resource
from holdfast.infra.options import Fabric

LONGEST_DAYS_SECONDS: Final = 14 * 86_400
"""The longest time that SQS keeps a message."""

RECEIVES: Final = 10
"""After this many receipts a message of a doorbell is moved to the dead letters. An ordered one is received whenever
one before it in its group fails: its number (``Fabric.ordered_receives``) is to be several times the attempts that an
actor makes (``ORDERED_RETRY``) before it parks the message."""


def which(fabric: Fabric) -> tuple[str, ...]:
    """The queues."""
    ordered = (ORDERED,) if fabric.ordered else ()
    return (DOORBELL, *ordered, *(doorbell(name) for name in fabric.functions))


def logical_id(name: str) -> str:
    """The name of a queue in the template.

    >>> logical_id("doorbell-pdf")
    'DoorbellPdf'
    """
    return "".join(part.title() for part in name.split("-"))


def queues(fabric: Fabric) -> Resources:
    """The queues, their dead letters, and the rule that nothing reaches them unencrypted."""
    made: Resources = {}
    for name in which(fabric):
        id = logical_id(name)
        kept = fabric.keep_data and name == ORDERED  # a lost wake-up is repaired, a lost message is not
        shared = _encryption(fabric) | (_ordering() if name == ORDERED else {})
        made[f"{id}Dead"] = resource(
            "AWS::SQS::Queue",
            {
                "QueueName": queue(fabric.prefix, name, dead=True),
                "MessageRetentionPeriod": LONGEST_DAYS_SECONDS,
                **shared,
            },
            kept=kept,
        )
        receives = fabric.ordered_receives if name == ORDERED else RECEIVES
        redrive = {"deadLetterTargetArn": attribute(f"{id}Dead", "Arn"), "maxReceiveCount": receives}
        made[id] = resource(
            "AWS::SQS::Queue",
            {
                "QueueName": queue(fabric.prefix, name),
                "MessageRetentionPeriod": LONGEST_DAYS_SECONDS,
                "VisibilityTimeout": _visibility_seconds(fabric, name),
                "RedrivePolicy": redrive,
                **shared,
            },
            kept=kept,
        )
        for each in (id, f"{id}Dead"):
            made[f"{each}Policy"] = _policy(fabric, name, each, queue_arn(fabric, name, dead=each != id))
    return made


def _visibility_seconds(fabric: Fabric, name: str) -> int:
    for function, options in fabric.made.items():
        if name == doorbell(function):
            return fabric.visibility_of(options.timeout_seconds)
    return fabric.visibility_seconds


def queue_arn(fabric: Fabric, name: str, *, dead: bool = False) -> dict[str, Any]:
    """A queue, for policies."""
    return arn("sqs", queue(fabric.prefix, name, dead=dead))


def _encryption(fabric: Fabric) -> Properties:
    return {"KmsMasterKeyId": fabric.key_arn} if fabric.key_arn else {"SqsManagedSseEnabled": True}


def _ordering() -> Properties:
    """Order within a group, which is an actor, and none between groups: so the queue scales with their number.

    Senders give each message an id of its own; equal content may be two messages.
    """
    return {
        "FifoQueue": True,
        "ContentBasedDeduplication": False,
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }


def _policy(fabric: Fabric, name: str, logical_id: str, queue: dict[str, Any]) -> dict[str, Any]:
    statements = [_refusal(queue)]
    if fabric.event_rules and name == DOORBELL:
        statements.append(_admission(fabric, queue))
    document = {"Version": "2012-10-17", "Statement": statements}
    return resource("AWS::SQS::QueuePolicy", {"Queues": [ref(logical_id)], "PolicyDocument": document})


def _admission(fabric: Fabric, queue: dict[str, Any]) -> dict[str, Any]:
    """EventBridge may send the events of our rules, and those that it cannot deliver."""
    rules = [attribute(f"EventRule{each.digest}", "Arn") for each in fabric.event_rules]
    return {
        "Sid": "TakeEventsOfRules",
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue,
        "Condition": {"ArnEquals": {"aws:SourceArn": rules}},
    }


def _refusal(queue: dict[str, Any]) -> dict[str, Any]:
    return {
        "Sid": "RefuseWhatIsNotEncryptedOnItsWay",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": queue,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
