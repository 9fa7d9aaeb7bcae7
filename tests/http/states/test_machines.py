"""Machines by boto3: created, changed, described, listed, deleted; by AWS's rules and with its errors."""

from __future__ import annotations

import asyncio
import json

import pytest
from botocore.exceptions import ClientError

ROLE = "arn:aws:iam::000000000000:role/states"
PASS = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}})
WAIT = json.dumps({"StartAt": "Pause", "States": {"Pause": {"Type": "Wait", "Seconds": 1, "End": True}}})


def arn(*names: str) -> str:
    return ":".join(("arn:aws:states:us-east-1:000000000000:stateMachine", *names))


async def refused(call) -> tuple[str, str]:
    with pytest.raises(ClientError) as told:
        await call
    assert told.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    return told.value.response["Error"]["Code"], told.value.response["Error"]["Message"]


async def test_a_machine_is_described_as_it_was_created(serving):
    async with serving() as boto:
        created = await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)
        assert created["stateMachineArn"] == arn("orders")
        described = await boto.describe_state_machine(stateMachineArn=arn("orders"))
        bare = await boto.describe_state_machine(stateMachineArn=arn("orders"), includedData="METADATA_ONLY")
    assert described == {
        "stateMachineArn": arn("orders"),
        "name": "orders",
        "status": "ACTIVE",
        "definition": PASS,
        "roleArn": ROLE,
        "type": "STANDARD",
        "creationDate": created["creationDate"],
        "loggingConfiguration": {"level": "OFF", "includeExecutionData": False},
        "tracingConfiguration": {"enabled": False},
    }
    assert "definition" not in bare


async def test_the_same_machine_again_is_no_error_and_another_one_is(serving):
    async with serving() as boto:
        first = await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)
        again = await boto.create_state_machine(name="orders", definition=PASS, roleArn=f"{ROLE}-2")
        assert again == first
        laid_out_otherwise = json.dumps(json.loads(PASS), indent=1)  # as AWS: by the text, not by what it says
        for definition in (WAIT, laid_out_otherwise):
            other = boto.create_state_machine(name="orders", definition=definition, roleArn=ROLE)
            assert await refused(other) == (
                "StateMachineAlreadyExists",
                f"State Machine Already Exists: '{arn('orders')}'",
            )


NO_VALUES = ["NaN", "1e999", r'"\ud800"', "[" * 200 + "]" * 200]


@pytest.mark.parametrize("value", NO_VALUES, ids=["nan", "beyond", "half a pair", "deep"])
async def test_a_definition_that_is_no_strict_json_is_refused(value, serving):
    text = '{"StartAt":"S","States":{"S":{"Type":"Pass","End":true,"Result":' + value + "}}}"
    async with serving() as boto:
        refusal = await refused(boto.create_state_machine(name="orders", definition=text, roleArn=ROLE))
        assert refusal[0] == "InvalidDefinition"
        validated = await boto.validate_state_machine_definition(definition=text)
        assert validated["result"] == "FAIL"
        assert len(validated["diagnostics"]) == 1
        assert (await refused(boto.test_state(definition=text, stateName="S", roleArn=ROLE)))[0] == "InvalidDefinition"
        inner = boto.test_state(definition='{"Type": "Succeed"}', input=value, roleArn=ROLE)
        assert (await refused(inner))[0] == "InvalidExecutionInput"


async def test_many_who_create_the_same_machine_at_once_create_one(serving):
    async with serving() as boto:
        calls = (boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE) for _ in range(5))
        answers = await asyncio.gather(*calls)
        listed = await boto.list_state_machines()
    assert all(each == answers[0] for each in answers)
    assert [each["name"] for each in listed["stateMachines"]] == ["orders"]


async def test_an_update_changes_the_definition_and_names_a_revision(serving):
    async with serving() as boto:
        await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)
        updated = await boto.update_state_machine(stateMachineArn=arn("orders"), definition=WAIT)
        described = await boto.describe_state_machine(stateMachineArn=arn("orders"))
        assert (described["definition"], described["revisionId"]) == (WAIT, updated["revisionId"])
        same = await boto.update_state_machine(stateMachineArn=arn("orders"), definition=WAIT)
        assert same["revisionId"] == updated["revisionId"]
        nothing = await refused(boto.update_state_machine(stateMachineArn=arn("orders")))
        nobody = await refused(boto.update_state_machine(stateMachineArn=arn("nobody"), definition=PASS))
    assert nothing[0] == "MissingRequiredParameter"
    assert nobody == ("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn('nobody')}'")


async def test_a_deleted_machine_is_gone_and_may_be_deleted_again(serving):
    async with serving() as boto:
        await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)
        for _ in range(2):
            assert await boto.delete_state_machine(stateMachineArn=arn("orders")) == {}
        gone = await refused(boto.describe_state_machine(stateMachineArn=arn("orders")))
        assert gone == ("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn('orders')}'")
        assert (await boto.create_state_machine(name="orders", definition=WAIT, roleArn=ROLE))["stateMachineArn"]


async def test_machines_are_listed_page_by_page(serving):
    async with serving() as boto:
        for name in "edcba":
            await boto.create_state_machine(name=name, definition=PASS, roleArn=ROLE)
        found, token = [], {}
        while True:
            page = await boto.list_state_machines(maxResults=2, **token)
            found.append([each["name"] for each in page["stateMachines"]])
            if "nextToken" not in page:
                break
            token = {"nextToken": page["nextToken"]}
        forged = await refused(boto.list_state_machines(nextToken="x" * 40))
        activities = boto.list_activities(nextToken=token["nextToken"])
        assert await refused(activities) == forged, "a token is good for the list that it was answered with"
    assert [name for page in found for name in page] == list("abcde")
    assert max(map(len, found)) == 2
    assert forged == ("InvalidToken", "Invalid Token: 'Invalid token'")


@pytest.mark.parametrize("name", ["a b", "a#b", "a:b", "a" * 81, "a/b", "ä\u0085", "<a>"])
async def test_a_name_of_other_characters_is_refused(serving, name):
    async with serving() as boto:
        code, message = await refused(boto.create_state_machine(name=name, definition=PASS, roleArn=ROLE))
    assert (code, message) == ("InvalidName", f"Invalid Name: '{name}'")


async def test_what_is_no_arn_of_a_machine_is_refused(serving):
    async with serving() as boto:
        for text in ("orders", "arn:aws:states:us-east-1:000000000000:execution:orders:o"):
            code, _ = await refused(boto.describe_state_machine(stateMachineArn=text))
            assert code == "InvalidArn"


async def test_tags_are_kept_changed_and_listed(serving):
    async with serving() as boto:
        await boto.create_state_machine(
            name="orders", definition=PASS, roleArn=ROLE, tags=[{"key": "team", "value": "till"}]
        )
        await boto.tag_resource(resourceArn=arn("orders"), tags=[{"key": "stage", "value": "test"}])
        await boto.untag_resource(resourceArn=arn("orders"), tagKeys=["team"])
        listed = await boto.list_tags_for_resource(resourceArn=arn("orders"))
        nobody = await refused(boto.list_tags_for_resource(resourceArn=arn("nobody")))
        many = [{"key": str(n), "value": ""} for n in range(50)]
        too_many = await refused(boto.tag_resource(resourceArn=arn("orders"), tags=many))
    assert listed == {"tags": [{"key": "stage", "value": "test"}]}
    assert nobody[0] == "ResourceNotFound"
    assert too_many[0] == "TooManyTags"


@pytest.mark.parametrize("logging", [{"level": "ALL"}, {"level": "ALL", "destinations": []}], ids=["bare", "empty"])
async def test_logging_without_a_destination_is_refused(logging, serving):
    async with serving() as boto:
        call = boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE, loggingConfiguration=logging)
        told = await refused(call)
    assert told == (
        "InvalidLoggingConfiguration",
        "Invalid Logging Configuration: Must specify exactly one Log Destination.",
    )


async def test_a_definition_that_is_no_json_is_refused(serving):
    async with serving() as boto:
        code, _ = await refused(boto.create_state_machine(name="orders", definition="not a machine", roleArn=ROLE))
    assert code == "InvalidDefinition"
