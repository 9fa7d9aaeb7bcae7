"""The stack, with AWS CDK: ``DurableFabric`` makes all of it. Run in an environment with CDK, by ``deploy.py``.

``python stack.py <prefix> <folder of the code> <folder of what comes out> <options of the function, as JSON>``
"""

# aws-cdk-lib is large and may be absent where this is checked.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import json
import sys

from aws_cdk import App, DefaultStackSynthesizer, Stack

from holdfast.infra import DurableFabric

prefix, code, out, options = sys.argv[1:]
app = App(outdir=out)
# Without `cdk bootstrap`: the code goes to a bucket that the driver makes.
synthesizer = DefaultStackSynthesizer(file_assets_bucket_name=f"{prefix}-code", generate_bootstrap_version_rule=False)
stack = Stack(app, prefix, synthesizer=synthesizer)
DurableFabric(stack, "Holdfast", prefix=prefix, code=code, **json.loads(options))
app.synth()
