"""The function, its versions, and its event sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from holdfast.backends.aws import names
from holdfast.backends.aws.names import DOORBELL, LIVE, ORDERED, SWEEP, base
from holdfast.backends.aws.routes import MAIN, routes_text
from holdfast.errors import ConfigurationError
from holdfast.infra.events import called_at_times
from holdfast.infra.function_options import Existing, Function, LocalCode, UploadedCode, digest_of, function_id
from holdfast.infra.function_role import function_role
from holdfast.infra.intrinsics import REGION, Properties, Resources, attribute, joined, ref, resource
from holdfast.infra.options import Fabric
from holdfast.infra.queues import logical_id
from holdfast.items import HEAD

Resolve = Callable[[Any], Any]

NOT_OF_A_VERSION: Final = frozenset({"Code", "RecursiveLoop", "ReservedConcurrentExecutions"})
"""Properties of the function alone. (Its code is known by its digest.)"""

DUE: Final = {"w": {"S": [{"exists": True}]}}

SHOWN: Final[tuple[Properties, ...]] = tuple(
    {"dynamodb": {"Keys": {"s": {"S": [HEAD]}}, image: DUE}} for image in ("NewImage", "OldImage")
)
"""Heads that are due now, or were before a change: what ``runtime.shapes`` handles. Lambda is not invoked for the rest,
which costs nothing ("Using event filtering with a DynamoDB event source", Lambda developer guide)."""

STREAM_WINDOW_SECONDS: Final = 60
"""So long the changes gather: most work is done by then, and its end is in the same batch."""

FOR_EVER: Final = -1
"""A batch is tried again until its records leave the stream, after a day ("Polling and batching streams", Lambda
developer guide): nothing of it may be left out."""

MOST_RECORDS: Final = 10_000


def home_url(fabric: Fabric, function: str | None = None) -> Properties:
    """The value of ``HOLDFAST_URL``: of one of several functions, or of any other process."""
    routes = f"&routes={routes_text(fabric.routes)}" if fabric.routes else ""
    own = f"&function={function}" if fabric.routes and function is not None else ""
    name = base(fabric.prefix)
    return joined(f"aws://{fabric.prefix}?region=", REGION, "&bucket=", fabric.bucket, "&bus=", f"{name}{routes}{own}")


def function(fabric: Fabric, resolve: Resolve) -> Resources:
    """The resources of a worker: none if there is no function."""
    match fabric.function:
        case None:
            return {}
        case Existing(alias_arn=target, sweep_arn=sweeping):
            return _callers(fabric, target, target if sweeping is None else sweeping)
        case Function() as main:
            target = ref("FunctionLive")
            name = base(fabric.prefix)
            log = {"LogGroupName": f"/aws/lambda/{name}", "RetentionInDays": main.log_days}
            found = {"FunctionLog": resource("AWS::Logs::LogGroup", log)}
            for each, made in fabric.made.items():
                found |= _function(fabric, each, made, resolve)
            found |= _sweep_alias(found["FunctionLive"]["Properties"])
            return found | _callers(fabric, target, ref("FunctionSweep")) | _further(fabric) | _url(main, target)


def _function(fabric: Fabric, name: str, made: Function, resolve: Resolve) -> Resources:
    """One function. All write into the log of the main one, so that its counters and questions are about all."""
    called, id = names.function(fabric.prefix, name), function_id(name)
    if "HOLDFAST_URL" in made.environment:
        raise ConfigurationError("HOLDFAST_URL follows from the prefix: leave it out of the environment")
    properties: Properties = {
        "FunctionName": called,
        "Description": f"The worker of {base(fabric.prefix)}" + ("" if name == MAIN else f", for {name}"),
        "Code": _code(made.code),
        "Handler": made.handler,
        "Runtime": made.runtime,
        "Architectures": [made.architecture],
        "MemorySize": made.memory_mb,
        "Timeout": made.timeout_seconds,
        "ReservedConcurrentExecutions": made.reserved_concurrency,
        "RecursiveLoop": "Allow",  # it wakes itself, on purpose; else Lambda stops a chain after some 16 messages
        "Role": attribute(f"{id}Role", "Arn"),
        "Environment": {"Variables": {**made.environment, "HOLDFAST_URL": home_url(fabric, name)}},
        "LoggingConfig": {"LogGroup": ref("FunctionLog")},
        "Layers": list(made.layers) or None,
        "VpcConfig": _network(made),
        "SnapStart": {"ApplyOn": "PublishedVersions"} if made.snap_start else None,
        "TracingConfig": {"Mode": "Active"} if made.tracing else None,
    }
    # A version is a snapshot: unless the name of the resource changes with its content, CloudFormation keeps the old
    # one, and `live` would continue with old code. Lambda refuses a second snapshot of the same content, so nothing
    # else may change the name.
    seen = {key: value for key, value in properties.items() if key not in NOT_OF_A_VERSION and value is not None}
    version = f"{id}Version{digest_of([resolve(seen), made.code.digest])}"
    alias = {"Name": LIVE, "FunctionName": ref(id), "FunctionVersion": attribute(version, "Version")}
    return {
        f"{id}Role": function_role(called, base(fabric.prefix), made),
        id: resource("AWS::Lambda::Function", properties),
        # Executions that are pinned to an old version need its code as long as they live.
        version: resource("AWS::Lambda::Version", {"FunctionName": ref(id)}, kept=True),
        f"{id}Live": resource("AWS::Lambda::Alias", alias),
    }


def _sweep_alias(live: Properties) -> Resources:
    """The alias for sweeps. Lambda repeats a failed asynchronous invocation twice, for hours if it is throttled
    (https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html); the next sweep is better.
    """
    once = {"FunctionName": ref("Function"), "Qualifier": SWEEP, "MaximumRetryAttempts": 0}
    return {
        "FunctionSweep": resource("AWS::Lambda::Alias", {**live, "Name": SWEEP}),
        "SweepOnce": resource(
            "AWS::Lambda::EventInvokeConfig", {**once, "MaximumEventAgeInSeconds": 60}, after=("FunctionSweep",)
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


def _callers(fabric: Fabric, target: Any, sweeping: Any) -> Resources:
    """What calls the main function: its rules, its queues, and the stream."""
    made = called_at_times(fabric, target, sweeping) | _source(fabric, DOORBELL, target)
    if fabric.ordered:
        made |= _source(fabric, ORDERED, target)
    return made | (_stream(target) if fabric.stream else {})


def _further(fabric: Fabric) -> Resources:
    """What calls the further functions: a queue of wake-ups for each, to which the sweep of the main one sends too."""
    made: Resources = {}
    for name in fabric.functions:
        made |= _source(fabric, names.doorbell(name), ref(f"{function_id(name)}Live"))
    return made


def _source(fabric: Fabric, queue: str, target: Any) -> Resources:
    """A queue calls a function. The answer to a batch names the failed messages, so that the others are done."""
    at_once = {"MaximumConcurrency": fabric.most_at_once} if fabric.most_at_once and queue == DOORBELL else None
    # A FIFO queue has no window, and at most ten messages at once.
    size, window = (
        (min(fabric.batch_size, 10), None) if queue == ORDERED else (fabric.batch_size, fabric.batch_window_seconds)
    )
    properties = {
        "EventSourceArn": attribute(logical_id(queue), "Arn"),
        "FunctionName": target,
        "BatchSize": size,
        "MaximumBatchingWindowInSeconds": window or None,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": at_once,
    }
    return {f"{logical_id(queue)}Source": resource("AWS::Lambda::EventSourceMapping", properties)}


def _stream(target: Any) -> Resources:
    """What is due in the table. What is still to be done when it comes enters the index."""
    properties = {
        "EventSourceArn": attribute("Table", "StreamArn"),
        "FunctionName": target,
        "StartingPosition": "LATEST",
        "FilterCriteria": {"Filters": [{"Pattern": json.dumps(each)} for each in SHOWN]},
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "BatchSize": MOST_RECORDS,
        "MaximumBatchingWindowInSeconds": STREAM_WINDOW_SECONDS,
        "BisectBatchOnFunctionError": True,
        "MaximumRetryAttempts": FOR_EVER,
        "MaximumRecordAgeInSeconds": FOR_EVER,
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
