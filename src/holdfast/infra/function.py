"""The function, its versions, and its event sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from holdfast.backends.aws.names import DOORBELL, LIVE, base
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import ConfigurationError
from holdfast.infra.events import called_at_times
from holdfast.infra.function_options import Existing, Function, LocalCode, UploadedCode, digest_of
from holdfast.infra.function_role import function_role
from holdfast.infra.intrinsics import REGION, Properties, Resources, attribute, joined, ref, resource
from holdfast.infra.options import Fabric
from holdfast.infra.queues import LOGICAL_IDS, which
from holdfast.items import HEAD
from holdfast.messaging.outbox import ENTRY_PREFIX

Resolve = Callable[[Any], Any]

NOT_OF_A_VERSION: Final = frozenset({"Code", "RecursiveLoop", "ReservedConcurrentExecutions"})
"""Properties of the function alone. (Its code is known by its digest.)"""

NEWS: Final[tuple[Properties, ...]] = (
    {"dynamodb": {"Keys": {"s": {"S": [{"prefix": INBOX_PREFIX}, {"prefix": ENTRY_PREFIX}]}}}},
    {
        "dynamodb": {
            "Keys": {"s": {"S": [HEAD]}},
            "NewImage": {"o": {"S": [{"exists": False}]}, "d": {"N": [{"exists": True}]}},
        }
    },
)
"""Messages, events, and heads that are due and have no owner: what ``runtime.shapes`` handles. Lambda is not invoked
for the rest, which costs nothing ("Using event filtering with a DynamoDB event source", Lambda developer guide)."""

STREAM_TRIES: Final = 3
STREAM_AGE_SECONDS: Final = 300


def home_url(fabric: Fabric) -> Properties:
    """The value of ``HOLDFAST_URL``."""
    return joined(
        f"aws://{fabric.prefix}?region=",
        REGION,
        "&bucket=",
        fabric.bucket,
        "&bus=",
        base(fabric.prefix),
    )


def function(fabric: Fabric, resolve: Resolve) -> Resources:
    """The resources of a worker: none if there is no function."""
    match fabric.function:
        case None:
            return {}
        case Existing(alias_arn=target):
            return _callers(fabric, target)
        case Function() as made:
            target = ref("FunctionLive")
            return _function(fabric, made, resolve) | _callers(fabric, target) | _url(made, target)


def _function(fabric: Fabric, made: Function, resolve: Resolve) -> Resources:
    name = base(fabric.prefix)
    if "HOLDFAST_URL" in made.environment:
        raise ConfigurationError("HOLDFAST_URL follows from the prefix: leave it out of the environment")
    properties: Properties = {
        "FunctionName": name,
        "Description": f"The worker of {name}",
        "Code": _code(made.code),
        "Handler": made.handler,
        "Runtime": made.runtime,
        "Architectures": [made.architecture],
        "MemorySize": made.memory_mb,
        "Timeout": made.timeout_seconds,
        "ReservedConcurrentExecutions": made.reserved_concurrency,
        "RecursiveLoop": "Allow",  # it wakes itself, on purpose; else Lambda stops a chain after some 16 messages
        "Role": attribute("FunctionRole", "Arn"),
        "Environment": {"Variables": {**made.environment, "HOLDFAST_URL": home_url(fabric)}},
        "LoggingConfig": {"LogGroup": ref("FunctionLog")},
        "Layers": list(made.layers) or None,
        "VpcConfig": _network(made),
        "SnapStart": {"ApplyOn": "PublishedVersions"} if made.snap_start else None,
        "TracingConfig": {"Mode": "Active"} if made.tracing else None,
    }
    # A version is a snapshot: unless the name of the resource changes with its content, CloudFormation keeps the old
    # one, and `live` would continue with old code. Lambda refuses a second snapshot of the same content, so nothing
    # else may change the name.
    seen = {name: value for name, value in properties.items() if name not in NOT_OF_A_VERSION and value is not None}
    version = f"FunctionVersion{digest_of([resolve(seen), made.code.digest])}"
    return {
        "FunctionLog": resource(
            "AWS::Logs::LogGroup", {"LogGroupName": f"/aws/lambda/{name}", "RetentionInDays": made.log_days}
        ),
        "FunctionRole": function_role(name, made),
        "Function": resource("AWS::Lambda::Function", properties),
        # Executions that are pinned to an old version need its code as long as they live.
        version: resource("AWS::Lambda::Version", {"FunctionName": ref("Function")}, kept=True),
        "FunctionLive": resource(
            "AWS::Lambda::Alias",
            {"Name": LIVE, "FunctionName": ref("Function"), "FunctionVersion": attribute(version, "Version")},
        ),
    }


def _code(code: LocalCode | UploadedCode) -> Any:
    match code:
        case LocalCode(path):
            return path
        case UploadedCode(bucket, key):
            return {"S3Bucket": bucket, "S3Key": key}


def _network(made: Function) -> Properties | None:
    if not made.subnets:
        return None
    return {"SubnetIds": list(made.subnets), "SecurityGroupIds": list(made.security_groups)}


def _callers(fabric: Fabric, target: Any) -> Resources:
    """The rules, and the queues. The answer to a batch names the failed messages, so that the others are done."""
    made = called_at_times(fabric, target)
    for name in which(fabric):
        at_once = {"MaximumConcurrency": fabric.most_at_once} if fabric.most_at_once and name == DOORBELL else None
        # A FIFO queue has no window, and at most ten messages at once.
        size, window = (
            (fabric.batch_size, fabric.batch_window_seconds) if name == DOORBELL else (min(fabric.batch_size, 10), None)
        )
        made[f"{LOGICAL_IDS[name]}Source"] = resource(
            "AWS::Lambda::EventSourceMapping",
            {
                "EventSourceArn": attribute(LOGICAL_IDS[name], "Arn"),
                "FunctionName": target,
                "BatchSize": size,
                "MaximumBatchingWindowInSeconds": window or None,
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "ScalingConfig": at_once,
            },
        )
    return made | (_stream(target) if fabric.stream else {})


def _stream(target: Any) -> Resources:
    """New work in the table. These are only hints: none is tried for long, the sweep finds the rest."""
    properties = {
        "EventSourceArn": attribute("Table", "StreamArn"),
        "FunctionName": target,
        "StartingPosition": "LATEST",
        "FilterCriteria": {"Filters": [{"Pattern": json.dumps({"eventName": ["INSERT"], **each})} for each in NEWS]},
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "BisectBatchOnFunctionError": True,
        "MaximumRetryAttempts": STREAM_TRIES,
        "MaximumRecordAgeInSeconds": STREAM_AGE_SECONDS,
    }
    return {"StreamSource": resource("AWS::Lambda::EventSourceMapping", properties)}


def _url(made: Function, target: Any) -> Resources:
    if made.url == "off":
        return {}
    auth = "AWS_IAM" if made.url == "iam" else "NONE"
    properties = {"TargetFunctionArn": attribute("Function", "Arn"), "Qualifier": LIVE, "AuthType": auth}
    resources = {"FunctionUrl": resource("AWS::Lambda::Url", properties, after=("FunctionLive",))}
    if made.url == "public":
        for logical_id, action, how in (
            ("UrlPermission", "lambda:InvokeFunctionUrl", {"FunctionUrlAuthType": "NONE"}),
            ("UrlInvokePermission", "lambda:InvokeFunction", {"InvokedViaFunctionUrl": True}),
        ):
            resources[logical_id] = resource(
                "AWS::Lambda::Permission", {"Action": action, "FunctionName": target, "Principal": "*", **how}
            )
    return resources
