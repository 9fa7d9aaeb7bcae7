"""Rules for what only a Task has: its resource and its credentials."""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.asl.validation.diagnostic import STYLE, Path
from holdfast.asl.validation.expressions import template
from holdfast.asl.validation.kinds import is_object
from holdfast.asl.validation.values import URI
from holdfast.asl.validation.visit import Visit

CALLBACK: Final = "waitForTaskToken"
SYNC: Final = frozenset({"sync", "sync:2"})

INTEGRATION = re.compile(
    r"arn:[\w-]+:states:[\w-]*:\d*:(?P<service>(?!activity|stateMachine|execution)[\w-]+):(?P<action>[\w:-]+?)"
    r"(?:\.(?P<pattern>sync|sync:2|waitForTaskToken))?"
)
ACTIVITY = re.compile(r"arn:[\w-]+:states:[^:]*:[^:]*:activity:.+")
ARN = re.compile(r"arn:[\w-]+:[\w-]+:[^:]*:[^:]*:.+")
FUNCTION = re.compile(r"arn:[\w-]+:lambda:[^:]*:[^:]*:function:.*")
GOOD_FUNCTION = re.compile(r"arn:[\w-]+:lambda:[^:]*:[^:]*:function:[^:]+(?::(?:\$LATEST|[\w-]+))?")

ANY_ACTION: Final = frozenset({"aws-sdk", "bedrock", "codebuild", "eks", "elasticmapreduce", "sagemaker"}) | {
    "emr-containers",
    "emr-serverless",
    "bedrock-agentcore",
}
ACTIONS: Final = {
    "apigateway": {"invoke"},
    "athena": {"startQueryExecution", "stopQueryExecution", "getQueryExecution", "getQueryResults"},
    "batch": {"submitJob"},
    "databrew": {"startJobRun"},
    "dynamodb": {"getItem", "putItem", "deleteItem", "updateItem"},
    "ecs": {"runTask"},
    "events": {"putEvents"},
    "glue": {"startJobRun"},
    "http": {"invoke"},
    "lambda": {"invoke"},
    "mediaconvert": {"createJob"},
    "sns": {"publish"},
    "sqs": {"sendMessage"},
    "states": {"startExecution"},
}
"""The optimised integrations, each with its actions.

Source: https://docs.aws.amazon.com/step-functions/latest/dg/integrate-optimized.html
"""
NO_SYNC: Final = frozenset({"apigateway", "aws-sdk", "dynamodb", "events", "http", "lambda", "sns", "sqs"})
NO_CALLBACK: Final = frozenset({"athena", "batch", "codebuild", "databrew", "dynamodb", "elasticmapreduce"}) | {
    "emr-containers",
    "emr-serverless",
    "glue",
    "http",
    "mediaconvert",
    "sagemaker",
}


def resource(visit: Visit, at: Path, value: Any) -> None:
    """What a Task calls. Without ``aws`` it is any name that a task is bound to."""
    if not isinstance(value, str):
        visit.report(at, "Expected value of type [STRING]")
    elif not visit.profile.aws:
        bound_resource(visit, at, value)
    elif not ARN.fullmatch(value) or (FUNCTION.fullmatch(value) and not GOOD_FUNCTION.fullmatch(value)):
        visit.report(at, "Value is not a valid resource ARN")
    elif not is_recognized(value):
        told = "The value is not a valid resource ARN, or the resource is not available in this region."
        visit.report(at, f"The resource provided {value} is not recognized. {told}")
    if visit.profile.express and isinstance(value, str):
        express_resource(visit, at, value)


def bound_resource(visit: Visit, at: Path, value: str) -> None:
    """The resource of a machine that does not run on AWS."""
    if not value or (FUNCTION.fullmatch(value) and not GOOD_FUNCTION.fullmatch(value)):
        visit.report(at, "Value is not a valid resource ARN")
    elif not URI.fullmatch(value):
        visit.report(at, "The specification wants a URI here", "RESOURCE_IS_NO_URI", STYLE)


def is_recognized(value: str) -> bool:
    """Whether Step Functions has the integration that an ARN names; other ARNs are not its own."""
    found = INTEGRATION.fullmatch(value)
    if found is None:
        return True
    service, pattern = found["service"], found["pattern"]
    if service not in ANY_ACTION and found["action"] not in ACTIONS.get(service, ()):
        return False
    if pattern in SYNC and service in NO_SYNC:
        return False
    if pattern == "sync:2" and service != "states":
        return False
    return not (pattern == CALLBACK and service in NO_CALLBACK)


def express_resource(visit: Visit, at: Path, value: str) -> None:
    """Report what an Express machine cannot wait for."""
    if ACTIVITY.fullmatch(value):
        visit.report(at, "Express state machine does not support Activity ARN")
    elif value.endswith(".waitForTaskToken"):
        visit.report(at, "Express state machine does not support '.waitForTaskToken' service integration ")
    elif value.endswith((".sync", ".sync:2")):
        visit.report(at, "Express state machine does not support '.sync' service integration")


def credentials(visit: Visit, at: Path, value: Any) -> None:
    """The role that a Task assumes."""
    if not is_object(value):
        visit.report(at, "Expected value of type [OBJECT]")
    elif visit.profile.aws and "RoleArn" not in value and (visit.jsonata or "RoleArn.$" not in value):
        visit.report(at, "The field 'RoleArn' is required but was missing")
    else:
        template(visit, at, value)


def agrees(visit: Visit, at: Path, state: dict[str, Any]) -> None:
    """Report what two fields of a Task have against each other."""
    timeout, heartbeat = state.get("TimeoutSeconds"), state.get("HeartbeatSeconds")
    if isinstance(timeout, int) and isinstance(heartbeat, int) and heartbeat >= timeout:
        visit.report(at, "'HeartbeatSeconds' should be smaller than 'TimeoutSeconds'")
    activity = isinstance(state.get("Resource"), str) and ACTIVITY.fullmatch(state["Resource"])
    if activity and "Credentials" in state:
        visit.report(at, "The field 'Credentials' is not supported for activities")
