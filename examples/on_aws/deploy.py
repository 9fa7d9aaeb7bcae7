"""Deploys the stack through CloudFormation: as CDK has synthesised it, or as ``holdfast infra template`` prints it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.on_aws.build import packed
from examples.on_aws.emulator import REGION, Emulator
from examples.on_aws.tools import ROOT, ToolMissing, environment, run

PREFIX = "on-aws"
HANDLER = "examples.on_aws.handler.handler"
SETTLES_WITHIN_SECONDS = 120

Tell = Callable[[str], None]


def deploy_construct(emulator: Emulator, code: Path, function: dict[str, Any], tell: Tell) -> None:
    """By ``DurableFabric``, with what `cdk deploy` does with its output."""
    programs, out = environment("cdk", tell), code.parent / "cdk.out"
    tell("synthesising the stack with CDK")
    quiet = {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1", "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1"}
    command: list[Path | str] = [
        programs / "python",
        Path(__file__).with_name("stack.py"),
        PREFIX,
        code,
        out,
        json.dumps(function),
    ]
    variables = dict(os.environ) | quiet | {"PYTHONPATH": str(ROOT / "src")}
    run(command, "CDK cannot synthesise the stack; Node has to be there", folder=code.parent, variables=variables)
    assets = json.loads((out / f"{PREFIX}.assets.json").read_text())
    for asset in assets["files"].values():
        (place,) = asset["destinations"].values()
        source = out / asset["source"]["path"]
        upload(emulator, packed(source) if asset["source"]["packaging"] == "zip" else source, place["objectKey"])
    template = (out / f"{PREFIX}.template.json").read_text()
    stacked(emulator, template, tell)


def deploy_template(emulator: Emulator, code: Path, function: dict[str, Any], tell: Tell) -> None:
    """By the template. It needs neither Node nor CDK."""
    archive = packed(code)
    key = f"{hashlib.sha256(archive.read_bytes()).hexdigest()[:16]}.zip"
    upload(emulator, archive, key)
    options = [f"--env={name}={value}" for name, value in function["environment"].items()]
    options += [f"--{name.replace('_', '-')}={value}" for name, value in function.items() if name != "environment"]
    command = [sys.executable, "-m", "holdfast.cli", "infra", "template", "--prefix", PREFIX]
    template = run([*command, "--code", f"s3://{PREFIX}-code/{key}", *options], "the template cannot be made")
    stacked(emulator, template, tell)


def upload(emulator: Emulator, file: Path, key: str) -> None:
    """Put a file into the bucket of the code, which is made first."""
    s3 = emulator.client("s3")
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # by the asset before
        s3.create_bucket(Bucket=f"{PREFIX}-code", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=f"{PREFIX}-code", Key=key, Body=file.read_bytes())


def stacked(emulator: Emulator, template: str, tell: Tell) -> None:
    """Create the stack, and wait until it stands. Raises ``ToolMissing`` if it does not."""
    resources = json.loads(template)["Resources"]
    tell(f"deploying {len(resources)} resources through CloudFormation")
    cloudformation = emulator.client("cloudformation")
    cloudformation.create_stack(StackName=PREFIX, TemplateBody=template, Capabilities=["CAPABILITY_IAM"])
    until = time.monotonic() + SETTLES_WITHIN_SECONDS
    while True:
        (stack,) = cloudformation.describe_stacks(StackName=PREFIX)["Stacks"]
        if not stack["StackStatus"].endswith("IN_PROGRESS") or time.monotonic() > until:
            break
        time.sleep(0.2)
    if stack["StackStatus"] != "CREATE_COMPLETE":
        raise ToolMissing(f"the stack is {stack['StackStatus']}: {stack.get('StackStatusReason', 'no reason given')}")
