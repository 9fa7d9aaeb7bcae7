"""The functions of CloudFormation that the template uses, and the shape of what it is made of.

``Fn::Sub`` holds nothing but pseudo parameters (``${AWS::Region}``), never a resource: the CDK construct, which gives
resources other names, passes it through.
"""

from __future__ import annotations

from typing import Any, Final

Properties = dict[str, Any]
Resources = dict[str, dict[str, Any]]
"""Logical id → resource, as in the ``Resources`` of a template."""

REGION: Final = {"Ref": "AWS::Region"}


def ref(logical_id: str) -> Properties:
    """A resource of the template, as CloudFormation answers ``Ref``."""
    return {"Ref": logical_id}


def attribute(logical_id: str, name: str) -> Properties:
    """An attribute of a resource."""
    return {"Fn::GetAtt": [logical_id, name]}


def here(text: str) -> Properties:
    """Text with pseudo parameters."""
    return {"Fn::Sub": text}


def joined(*parts: Any) -> Properties:
    """One text out of several, some of which CloudFormation will know."""
    return {"Fn::Join": ["", list(parts)]}


def arn(service: str, what: str) -> Properties:
    """The ARN of something of this account and region.

    >>> arn("dynamodb", "table/shop-holdfast")
    {'Fn::Sub': 'arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/shop-holdfast'}
    """
    return here(f"arn:${{AWS::Partition}}:{service}:${{AWS::Region}}:${{AWS::AccountId}}:{what}")


KEPT: Final = "RetainExceptOnCreate"
"""Deleting the stack leaves it there; a stack that could not be made takes it away again, so that the next one can."""

KEPT_ALWAYS: Final = "Retain"
"""For what is guarded against deletion, so that nobody could take it back ("DeletionPolicy attribute")."""


def resource(
    type: str, properties: Properties, *, kept: bool = False, policy: str = KEPT, after: tuple[str, ...] = ()
) -> dict[str, Any]:
    """One resource, without the properties that are ``None``, made after those it must come after without naming them.

    ``kept``: deleting the stack leaves it there, because of what it holds.
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
"""Of these the template says what becomes of them, whatever CloudFormation does by itself."""
