"""The role of a function of the template: the worker's policy, its log, what its options need, and what is added."""

from __future__ import annotations

from typing import Any, Final

from holdfast.infra.function_options import Function
from holdfast.infra.intrinsics import arn, ref
from holdfast.infra.permissions import Statement, allow, inline, role

LOG: Final = ("logs:CreateLogStream", "logs:PutLogEvents")

NETWORK: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
"""What Lambda itself does in the function's name to put it into a VPC
(https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions)."""

TRACE: Final = ("xray:PutTelemetryRecords", "xray:PutTraceSegments")
"""They know no resources (https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsx-ray.html)."""


def function_role(name: str, log: str, made: Function) -> dict[str, Any]:
    """The role of the function of this name, which writes into the log of that name."""
    statements = [
        allow("Log", LOG, _log_arn(log)),
        *(_network(name) if made.subnets else []),
        *([allow("Traces", TRACE, "*")] if made.tracing else []),
    ]
    policies = inline("function", statements)
    if made.statements:
        policies += inline("own", list(made.statements))
    return role("lambda.amazonaws.com", ManagedPolicyArns=[ref("WorkerPolicy"), *made.policies], Policies=policies)


def _network(name: str) -> list[Statement]:
    """Lambda may make the network interfaces; the code of the function may not, although its role is the same ("Network
    interface permissions: deny your function", on the page of ``NETWORK``).
    """
    function = {"ArnEquals": {"lambda:SourceFunctionArn": [arn("lambda", f"function:{name}")]}}
    refused = allow("NotByTheCode", NETWORK, "*", condition=function) | {"Effect": "Deny"}
    return [allow("Network", NETWORK, "*"), refused]


def _log_arn(name: str) -> dict[str, Any]:
    """The streams of one group: that is how the ARN of a group ends."""
    return arn("logs", f"log-group:/aws/lambda/{name}:*")
