"""The template of CloudFormation: everything that a home on AWS needs, as plain data."""

from __future__ import annotations

from typing import Any

from holdfast.backends.aws.names import base
from holdfast.infra.events import bus, event_rules
from holdfast.infra.function import Resolve, function, home_url
from holdfast.infra.intrinsics import Resources, attribute, here, ref
from holdfast.infra.options import Fabric, Function
from holdfast.infra.permissions import policies
from holdfast.infra.queues import LOGICAL_IDS, queues, which
from holdfast.infra.storage import bucket, table
from holdfast.infra.watching import alarms, dashboard, filters


def template(fabric: Fabric, resolve: Resolve = lambda value: value) -> dict[str, Any]:
    """The whole template: ``json.dumps`` of it is the input of CloudFormation.

    ``resolve`` replaces placeholders of another tool, such as CDK, in the options by the deployed values. Raises
    ``ConfigurationError``.

    >>> sorted(template(Fabric(prefix="shop"))["Outputs"])[:3]
    ['Bucket', 'Bus', 'ClientPolicy']
    """
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{base(fabric.prefix)}: durable workflows and actors of Holdfast",
        "Resources": resources(fabric, resolve),
        "Outputs": {name: {"Value": value} for name, value in outputs(fabric).items()},
    }


def resources(fabric: Fabric, resolve: Resolve = lambda value: value) -> Resources:
    """Its resources, by their logical ids."""
    return {
        **table(fabric),
        **bucket(fabric),
        **queues(fabric),
        **bus(fabric),
        **event_rules(fabric),
        **policies(fabric),
        **function(fabric, resolve),
        **filters(fabric),
        **alarms(fabric),
        **dashboard(fabric),
    }


def outputs(fabric: Fabric) -> dict[str, Any]:
    """The outputs of the stack."""
    found: dict[str, Any] = {
        "HomeUrl": home_url(fabric),
        "Table": base(fabric.prefix),
        "Bucket": fabric.bucket,
        "Bus": ref("Bus"),
        "Dashboard": here(
            "https://${AWS::Region}.console.aws.amazon.com/cloudwatch/home?region=${AWS::Region}#dashboards:name="
            + base(fabric.prefix)
        ),
        **{name: ref(name) for name in ("WorkerPolicy", "ClientPolicy", "ReaderPolicy")},
        **{f"{LOGICAL_IDS[name]}Queue": ref(LOGICAL_IDS[name]) for name in which(fabric)},
    }
    if isinstance(fabric.function, Function):
        found["Function"] = ref("FunctionLive")
        if fabric.function.url != "off":
            found["FunctionUrl"] = attribute("FunctionUrl", "FunctionUrl")
    return found
