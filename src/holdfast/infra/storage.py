"""The storage: the table, and the bucket of large values."""

from __future__ import annotations

from typing import Any, Final

from holdfast.backends.aws.names import base
from holdfast.backends.aws.table import STREAM_VIEW, TTL_ATTRIBUTE, table_definition
from holdfast.infra.intrinsics import KEPT_ALWAYS, Resources, arn, here, joined, ref, resource
from holdfast.infra.options import Fabric

RECOVERY_DAYS: Final = 35
"""How far back the table can be restored ("Point-in-time recovery", DynamoDB developer guide)."""

UPLOAD_DAYS: Final = 1


def table(fabric: Fabric) -> Resources:
    """The table as ``create_table`` creates it, and guarded against deletion by mistake.

    DynamoDB encrypts every table. Without ``key_arn`` it uses a key that AWS owns, which is free: ``SSEEnabled`` alone
    would choose a key of the account that AWS manages, whose use is billed
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/EncryptionAtRest.html).
    """
    if fabric.own_table:
        return {}
    properties: dict[str, Any] = table_definition(base(fabric.prefix), listing=fabric.listing) | {
        "TimeToLiveSpecification": {"AttributeName": TTL_ATTRIBUTE, "Enabled": True},
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": fabric.key_arn}
        if fabric.key_arn
        else None,
        "DeletionProtectionEnabled": fabric.keep_data,
        "StreamSpecification": {"StreamViewType": STREAM_VIEW} if fabric.stream else None,
    }
    return {"Table": resource("AWS::DynamoDB::Table", properties, kept=fabric.keep_data, policy=KEPT_ALWAYS)}


def table_arn(fabric: Fabric) -> dict[str, Any]:
    """The table, for policies."""
    return arn("dynamodb", f"table/{base(fabric.prefix)}")


def stream_arn(fabric: Fabric) -> dict[str, Any]:
    """Its stream, for policies; its name is a time that is not known beforehand."""
    return arn("dynamodb", f"table/{base(fabric.prefix)}/stream/*")


def index_arn(fabric: Fabric, index: str) -> dict[str, Any]:
    """One of its indexes, for policies."""
    return arn("dynamodb", f"table/{base(fabric.prefix)}/index/{index}")


def indexes(fabric: Fabric) -> list[str]:
    """The names of its indexes."""
    return [
        index["IndexName"]
        for index in table_definition(base(fabric.prefix), listing=fabric.listing)["GlobalSecondaryIndexes"]
    ]


def bucket(fabric: Fabric) -> Resources:
    """The bucket: private, encrypted, accessible by TLS only.

    Replaced or deleted versions stay as long as the table can be restored to a time when it named them.
    """
    if fabric.own_bucket is not None:
        return {}
    key = (
        {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": fabric.key_arn} if fabric.key_arn else {"SSEAlgorithm": "AES256"}
    )
    lifecycle = {
        "Id": "what-nobody-names-any-more",
        "Status": "Enabled",
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": UPLOAD_DAYS},
        "NoncurrentVersionExpiration": {"NoncurrentDays": RECOVERY_DAYS},
        "ExpiredObjectDeleteMarker": True,
    }
    properties = {
        "BucketName": fabric.bucket,
        "BucketEncryption": {
            "ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": key, "BucketKeyEnabled": fabric.key_arn is not None}
            ]
        },
        "PublicAccessBlockConfiguration": dict.fromkeys(
            ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True
        ),
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        "VersioningConfiguration": {"Status": "Enabled"},
        "LifecycleConfiguration": {"Rules": [lifecycle]},
    }
    refusal = {
        "Sid": "RefuseWhatIsNotEncryptedOnItsWay",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [bucket_arn(fabric), bucket_arn(fabric, "/*")],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    document = {"Version": "2012-10-17", "Statement": [refusal]}
    return {
        "Bucket": resource("AWS::S3::Bucket", properties, kept=fabric.keep_data),
        "BucketPolicy": resource("AWS::S3::BucketPolicy", {"Bucket": ref("Bucket"), "PolicyDocument": document}),
    }


def bucket_arn(fabric: Fabric, below: str = "") -> dict[str, Any]:
    """The bucket, or with ``/*`` the objects in it, for policies."""
    return joined(here("arn:${AWS::Partition}:s3:::"), fabric.bucket, below)
