"""What runs at a time, or after an event: the bus, and the sweep."""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.backends.aws.names import SWEEP_INPUT, base
from holdfast.infra.intrinsics import Resources, attribute, ref, resource
from holdfast.infra.options import Fabric

SWEEP_EVERY: Final = "rate(1 minute)"
"""The shortest interval of EventBridge. A lost hint is repaired after this time."""


def bus(fabric: Fabric) -> Resources:
    """The bus for the app's events."""
    properties = {"Name": base(fabric.prefix), "KmsKeyIdentifier": fabric.key_arn}
    return {"Bus": resource("AWS::Events::EventBus", properties)}


def event_rules(fabric: Fabric) -> Resources:
    """The rules that bring events of buses into the doorbell's queue; ``queues`` has their permission."""
    own = base(fabric.prefix)
    made: Resources = {}
    for each in fabric.event_rules:
        target = {
            "Id": "doorbell",
            "Arn": attribute("Doorbell", "Arn"),
            "DeadLetterConfig": {"Arn": attribute("DoorbellDead", "Arn")},
        }
        rule = {
            "Name": f"{own}-events-{each.digest}",
            "Description": f"Brings events to the consumers of {own}",
            "EventBusName": ref("Bus") if each.bus == own else each.bus,
            "EventPattern": each.pattern,
            "State": "ENABLED",
            "Targets": [target],
        }
        made[f"EventRule{each.digest}"] = resource("AWS::Events::Rule", rule)
    return made


def sweep(fabric: Fabric, target: Any) -> Resources:
    """The rule that makes the function sweep, to find work without a wake-up. If a sweep fails, the next one comes."""
    rule = {
        "Name": f"{base(fabric.prefix)}-sweep",
        "Description": "Finds what is due and what the dead have left behind",
        "ScheduleExpression": SWEEP_EVERY,
        "State": "ENABLED",
        "Targets": [
            {
                "Id": "sweep",
                "Arn": target,
                "Input": json.dumps(SWEEP_INPUT),
                "RetryPolicy": {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
            }
        ],
    }
    permission = {
        "Action": "lambda:InvokeFunction",
        "FunctionName": target,
        "Principal": "events.amazonaws.com",
        "SourceArn": attribute("SweepRule", "Arn"),
    }
    return {
        "SweepRule": resource("AWS::Events::Rule", rule),
        "SweepPermission": resource("AWS::Lambda::Permission", permission),
    }
