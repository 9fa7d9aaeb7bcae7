"""The template, deployed to a stand-in for AWS, and everything in it read back and used.

The stand-in drops what it does not imitate (expiry, recovery, lifecycle rules) and enforces no permissions: for those,
see test_template.py.
"""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.infra.fabrics import of_type
from tests.infra.ministack import REGION, clients, only_ministack, wait_until

import holdfast as hf
from holdfast.backends.aws.table import table_definition
from holdfast.infra import EventRule, Fabric, Function, UploadedCode, template

pytestmark = [pytest.mark.aws, pytest.mark.slow, pytest.mark.process]

HANDLER = """
import boto3, json, os

def asked(record):
    if "holdfast" in record:
        return record["holdfast"]
    if "dynamodb" in record:  # the stand-in knows no filters, and this function writes into the table, too
        return "due" if "w" in record["dynamodb"].get("NewImage", {}) else None
    if record["body"].startswith("{"):
        return json.loads(record["body"])["detail-type"]
    return record["eventSourceARN"].rpartition(":")[2]

def handler(event, context):
    table = boto3.resource("dynamodb").Table("shop-holdfast")
    for what in filter(None, map(asked, event.get("Records", [event]))):
        item = {"p": "called", "s": what, "url": os.environ["HOLDFAST_URL"], "code": CODE}
        table.put_item(Item=item | {"version": context.function_version})
    return {"batchItemFailures": []}
"""

Client = Callable[[str], Any]


def fabric(code: str) -> Fabric:
    """With code that is known by its name. The stand-in runs it on its own Python and machine, whatever we say."""
    function = Function(code=UploadedCode("code-bucket", code, code), url="iam")
    return Fabric(
        prefix="shop",
        function=function,
        event_rules=[EventRule("shop-holdfast", {"source": ["other.shop"]})],
        stream=True,
    )


def upload(client: Client, code: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("handler.py", f"CODE = {code!r}\n{HANDLER}")
    client("s3").put_object(Bucket="code-bucket", Key=code, Body=packed.getvalue())


def settled(client: Client) -> str:
    """The status of the stack once nothing is under way."""

    def look() -> str | None:
        status = client("cloudformation").describe_stacks(StackName="shop")["Stacks"][0]["StackStatus"]
        return None if status.endswith("IN_PROGRESS") else status

    return wait_until(look)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with only_ministack(tmp_path_factory) as address:
        yield address


@pytest.fixture(scope="module")
def client(endpoint: str) -> Iterator[Client]:
    """``client("sqs")``; the stack is there."""
    with clients(endpoint) as get:
        get("s3").create_bucket(Bucket="code-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
        upload(get, "first")
        body = json.dumps(template(fabric("first")))
        get("cloudformation").create_stack(StackName="shop", TemplateBody=body, Capabilities=["CAPABILITY_IAM"])
        assert settled(get) == "CREATE_COMPLETE"
        yield get


def outputs(client: Client) -> dict[str, str]:
    (stack,) = client("cloudformation").describe_stacks(StackName="shop")["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def attributes(client: Client, name: str) -> dict[str, str]:
    url = client("sqs").get_queue_url(QueueName=name)["QueueUrl"]
    return client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


def test_every_resource_is_made(client):
    made = client("cloudformation").describe_stack_resources(StackName="shop")["StackResources"]
    assert {each["LogicalResourceId"] for each in made} == set(template(fabric("first"))["Resources"])
    assert {each["ResourceStatus"] for each in made} == {"CREATE_COMPLETE"}


def test_the_table_has_its_keys_and_indexes(client):
    table = client("dynamodb").describe_table(TableName="shop-holdfast")["Table"]
    wanted = table_definition("shop-holdfast")
    assert table["KeySchema"] == wanted["KeySchema"]
    assert table["AttributeDefinitions"] == wanted["AttributeDefinitions"]
    indexes = [
        {name: index[name] for name in wanted["GlobalSecondaryIndexes"][0]} for index in table["GlobalSecondaryIndexes"]
    ]
    assert indexes == wanted["GlobalSecondaryIndexes"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_queues_send_what_cannot_be_taken_to_their_dead_letters(client):
    for name, fifo in (("doorbell", ""), ("ordered", ".fifo")):
        found = attributes(client, f"shop-holdfast-{name}{fifo}")
        assert json.loads(found["RedrivePolicy"])["deadLetterTargetArn"].endswith(f":shop-holdfast-{name}-dead{fifo}")
        assert found["VisibilityTimeout"] == "360"
        assert attributes(client, f"shop-holdfast-{name}-dead{fifo}")["MessageRetentionPeriod"] == "1209600"
    assert attributes(client, "shop-holdfast-ordered.fifo")["FifoQueue"] == "true"


def test_the_sweep_is_scheduled(client):
    (rule,) = [each for each in client("events").list_rules()["Rules"] if "sweep" in each["Name"]]
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    (target,) = client("events").list_targets_by_rule(Rule=rule["Name"])["Targets"]
    assert target["Arn"] == outputs(client)["Function"].removesuffix("live") + "sweep"
    assert json.loads(target["Input"]) == {"holdfast": "sweep"}


def test_the_bus_and_the_alarms_are_there(client):
    assert "shop-holdfast" in [bus["Name"] for bus in client("events").list_event_buses()["EventBuses"]]
    made = [alarm["AlarmDescription"] for alarm in client("cloudwatch").describe_alarms()["MetricAlarms"]]
    alarms = of_type(fabric("first"), "AWS::CloudWatch::Alarm")
    assert sorted(made) == sorted(alarm["AlarmDescription"] for alarm in alarms.values())
    assert client("cloudwatch").list_dashboards()["DashboardEntries"][0]["DashboardName"] == "shop-holdfast"


def calls(client: Client) -> dict[str, dict[str, str]]:
    """What the handler has written, by who called it."""
    wanted = {":p": {"S": "called"}}
    found = client("dynamodb").query(
        TableName="shop-holdfast", KeyConditionExpression="p = :p", ExpressionAttributeValues=wanted
    )
    items = [{name: next(iter(value.values())) for name, value in item.items()} for item in found["Items"]]
    return {item["s"]: item for item in items}


def test_rings_ordered_messages_and_sweeps_reach_the_function(client):
    known = outputs(client)
    client("sqs").send_message(QueueUrl=known["DoorbellQueue"], MessageBody="ring")
    client("sqs").send_message(
        QueueUrl=known["OrderedQueue"], MessageBody="add", MessageGroupId="cart-1", MessageDeduplicationId="1"
    )
    client("lambda").invoke(FunctionName=known["Function"], Payload=json.dumps({"holdfast": "sweep"}))
    senders = {"shop-holdfast-doorbell", "shop-holdfast-ordered.fifo", "sweep"}
    found = wait_until(lambda: found if senders <= (found := calls(client)).keys() else None)
    assert {found[sender]["url"] for sender in senders} == {known["HomeUrl"]}
    assert {found[sender]["version"] for sender in senders} == {"1"}
    for name in ("shop-holdfast-doorbell-dead", "shop-holdfast-ordered-dead.fifo"):
        assert attributes(client, name)["ApproximateNumberOfMessages"] == "0"


def test_events_that_a_rule_chooses_reach_the_function(client):
    for source, name in (("another.shop", "OrderLost"), ("other.shop", "OrderPlaced"), ("other.shop", "OrderPaid")):
        entry = {"EventBusName": "shop-holdfast", "Source": source, "DetailType": name, "Detail": "{}"}
        assert client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0
    found = wait_until(lambda: found if {"OrderPlaced", "OrderPaid"} <= (found := calls(client)).keys() else None)
    assert "OrderLost" not in found


def test_what_is_due_in_the_table_reaches_the_function(client):
    due = {"p": {"S": "actor#Cart#1"}, "s": {"S": "@"}, "w": {"S": "1"}}
    client("dynamodb").put_item(TableName="shop-holdfast", Item=due)
    assert wait_until(lambda: calls(client).get("due"))["version"] == "1"


def test_an_app_works_on_the_table(client, endpoint):
    app = hf.App("shop", home=f"aws://shop?region={REGION}&endpoint={endpoint}")

    @app.step
    async def charge(cents: int) -> int:
        return cents

    @app.workflow
    async def checkout(cents: int) -> int:
        return await charge(cents)

    async def main() -> int:
        async with app.worker():
            return await (await checkout.start(1999, id="order-17"))

    assert asyncio.run(main()) == 1999


def test_new_code_goes_live_and_the_old_version_stays(client):
    upload(client, "second")
    body = json.dumps(template(fabric("second")))
    client("cloudformation").update_stack(StackName="shop", TemplateBody=body, Capabilities=["CAPABILITY_IAM"])
    assert settled(client) == "UPDATE_COMPLETE"
    assert client("lambda").get_alias(FunctionName="shop-holdfast", Name="live")["FunctionVersion"] == "2"
    client("lambda").invoke(FunctionName=outputs(client)["Function"], Payload=json.dumps({"holdfast": "new"}))
    client("lambda").invoke(FunctionName="shop-holdfast:1", Payload=json.dumps({"holdfast": "pinned"}))
    found = calls(client)
    assert (found["new"]["code"], found["new"]["version"]) == ("second", "2")
    assert (found["pinned"]["code"], found["pinned"]["version"]) == ("first", "1")
