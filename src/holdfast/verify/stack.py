"""The stack of a trial: what ``holdfast infra template`` describes, and a role for each of its policies."""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.infra import Fabric, Function, UploadedCode, template
from holdfast.infra.intrinsics import attribute, here, ref, resource
from holdfast.infra.permissions import policies
from holdfast.verify.packing import PYTHON

TAG: Final = "holdfast-verify"
ROLE: Final = "Try"
MOST_AT_ONCE: Final = 10
"""Of invocations for the doorbell: a bound of what a trial can cost."""

LOG_DAYS: Final = 1
MEMORY_MB: Final = 512


def fabric_of(prefix: str, bucket: str, key: str) -> Fabric:
    """The fabric of a trial with this code. Nothing of it is kept."""
    code = UploadedCode(bucket, key, key)
    function = Function(
        code=code,
        handler="holdfast.verify.handler.handler",
        runtime=f"python{PYTHON}",
        memory_mb=MEMORY_MB,
        log_days=LOG_DAYS,
    )
    return Fabric(prefix=prefix, function=function, stream=True, most_at_once=MOST_AT_ONCE, keep_data=False)


def stack_of(fabric: Fabric, mark: str) -> dict[str, Any]:
    """The template. Each policy gets a role that only who knows ``mark`` may assume."""
    made = template(fabric)
    for name in policies(fabric):
        made["Resources"][ROLE + name] = _role(name, mark)
        made["Outputs"][ROLE + name] = {"Value": attribute(ROLE + name, "Arn")}
    return made


def as_text(made: dict[str, Any]) -> str:
    """The template as it is sent: CloudFormation takes 51,200 bytes
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html).
    """
    return json.dumps(made, separators=(",", ":"))


def _role(policy: str, mark: str) -> dict[str, Any]:
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": here("arn:${AWS::Partition}:iam::${AWS::AccountId}:root")},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"sts:ExternalId": mark}},
    }
    document = {"Version": "2012-10-17", "Statement": [trust]}
    return resource("AWS::IAM::Role", {"AssumeRolePolicyDocument": document, "ManagedPolicyArns": [ref(policy)]})
