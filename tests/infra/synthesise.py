"""Synthesises stacks with AWS CDK, in its own environment, and prints them as JSON with what CDK calls each resource.

Run by test_construct.py with the folder of the function's code.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from aws_cdk import App, Duration, Stack, aws_kms, aws_lambda, aws_s3, aws_sns
from aws_cdk.assertions import Template

from holdfast.errors import ConfigurationError
from holdfast.infra import DurableFabric, Routed

CODE = sys.argv[1]
LAYER = "arn:aws:lambda:eu-west-1:000000000000:layer:fonts:3"


def told(stack: Any, fabric: Any) -> dict[str, Any]:
    """The template of a stack, and what its resources are called in ours."""
    names = {stack.resolve(made.logical_id): name for name, made in fabric.resources.items()}
    return {"template": Template.from_stack(stack).to_json(), "names": names}


def function(stack: Any, id: str) -> Any:
    """A function that a user has made."""
    return aws_lambda.Function(
        stack,
        id,
        runtime=aws_lambda.Runtime.PYTHON_3_13,
        handler="handler.handler",
        code=aws_lambda.Code.from_asset(CODE),
        timeout=Duration.seconds(90),
    )


def made() -> dict[str, Any]:
    """Everything made by the construct, in one line."""
    stack = Stack(App(), "Made")
    options = {"memory_mb": 1024, "url": "iam", "tracing": True, "layers": [LAYER], "alarm_table_gb": 7}
    further = {"pdf": Routed(workflows=["render"], memory_mb=3008)}
    return told(stack, DurableFabric(stack, "Fabric", prefix="shop", code=CODE, functions=further, **options))


def existing() -> dict[str, Any]:
    """With a function, a bucket, a key and a topic of the user's, and somebody who only calls."""
    stack = Stack(App(), "Existing")
    worker, front = function(stack, "Worker"), function(stack, "Front")
    fabric = DurableFabric(
        stack,
        "Fabric",
        prefix="shop",
        function=worker,
        bucket=aws_s3.Bucket(stack, "Bucket"),
        key=aws_kms.Key(stack, "Key"),
        alarm_topic=aws_sns.Topic(stack, "Topic"),
        ordered=False,
    )
    fabric.add_client(front)
    fabric.add_reader(front.role)
    return told(stack, fabric)


def twice() -> dict[str, Any]:
    """Two homes in one stack."""
    stack = Stack(App(), "Twice")
    DurableFabric(stack, "One", prefix="one")
    return told(stack, DurableFabric(stack, "Two", prefix="two"))


def refusals() -> list[str]:
    """What the construct says to what makes no sense."""
    stack, said = Stack(App(), "Refused"), []
    mine = function(stack, "Mine")
    for number, wrong in enumerate(({"code": CODE, "function": mine}, {"function": mine, "memory_mb": 512})):
        try:
            DurableFabric(stack, f"Wrong{number}", prefix="shop", **wrong)
        except ConfigurationError as error:
            said.append(str(error))
    return said


json.dump({"made": made(), "existing": existing(), "twice": twice(), "refusals": refusals()}, sys.stdout)
