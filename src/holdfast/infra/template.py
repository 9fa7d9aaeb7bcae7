"""The template of CloudFormation: everything that a home on AWS needs, as plain data."""

from __future__ import annotations

from typing import Any, Final

from holdfast.backends.aws.names import base
from holdfast.infra.events import bus, event_rules
from holdfast.infra.function import Resolve, function, home_url
from holdfast.infra.function_options import Function, function_id
from holdfast.infra.intrinsics import PARTITION, REGION, Resources, attribute, joined, ref
from holdfast.infra.options import Fabric
from holdfast.infra.permissions import policies
from holdfast.infra.queues import logical_id, queues, which
from holdfast.infra.storage import bucket, table
from holdfast.infra.watching import alarms, dashboard, filters

CONSOLE: Final = "console.aws.amazon.com"

OTHER_CONSOLES: Final = {
    "China": ("aws-cn", "console.amazonaws.cn"),
    "GovCloud": ("aws-us-gov", "console.amazonaws-us-gov.com"),
}
"""The partitions whose console has another address
(https://docs.amazonaws.cn/en_us/aws/latest/userguide/introduction.html,
https://docs.aws.amazon.com/govcloud-us/latest/UserGuide/govcloud-console.html)."""


def template(fabric: Fabric, resolve: Resolve = lambda value: value) -> dict[str, Any]:
    """The whole template: ``json.dumps`` of it is the input of CloudFormation.

    ``resolve`` replaces placeholders of another tool, such as CDK, in the options by the deployed values. Raises
    ``ConfigurationError``.

    >>> sorted(template(Fabric(prefix="shop"))["Outputs"])[:3]
    ['Bucket', 'Bus', 'CallerPolicy']
    """
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{base(fabric.prefix)}: durable workflows and actors of Holdfast",
        "Conditions": {
            f"In{name}": {"Fn::Equals": [PARTITION, partition]} for name, (partition, _) in OTHER_CONSOLES.items()
        },
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
        "Dashboard": _dashboard_url(base(fabric.prefix)),
        **{name: ref(name) for name in policies(fabric)},
        **{f"{logical_id(name)}Queue": ref(logical_id(name)) for name in which(fabric)},
    }
    if isinstance(fabric.function, Function):
        found |= {function_id(name): ref(f"{function_id(name)}Live") for name in fabric.made}
        if fabric.function.url != "off":
            found["FunctionUrl"] = attribute("FunctionUrl", "FunctionUrl")
    return found


def _dashboard_url(name: str) -> dict[str, Any]:
    domain: Any = CONSOLE
    for condition, (_, console) in OTHER_CONSOLES.items():
        domain = {"Fn::If": [f"In{condition}", console, domain]}
    return joined("https://", domain, "/cloudwatch/home?region=", REGION, f"#dashboards:name={name}")
