"""Which rights of IAM the code uses: every request of a process as the actions that AWS checks, and policies applied to
them as IAM does.

The actions of an operation are those of the "Service Authorization Reference"
(https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.infra.fabrics import resources

from holdfast.backends.aws import connection
from holdfast.infra import Fabric

REGION = "eu-west-1"
ACCOUNT = "000000000000"
HERE = {"${AWS::Partition}": "aws", "${AWS::Region}": REGION, "${AWS::AccountId}": ACCOUNT}
KEYS = "dynamodb:LeadingKeys"
PASSED_TO = "iam:PassedToService"


class Asked(NamedTuple):
    """An action on a resource, and what conditions may ask about it."""

    action: str
    resource: str
    context: tuple[tuple[str, tuple[str, ...]], ...] = ()


# ── What is asked for ───────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def recorded() -> Iterator[list[Asked]]:
    """The list to which every request of this process on AWS is added, whatever becomes of it."""
    asked: list[Asked] = []
    perform = connection.perform

    def noted(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
        asked.extend(asked_by(client.meta.service_model.service_name, operation, parameters))
        return perform(client, operation, parameters)

    with patch.object(connection, "perform", noted):
        yield asked


def asked_by(service: str, operation: str, parameters: dict[str, Any]) -> list[Asked]:
    """What AWS checks before it performs an operation. Raises ``LookupError`` for one that is not known here."""
    return {
        "dynamodb": of_dynamodb,
        "sqs": of_sqs,
        "s3": of_s3,
        "events": of_events,
        "lambda": of_lambda,
    }[service](operation, parameters)


def of_dynamodb(operation: str, parameters: dict[str, Any]) -> list[Asked]:
    match operation, parameters:
        case "TransactWriteItems", {"TransactItems": items}:
            return [
                each
                for item in items
                for kind, inner in item.items()
                for each in of_dynamodb({"ConditionCheck": "ConditionCheckItem"}.get(kind, f"{kind}Item"), inner)
            ]
        case "BatchGetItem", {"RequestItems": tables}:
            return [
                Asked("dynamodb:BatchGetItem", table_arn(table), leading(*(key["p"]["S"] for key in wanted["Keys"])))
                for table, wanted in tables.items()
            ]
        case "BatchWriteItem", {"RequestItems": tables}:
            return [Asked("dynamodb:BatchWriteItem", table_arn(table)) for table in tables]
        case "Query", {"IndexName": index, "TableName": table}:
            return [Asked("dynamodb:Query", f"{table_arn(table)}/index/{index}")]
        case "Query", {"TableName": table, "ExpressionAttributeValues": values}:
            # The partition is the first of the values in every query of ours.
            return [Asked("dynamodb:Query", table_arn(table), leading(next(iter(values.values()))["S"]))]
        case (("GetItem" | "UpdateItem" | "DeleteItem"), {"TableName": table, "Key": key}):
            return [Asked(f"dynamodb:{operation}", table_arn(table), leading(key["p"]["S"]))]
        case "PutItem", {"TableName": table, "Item": item}:
            return [Asked("dynamodb:PutItem", table_arn(table), leading(item["p"]["S"]))]
        case _, {"TableName": table}:
            return [Asked(f"dynamodb:{operation}", table_arn(table))]
    raise LookupError(f"dynamodb {operation}")


def table_arn(table: str) -> str:
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}"


def leading(*partitions: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ((KEYS, partitions),)


def of_sqs(operation: str, parameters: dict[str, Any]) -> list[Asked]:
    name = parameters.get("QueueName") or parameters["QueueUrl"].rpartition("/")[2]
    return [Asked(f"sqs:{operation.removesuffix('Batch')}", f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")]


def of_s3(operation: str, parameters: dict[str, Any]) -> list[Asked]:
    bucket = f"arn:aws:s3:::{parameters['Bucket']}"
    match operation:
        case "HeadBucket" | "ListObjectsV2":
            return [Asked("s3:ListBucket", bucket)]
        case "HeadObject" | "GetObject":  # the second right decides between "missing" and "forbidden"
            return [Asked("s3:GetObject", f"{bucket}/{parameters['Key']}"), Asked("s3:ListBucket", bucket)]
        case "PutObject" | "DeleteObject":
            return [Asked(f"s3:{operation}", f"{bucket}/{parameters['Key']}")]
    raise LookupError(f"s3 {operation}")


def of_events(operation: str, parameters: dict[str, Any]) -> list[Asked]:
    buses = {parameters["Name"]} if "Name" in parameters else {each["EventBusName"] for each in parameters["Entries"]}
    return [Asked(f"events:{operation}", f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/{bus}") for bus in sorted(buses)]


def of_lambda(operation: str, parameters: dict[str, Any]) -> list[Asked]:
    assert operation == "Invoke", operation
    name = parameters["FunctionName"] + (f":{parameters['Qualifier']}" if "Qualifier" in parameters else "")
    return [Asked("lambda:InvokeFunction", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}")]


# ── What is allowed ─────────────────────────────────────────────────────────────────────────────────────────────────


def policy_of(fabric: Fabric, name: str) -> list[dict[str, Any]]:
    """The statements of one of its policies, with every reference resolved."""
    found: list[dict[str, Any]] = filled(resources(fabric)[name]["Properties"]["PolicyDocument"]["Statement"])
    return found


def filled(value: Any) -> Any:
    match value:
        case {"Fn::Sub": str(text)}:
            for pseudo, known in HERE.items():
                text = text.replace(pseudo, known)
            return text
        case {"Fn::Join": ["", parts]}:
            return "".join(filled(part) for part in parts)
        case {"Ref": str(name)}:
            return HERE["${" + name + "}"]
        case {"Fn::GetAtt": [str(role), "Arn"]}:
            return f"arn:aws:iam::{ACCOUNT}:role/{role}"
        case dict():
            return {key: filled(each) for key, each in value.items()}
        case list():
            return [filled(each) for each in value]
    return value


def is_allowed(asked: Asked, statements: list[dict[str, Any]]) -> bool:
    """Whether one of the statements allows it. None of ours denies anything."""
    return any(allows(each, asked) for each in statements)


def allows(statement: dict[str, Any], asked: Asked) -> bool:
    assert statement["Effect"] == "Allow"
    return (
        asked.action in statement["Action"]
        and any(fnmatchcase(asked.resource, pattern) for pattern in statement["Resource"])
        and all(holds(kind, tests, dict(asked.context)) for kind, tests in statement.get("Condition", {}).items())
    )


def holds(kind: str, tests: dict[str, Any], context: dict[str, tuple[str, ...]]) -> bool:
    """A condition ("IAM JSON policy elements: Condition operators", IAM user guide)."""
    match kind:
        case "StringEquals":
            return all(context.get(key) == (wanted,) for key, wanted in tests.items())
        case "Null":
            return all((key not in context) == (wanted == "true") for key, wanted in tests.items())
        case "ForAllValues:StringLike":
            return all(
                any(fnmatchcase(value, pattern) for pattern in patterns)
                for key, patterns in tests.items()
                for value in context.get(key, ())
            )
    raise LookupError(kind)
