"""What runs at a time, or after an event: the bus, the sweep, the clean-up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from holdfast.backends.aws.names import CLEAN_UP_INPUT, SWEEP_INPUT, base
from holdfast.infra.intrinsics import Resources, attribute, ref, resource
from holdfast.infra.options import Fabric

SWEEP_EVERY: Final = "rate(1 minute)"
"""The shortest interval of EventBridge. A lost hint is repaired after this time."""

CLEAN_UP_EVERY: Final = "rate(1 hour)"
"""One of these calls begins a pass through the table each day, and others go on with it if there is much to read."""


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


def called_at_times(fabric: Fabric, target: Any, sweeping: Any) -> Resources:
    """The rules that call the function: to sweep, which finds work without a wake-up, and to clean up.

    A sweep that fails is not repeated, since the next one comes. A clean-up is, for an hour.
    """
    own = base(fabric.prefix)
    sweep = "Finds what is due and what the dead have left behind"
    sweeps = SWEEP_INPUT if fabric.parts is None else SWEEP_INPUT | {"parts": fabric.parts}
    clean_up = "Deletes what is left of executions that have expired, and large values that nothing refers to"
    return {
        **_rule("Sweep", f"{own}-sweep", sweep, SWEEP_EVERY, sweeps, sweeping, tries=0, age_seconds=60),
        **_rule(
            "CleanUp", f"{own}-clean-up", clean_up, CLEAN_UP_EVERY, CLEAN_UP_INPUT, target, tries=2, age_seconds=3600
        ),
    }


def _rule(
    logical: str,
    name: str,
    told: str,
    every: str,
    event: Mapping[str, str | int],
    target: Any,
    *,
    tries: int,
    age_seconds: int,
) -> Resources:
    called = {
        "Id": name.rpartition("-holdfast-")[2],
        "Arn": target,
        "Input": json.dumps(event),
        "RetryPolicy": {"MaximumRetryAttempts": tries, "MaximumEventAgeInSeconds": age_seconds},
    }
    rule = {"Name": name, "Description": told, "ScheduleExpression": every, "State": "ENABLED", "Targets": [called]}
    permission = {
        "Action": "lambda:InvokeFunction",
        "FunctionName": target,
        "Principal": "events.amazonaws.com",
        "SourceArn": attribute(f"{logical}Rule", "Arn"),
    }
    return {
        f"{logical}Rule": resource("AWS::Events::Rule", rule),
        f"{logical}Permission": resource("AWS::Lambda::Permission", permission),
    }
