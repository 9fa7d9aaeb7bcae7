"""Versions and aliases by boto3: what was published stays, and an alias leads to it."""

from __future__ import annotations

import asyncio

from tests.http.states.test_machines import PASS, ROLE, WAIT, arn, refused


async def test_a_version_keeps_what_it_was_when_it_was_published(serving):
    async with serving() as boto:
        created = await boto.create_state_machine(
            name="orders", definition=PASS, roleArn=ROLE, publish=True, versionDescription="the first"
        )
        assert created["stateMachineVersionArn"] == arn("orders", "1")
        updated = await boto.update_state_machine(stateMachineArn=arn("orders"), definition=WAIT, publish=True)
        assert updated["stateMachineVersionArn"] == arn("orders", "2")
        first = await boto.describe_state_machine(stateMachineArn=arn("orders", "1"))
        second = await boto.describe_state_machine(stateMachineArn=arn("orders", "2"))
        listed = await boto.list_state_machine_versions(stateMachineArn=arn("orders"))
    assert (first["definition"], first["description"]) == (PASS, "the first")
    assert (second["definition"], second["stateMachineArn"]) == (WAIT, arn("orders", "2"))
    assert [each["stateMachineVersionArn"][-1] for each in listed["stateMachineVersions"]] == ["2", "1"]


async def test_one_revision_is_one_version_however_often_it_is_published(serving):
    async with serving() as boto:
        await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)
        calls = (boto.publish_state_machine_version(stateMachineArn=arn("orders")) for _ in range(4))
        answers = await asyncio.gather(*calls)
        assert {each["stateMachineVersionArn"] for each in answers} == {arn("orders", "1")}
        other = await refused(boto.publish_state_machine_version(stateMachineArn=arn("orders"), revisionId="other"))
    assert other[0] == "ConflictException"
    assert other[1] == (
        "Failed to publish the State Machine version for revision other. The current State Machine revision is INITIAL."
    )


async def test_a_description_needs_a_version(serving):
    async with serving() as boto:
        call = boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE, versionDescription="none")
        told = await refused(call)
    assert told == ("ValidationException", "Version description can only be set when publish is true")


async def test_the_number_of_a_deleted_version_is_not_used_again(serving):
    async with serving() as boto:
        await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE, publish=True)
        await boto.delete_state_machine_version(stateMachineVersionArn=arn("orders", "1"))
        gone = await refused(boto.describe_state_machine(stateMachineArn=arn("orders", "1")))
        again = await boto.publish_state_machine_version(stateMachineArn=arn("orders"))
    assert gone[0] == "StateMachineDoesNotExist"
    assert again["stateMachineVersionArn"] == arn("orders", "2")


def to(*weights: int) -> list[dict[str, object]]:
    return [
        {"stateMachineVersionArn": arn("orders", str(number)), "weight": weight}
        for number, weight in enumerate(weights, start=1)
    ]


async def two_versions(boto) -> None:
    await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE, publish=True)
    await boto.update_state_machine(stateMachineArn=arn("orders"), definition=WAIT, publish=True)


async def test_an_alias_is_created_described_changed_listed_and_deleted(serving):
    async with serving() as boto:
        await two_versions(boto)
        created = await boto.create_state_machine_alias(name="live", routingConfiguration=to(100))
        assert created["stateMachineAliasArn"] == arn("orders", "live")
        assert await boto.create_state_machine_alias(name="live", routingConfiguration=to(100)) == created
        await boto.update_state_machine_alias(
            stateMachineAliasArn=arn("orders", "live"), routingConfiguration=to(90, 10), description="a canary"
        )
        described = await boto.describe_state_machine_alias(stateMachineAliasArn=arn("orders", "live"))
        of_two = await boto.list_state_machine_aliases(stateMachineArn=arn("orders", "2"))
        await boto.delete_state_machine_alias(stateMachineAliasArn=arn("orders", "live"))
        none = await boto.list_state_machine_aliases(stateMachineArn=arn("orders"))
        gone = await refused(boto.describe_state_machine_alias(stateMachineAliasArn=arn("orders", "live")))
    assert (described["routingConfiguration"], described["description"]) == (to(90, 10), "a canary")
    assert [each["stateMachineAliasArn"] for each in of_two["stateMachineAliases"]] == [arn("orders", "live")]
    assert none == {"stateMachineAliases": []}
    assert gone[0] == "ResourceNotFound"


async def test_an_alias_that_leads_nowhere_or_not_wholly_is_refused(serving):
    async with serving() as boto:
        await two_versions(boto)
        short = await refused(boto.create_state_machine_alias(name="live", routingConfiguration=to(50, 40)))
        twice = await refused(boto.create_state_machine_alias(name="live", routingConfiguration=[*to(50), *to(50)]))
        absent = await refused(
            boto.create_state_machine_alias(
                name="live",
                routingConfiguration=[{"stateMachineVersionArn": arn("orders", "7"), "weight": 100}],
            )
        )
        number = await refused(boto.create_state_machine_alias(name="17", routingConfiguration=to(100)))
    assert short[0] == twice[0] == number[0] == "ValidationException"
    assert absent[0] == "ResourceNotFound"


async def test_a_version_with_an_alias_is_not_deleted(serving):
    async with serving() as boto:
        await two_versions(boto)
        await boto.create_state_machine_alias(name="live", routingConfiguration=to(100))
        told = await refused(boto.delete_state_machine_version(stateMachineVersionArn=arn("orders", "1")))
        other = await refused(boto.create_state_machine_alias(name="live", routingConfiguration=to(0, 100)))
    assert told[0] == "ConflictException"
    assert told[1] == (
        "Version to be deleted must not be referenced by an alias. Current list of aliases referencing this version: "
        "[live]"
    )
    assert other[0] == "ConflictException"
