"""A trial from its beginning to its removal: everything that was made is gone, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.infra.ministack import REGION
from tests.verify.conftest import begun

from holdfast.backends.aws import parse_address
from holdfast.backends.aws.connection import new_client
from holdfast.cli import aws_verify, main
from holdfast.errors import ConfigurationError, StoreUnusable
from holdfast.verify import CHECKS, Check, left_behind, read_record, remove, standing, verify
from holdfast.verify.checks import contention, delivery, fencing, latency, settings, sources, units
from holdfast.verify.finding import BY_EMULATOR, DIFFERENT, OK, UNTOLD, Finding

pytestmark = [pytest.mark.aws, pytest.mark.slow, pytest.mark.process]

SMALL = (
    (contention, "STORM_WRITES", 32),
    (contention, "INDEX_WRITES", 64),
    (delivery, "LOST_STARTS", 1),
    (delivery, "NAPS", 1),
    (delivery, "NAP_SECONDS", 1),
    (latency, "COLD_CALLS", 1),
    (latency, "WARM_CALLS", 5),
)


def there(url: str) -> list[str]:
    """What of trials is in the account."""
    endpoint = parse_address(url).endpoint
    clients = {name: new_client(REGION, endpoint, name) for name in ("s3", "dynamodb", "cloudformation", "sqs")}
    stacks = clients["cloudformation"].describe_stacks()["Stacks"]
    found = [
        *(each["Name"] for each in clients["s3"].list_buckets()["Buckets"]),
        *clients["dynamodb"].list_tables()["TableNames"],
        *clients["sqs"].list_queues().get("QueueUrls", []),
        *(each["StackName"] for each in stacks if each["StackStatus"] != "DELETE_COMPLETE"),
    ]
    for each in clients.values():
        each.close()
    return [name for name in found if "verify-" in name]


def quiet(_text: str) -> None: ...


@pytest.mark.torture
def test_all_checks_end_to_end_by_the_command(url, monkeypatch):
    verified(url, CHECKS, monkeypatch)


def test_quick_checks_end_to_end_by_the_command(url, monkeypatch):
    quick = (settings.EXPIRY, sources.SOURCES, units.SINGLE, units.TRANSACTIONS, fencing.FROZEN)
    verified(url, [check for check in CHECKS if check.name in quick], monkeypatch)


def verified(url: str, checks: Sequence[Check], monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)
    chosen = [f"--only={check.name}" for check in checks]
    arguments = ["aws", "verify", url, "--yes", "--json", *chosen]
    result = CliRunner(env={"HOLDFAST_APP": "", "HOLDFAST_URL": ""}).invoke(main, arguments)
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    assert [each["check"] for each in told["findings"]] == [check.name for check in checks]
    for check, each in zip(checks, told["findings"], strict=True):
        assert each["verdict"] == (UNTOLD if check.emulator else OK), each
        assert each["told"].startswith(BY_EMULATOR) == bool(check.emulator), each
    assert told["is_emulator"] and told["usd"] > 0
    assert there(url) == []
    assert left_behind() == []


def check_that(work: Any) -> Check:
    return Check(name="planted", shows="what the test wants", run=work)


async def test_what_a_check_raises_is_its_finding_and_all_is_removed(url):
    async def breaks(_bench: Any) -> Finding:
        raise RuntimeError("planted")

    async def refused(_bench: Any) -> Finding:
        error = Exception("planted")
        error.response = {"Error": {"Code": "AccessDeniedException"}}  # as botocore's errors have it
        raise error

    report = await verify(url, quiet, checks=[check_that(breaks), check_that(refused)])
    assert [(each.verdict, each.told) for each in report.findings] == [
        (DIFFERENT, "RuntimeError: planted"),
        (UNTOLD, "you lack a right: planted"),
    ]
    assert not report.ok
    assert there(url) == []


def test_an_account_that_cannot_be_reached_is_one_line(url):
    result = CliRunner().invoke(
        main, ["aws", "verify", "aws://shop?region=eu-west-1&endpoint=http://127.0.0.1:1", "--yes"]
    )
    assert result.exit_code == 1
    assert "AWS did not do what a trial needs" in result.stderr.splitlines()[-1]
    assert left_behind() == []


async def test_a_run_that_is_stopped_in_the_middle_removes_what_it_has_made(url):
    within = asyncio.Event()

    async def waits(_bench: Any) -> Finding:
        within.set()
        await asyncio.Event().wait()
        raise AssertionError

    trial = asyncio.create_task(verify(url, quiet, checks=[check_that(waits)]))
    await within.wait()
    assert there(url)
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    assert there(url) == []
    assert left_behind() == []


async def test_a_stack_that_is_refused_leaves_nothing(url, monkeypatch):
    monkeypatch.setattr(standing, "stack_of", lambda *_: {"Resources": {"Broken": {"Type": "AWS::No::Such"}}})
    with pytest.raises(StoreUnusable, match="Unrecognized resource types"):
        await verify(url, quiet, checks=[])
    assert (there(url), left_behind()) == ([], [])


async def test_a_stack_that_fails_is_told_with_the_reason_and_removed(url, monkeypatch):
    stack_of = standing.stack_of

    def broken(*given: Any) -> Any:
        made = stack_of(*given)
        made["Resources"]["Broken"] = {"Type": "AWS::CloudFront::Function", "Properties": {"Name": "x"}}
        return made

    monkeypatch.setattr(standing, "stack_of", broken)
    with pytest.raises(StoreUnusable, match="could not be created: Broken"):
        await verify(url, quiet, checks=[])
    assert (there(url), left_behind()) == ([], [])


async def test_what_was_kept_is_removed_by_its_record(url):
    report = await verify(url, quiet, checks=[], keep=True)
    (record,) = left_behind()
    assert report.kept == str(record.path)
    assert there(url)
    await remove(record, quiet)
    assert (there(url), left_behind()) == ([], [])


async def test_a_stack_without_the_mark_of_the_record_is_left_alone(url):
    await verify(url, quiet, checks=[], keep=True)
    (record,) = left_behind()
    before = there(url)
    other = record.path.read_text().replace(record.mark, "0" * 32)
    own = record.path.read_text()
    record.path.write_text(other)
    with pytest.raises(StoreUnusable, match="mark"):
        await remove(read_record(record.path), quiet)
    assert there(url) == before
    record.path.write_text(own)
    await remove(record, quiet)
    assert there(url) == []


async def test_a_record_of_another_account_is_refused(url):
    record = begun(url)
    with pytest.raises(ConfigurationError, match="account"):
        await remove(replace(record, account="111111111111"), quiet)
    record.end()


def test_nothing_is_deployed_unless_it_is_agreed_to(url, monkeypatch):
    monkeypatch.setattr(aws_verify, "is_interactive", lambda: True)
    result = CliRunner().invoke(main, ["aws", "verify", url], input="n\n")
    assert result.exit_code != 0
    assert "at most $" in result.stderr
    assert there(url) == []


def test_the_checks_are_listed(url):
    result = CliRunner().invoke(main, ["aws", "verify", url, "--list"])
    assert result.exit_code == 0
    assert all(check.name in result.stdout for check in CHECKS)
