"""Settings of the storage, read back: expiry, recovery, encryption."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from holdfast.backends.aws.names import DOORBELL, ORDERED, queue
from holdfast.backends.aws.table import TTL_ATTRIBUTE
from holdfast.verify.bench import Bench
from holdfast.verify.finding import Finding, differences

EXPIRY: Final = "expiry"
RECOVERY: Final = "recovery"
ENCRYPTION: Final = "encryption"

ON: Final = frozenset({"ENABLED", "ENABLING"})
ENCRYPTED: Final = frozenset({"AES256", "aws:kms", "aws:kms:dsse"})


async def expiry(bench: Bench) -> Finding:
    """Whether TTL is on, for the attribute that the code writes."""
    answer = await bench.cloud.send("dynamodb", "DescribeTimeToLive", TableName=bench.table)
    there = answer["TimeToLiveDescription"]
    return differences(EXPIRY, _of_expiry(there), told=f"TTL is on, for the attribute {TTL_ATTRIBUTE}")


def _of_expiry(there: dict[str, Any]) -> Iterator[str]:
    if there["TimeToLiveStatus"] not in ON:
        yield f"TTL is {there['TimeToLiveStatus']}: nothing that expires is deleted"
    elif there.get("AttributeName") != TTL_ATTRIBUTE:
        yield f"TTL reads the attribute {there.get('AttributeName')}, and the code writes {TTL_ATTRIBUTE}"


async def recovery(bench: Bench) -> Finding:
    """Whether point-in-time recovery is on."""
    answer = await bench.cloud.send("dynamodb", "DescribeContinuousBackups", TableName=bench.table)
    there = answer["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    status = there.get("PointInTimeRecoveryStatus", "DISABLED")
    wrong = [] if status in ON else [f"point-in-time recovery is {status}"]
    return differences(RECOVERY, wrong, told="point-in-time recovery is on")


async def encryption(bench: Bench) -> Finding:
    """Whether everything at rest is encrypted. DynamoDB encrypts every table; without a description of its key, by a
    key that AWS owns (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/EncryptionAtRest.html).
    """
    answer = await bench.cloud.send("dynamodb", "DescribeTable", TableName=bench.table)
    described = answer["Table"].get("SSEDescription")
    key = "a key that AWS owns" if described is None else f"{described['SSEType']} ({described['Status']})"
    wrong = [
        *([] if described is None or described["Status"] in ON else [f"the encryption of the table is {key}"]),
        *[each async for each in _of_bucket(bench)],
        *[each async for each in _of_queues(bench)],
    ]
    return differences(ENCRYPTION, wrong, told=f"the table by {key}; the bucket and the queues too")


async def _of_bucket(bench: Bench) -> AsyncIterator[str]:
    try:
        answer = await bench.cloud.send("s3", "GetBucketEncryption", Bucket=bench.bucket)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        yield f"the encryption of the bucket cannot be read: {error}"
        return
    rules = answer["ServerSideEncryptionConfiguration"]["Rules"]
    found = {each["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] for each in rules}
    if not found <= ENCRYPTED:
        yield f"the bucket is encrypted by {', '.join(found)}"


async def _of_queues(bench: Bench) -> AsyncIterator[str]:
    for which in (DOORBELL, ORDERED):
        for dead in (False, True):
            name = queue(bench.record.prefix, which, dead=dead)
            url = (await bench.cloud.send("sqs", "GetQueueUrl", QueueName=name))["QueueUrl"]
            answer = await bench.cloud.send("sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
            there = answer["Attributes"]
            if there.get("SqsManagedSseEnabled") != "true" and not there.get("KmsMasterKeyId"):
                yield f"the queue {name} is not encrypted"
