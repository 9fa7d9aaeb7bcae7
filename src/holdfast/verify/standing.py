"""Building a trial up, and removing it: what a record names, and nothing else."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Final

from holdfast.backends.aws import names
from holdfast.errors import StoreUnavailable, StoreUnusable
from holdfast.verify.cloud import Cloud, code_of
from holdfast.verify.packing import packed
from holdfast.verify.record import Record
from holdfast.verify.stack import TAG, as_text, fabric_of, stack_of

STANDS_WITHIN_SECONDS: Final = 600.0
GONE_WITHIN_SECONDS: Final = 900.0
REMOVALS: Final = 3
"""A function that still works may store a large value after its bucket was emptied."""

BIRTHPLACE: Final = "us-east-1"
"""The one region whose name CreateBucket does not take
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html)."""

GONE: Final = frozenset({"NoSuchBucket", "404"})


async def build(cloud: Cloud, record: Record) -> dict[str, str]:
    """Deploy the trial; returns the outputs of the stack.

    What is about to be made is in the record first. Raises ``StoreUnusable`` with CloudFormation's reason.
    """
    code = await packed(for_this_machine=cloud.is_emulator)
    key = f"{hashlib.sha256(code).hexdigest()[:16]}.zip"
    bucket = f"{record.prefix}-code-{record.account}"
    record = record.with_bucket(bucket)
    place = {} if record.region == BIRTHPLACE else {"LocationConstraint": record.region}
    await cloud.send("s3", "CreateBucket", Bucket=bucket, **({"CreateBucketConfiguration": place} if place else {}))
    await cloud.send("s3", "PutObject", Bucket=bucket, Key=key, Body=code, ExpectedBucketOwner=record.account)
    record = record.with_stack()
    await cloud.send(
        "cloudformation",
        "CreateStack",
        StackName=record.prefix,
        TemplateBody=as_text(stack_of(fabric_of(record.prefix, bucket, key), record.mark)),
        Capabilities=["CAPABILITY_IAM"],
        OnFailure="DO_NOTHING",  # the reason is read first; removing it is our own business
        Tags=[{"Key": TAG, "Value": record.mark}],
    )
    stack = await _settled(cloud, record, STANDS_WITHIN_SECONDS)
    if stack is None or stack["StackStatus"] != "CREATE_COMPLETE":
        raise StoreUnusable(f"the stack {record.prefix} could not be created: {await _reason(cloud, record, stack)}")
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


async def remove(cloud: Cloud, record: Record) -> None:
    """Remove what the record names, and delete the record once everything is gone. It may be called again.

    Raises ``StoreUnusable`` for a stack that does not bear the mark of the record, before anything is removed.
    """
    if record.stack:
        await _remove_stack(cloud, record)
    if record.code_bucket is not None:
        await _remove_bucket(cloud, record, record.code_bucket)
    record.end()


async def _remove_stack(cloud: Cloud, record: Record) -> None:
    for _ in range(REMOVALS):
        stack = await _settled(cloud, record, STANDS_WITHIN_SECONDS)
        if stack is None:
            return
        if {"Key": TAG, "Value": record.mark} not in stack.get("Tags", []):
            raise StoreUnusable(f"the stack {record.prefix} does not bear the mark of its record: nothing was removed")
        await _empty(cloud, record, names.bucket(record.prefix, record.account, record.region))
        await cloud.send("cloudformation", "DeleteStack", StackName=record.prefix)
        if await _settled(cloud, record, GONE_WITHIN_SECONDS) is None:
            return
    raise StoreUnavailable(f"the stack {record.prefix} is still there: {await _reason(cloud, record, None)}")


async def _settled(cloud: Cloud, record: Record, seconds: float) -> dict[str, Any] | None:
    """The stack once nothing is under way; ``None`` if there is none."""

    async def look() -> list[dict[str, Any]] | None:
        try:
            answer = await cloud.send("cloudformation", "DescribeStacks", StackName=record.prefix)
        except Exception as error:
            if code_of(error) == "ValidationError":  # there is no such stack
                return []
            raise
        there: list[dict[str, Any]] = [each for each in answer["Stacks"] if each["StackStatus"] != "DELETE_COMPLETE"]
        return None if any(each["StackStatus"].endswith("IN_PROGRESS") for each in there) else there

    found = await cloud.until(look, f"the stack {record.prefix}", seconds=seconds)
    return found[0] if found else None


async def _reason(cloud: Cloud, record: Record, stack: dict[str, Any] | None) -> str:
    answer = await cloud.send("cloudformation", "DescribeStackEvents", StackName=record.prefix)
    for event in reversed(answer["StackEvents"]):  # the first failure; what follows was cancelled because of it
        if event.get("ResourceStatus", "").endswith("_FAILED"):
            return f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', 'no reason was given')}"
    return "no reason was given" if stack is None else str(stack.get("StackStatusReason", stack["StackStatus"]))


async def _remove_bucket(cloud: Cloud, record: Record, bucket: str) -> None:
    await _empty(cloud, record, bucket)
    with _if_there():
        await cloud.send("s3", "DeleteBucket", Bucket=bucket, ExpectedBucketOwner=record.account)


async def _empty(cloud: Cloud, record: Record, bucket: str) -> None:
    """Delete every version of every object: a bucket with objects cannot be deleted."""
    owned = {"Bucket": bucket, "ExpectedBucketOwner": record.account}
    with _if_there():
        while True:
            answer = await cloud.send("s3", "ListObjectVersions", **owned)
            found = [*answer.get("Versions", ()), *answer.get("DeleteMarkers", ())]
            if not found:
                return
            objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
            await cloud.send("s3", "DeleteObjects", **owned, Delete={"Objects": objects, "Quiet": True})


@contextlib.contextmanager
def _if_there() -> Any:
    try:
        yield
    except Exception as error:
        if code_of(error) not in GONE:
            raise
