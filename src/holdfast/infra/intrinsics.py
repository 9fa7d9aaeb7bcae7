"""The functions of CloudFormation that the template uses, and the types of its parts.

``Fn::Sub`` has only pseudo parameters (``${AWS::Region}``), never a resource: the CDK construct, which gives
resources other names, passes it through.
"""

from __future__ import annotations

from typing import Any, Final

Properties = dict[str, Any]
Resources = dict[str, dict[str, Any]]
"""Logical id → resource, as in the ``Resources`` of a template."""

REGION: Final = {"Ref": "AWS::Region"}
PARTITION: Final = {"Ref": "AWS::Partition"}
"""``aws``, ``aws-cn``, ``aws-us-gov``, …: a part of AWS with accounts of its own."""


def ref(logical_id: str) -> Properties:
    """A resource of the template, as CloudFormation resolves ``Ref``."""
    return {"Ref": logical_id}


def attribute(logical_id: str, name: str) -> Properties:
    """An attribute of a resource."""
    return {"Fn::GetAtt": [logical_id, name]}


def here(text: str) -> Properties:
    """Text with pseudo parameters."""
    return {"Fn::Sub": text}


def joined(*parts: Any) -> Properties:
    """One text made of several, some of which only CloudFormation knows."""
    return {"Fn::Join": ["", list(parts)]}


def arn(service: str, what: str) -> Properties:
    """The ARN of a resource of this account and region.

    >>> arn("dynamodb", "table/shop-holdfast")
    {'Fn::Sub': 'arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/shop-holdfast'}
    """
    return here(f"arn:${{AWS::Partition}}:{service}:${{AWS::Region}}:${{AWS::AccountId}}:{what}")


KEPT: Final = "RetainExceptOnCreate"
"""Deleting the stack keeps it; if the creation of a stack fails, it is removed again, so that the next attempt can
succeed.
"""

KEPT_ALWAYS: Final = "Retain"
"""For resources guarded against deletion, which could not be removed again ("DeletionPolicy attribute")."""


def resource(
    type: str, properties: Properties, *, kept: bool = False, policy: str = KEPT, after: tuple[str, ...] = ()
) -> dict[str, Any]:
    """One resource, without the properties that are ``None``. ``after`` names resources on which it depends without a
    reference.

    ``kept``: deleting the stack keeps it, because of its content.
    """
    made: dict[str, Any] = {"Type": type}
    if after:
        made["DependsOn"] = list(after)
    if kept:
        made |= {"DeletionPolicy": policy, "UpdateReplacePolicy": "Retain"}
    elif type in HOLD_DATA:
        made |= {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"}
    return made | {"Properties": {name: value for name, value in properties.items() if value is not None}}


HOLD_DATA: Final = frozenset({"AWS::DynamoDB::Table", "AWS::Logs::LogGroup", "AWS::S3::Bucket", "AWS::SQS::Queue"})
"""The template sets the deletion policy of these, whatever CloudFormation's default is."""
