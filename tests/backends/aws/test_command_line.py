"""``holdfast aws``: the table is made, and cleaned up; what is wrong is said in one line, with the remedy."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import Raw

from holdfast.backends.aws import parse_address
from holdfast.cli import main
from holdfast.coordination.census import MOST_READS
from holdfast.items import Item, Put
from holdfast.messaging.outbox import Entry, encode_entry
from holdfast.opening import open_home

NUMBERS = itertools.count()


@pytest.fixture
def url(dynamodb: str) -> str:
    """A home whose table is not there."""
    return f"aws://cli-{os.getpid()}-{next(NUMBERS)}?region=eu-west-1&endpoint={dynamodb}"


def run(*arguments: str) -> Result:
    return CliRunner(env={"HOLDFAST_APP": "", "HOLDFAST_URL": ""}).invoke(main, arguments)


def answer(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == "", "a machine reads one line and nothing else"
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def refusal(*arguments: str) -> str:
    """The message of an error, the same to people and to machines."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


def write(url: str, *items: Item) -> None:
    async def written() -> None:
        home = await open_home(url)
        for item in items:
            await home.store.write(Put(item))
        await home.doorbell.close()
        await home.store.close()

    asyncio.run(written())


def left(url: str) -> list[str]:
    async def looked() -> list[str]:
        home = await open_home(url)
        assert home.inventory is not None
        names: set[str] = set()
        page = await home.inventory.partitions()
        while names.update(page.names) or page.cursor is not None:
            page = await home.inventory.partitions(after=page.cursor)
        await home.doorbell.close()
        await home.store.close()
        return sorted(names)

    return asyncio.run(looked())


def test_the_table_is_made_once(url: str) -> None:
    table = parse_address(url).table
    assert answer("aws", "create-table", url) == {"home": url, "table": table, "created": True}
    assert answer("aws", "create-table", "--home", url) == {"home": url, "table": table, "created": False}
    assert run("aws", "create-table", url).stdout == f"the table {table} exists already\n"
    write(url, Item("p"))
    assert left(url) == ["p"]


def test_what_has_expired_is_counted_and_then_deleted(url: str) -> None:
    answer("aws", "create-table", url)
    old, kept = "wf#a#old", "wf#a#kept"
    write(url, Item(old, expires_at=1), Item(old, "j#1"), Item(old, "j#2"), Item(kept), Item(kept, "j#1"))
    would = answer("aws", "clean-up", url, "--dry-run")
    assert would == {"home": url, "dry_run": True, "heads": 0, "items": 2, "blobs": 0}
    assert left(url) == [kept, old]
    assert run("aws", "clean-up", url, "--dry-run").stdout == (
        "would delete 2 items of executions that have expired, 0 heads of earlier releases, and 0 blobs\n"
    )
    assert answer("aws", "clean-up", url) == would | {"dry_run": False}
    assert left(url) == [kept, old], "TTL deletes the head"
    assert answer("aws", "clean-up", url)["items"] == 0


def test_the_settings_are_shown_and_changed(url: str) -> None:
    answer("aws", "create-table", url)
    assert (
        run("aws", "settings", url).stdout
        == "the index of what is due has 4 parts; lost wake-ups are found by the index; listings read the table\n"
    )
    wanted = answer("aws", "settings", url, "--parts", "20")
    shown = {"home": url, "parts": 20, "parts_before": [4], "cover": "index", "listing": "scan"}
    assert wanted == shown | {"since": wanted["since"]}
    assert answer("aws", "settings", url) == wanted
    shown = run("aws", "settings", url).stdout
    assert "; before: 4; " in shown
    assert "has 20 parts from " in shown, "that time is still to come"
    assert "takes effect at" in refusal("aws", "settings", url, "--parts", "8")
    assert "settle after" in refusal("aws", "settings", url, "--settle")


def test_listings_by_the_index_want_the_index(url: str) -> None:
    without = url.replace("?", "-without?")
    answer("aws", "create-table", without)
    assert "has no index 'heads'" in refusal("aws", "settings", without, "--listing", "index")
    assert answer("aws", "create-table", url, "--listing")["created"] is True
    write(url, Item("actor#A#1", status="READY"))
    for listed in (("ls",), ("actor", "ls")):
        assert "Add --scan to do that" in refusal(*listed, "--home", url)
        assert run(*listed, "--home", url, "--scan").exit_code == 0
    assert answer("aws", "settings", url, "--listing", "index")["listing"] == "index"
    assert run("aws", "settings", url).stdout.endswith("listings read the index\n")
    assert answer("ls", "--home", url)["executions"] == []


def test_lists_of_the_whole_home_want_to_be_asked_for(url: str) -> None:
    answer("aws", "create-table", url)
    entry = Entry(event="Placed", id="e1", group="!e1", data=Raw(b"{}"), published_at=1)
    lease = Item("lease#report", "p#0000", status="LEASE", owner="elsewhere-1/1", lease_until=1, epoch=1)
    write(url, Item("out#shop", status="SUSPENDED"), Item("out#shop", "o#1", body=encode_entry(entry)), lease)
    for listed, found in ((("outbox", "ls"), "Placed"), (("schedules",), "no schedules"), (("leases",), "report")):
        assert "--scan to do that" in refusal(*listed, "--home", url)
        assert found in run(*listed, "--home", url, "--scan").stdout
    assert "Name an app, or add --scan" in refusal("outbox", "ls", "--home", url)
    assert "Placed" in run("outbox", "ls", "shop", "--home", url).stdout
    shown = answer("workers", "--home", url)
    assert shown["whole"] is False
    assert "elsewhere-1" not in [each["owner"] for each in shown["workers"]]
    assert "on AWS leases count with --scan" in run("workers", "--home", url).stdout
    shown = answer("workers", "--home", url, "--scan")
    assert shown["whole"] is True
    assert ("elsewhere-1", 1) in [(each["owner"], each["leases"]) for each in shown["workers"]]


def test_a_page_without_rows_that_is_not_the_last_says_so(url: str) -> None:
    answer("aws", "create-table", url)
    write(url, *(Item(f"actor#!shop!consumer{number}#", status="READY") for number in range(MOST_READS + 2)))
    shown = run("schedules", "--home", url, "--scan", "--limit", "1").stdout
    assert shown.startswith("none so far, and not all was read\nthere are more: add --after ")


def test_a_table_that_is_not_there_is_named_with_the_command_that_makes_it(url: str) -> None:
    told = refusal("aws", "clean-up", url)
    assert f"there is no table {parse_address(url).table}" in told
    assert "holdfast aws create-table" in told
    assert "region" in told


def test_a_table_of_somebody_else_is_left_alone(url: str, client: Any) -> None:
    client.create_table(
        TableName=parse_address(url).table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    assert "is not Holdfast's" in refusal("aws", "create-table", url)


@pytest.mark.parametrize("command", ["create-table", "clean-up", "settings"])
def test_credentials_that_are_missing_are_asked_for(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    assert "Give credentials and a region" in refusal(
        "aws", command, "aws://shop?region=eu-west-1&endpoint=http://127.0.0.1:9"
    )


@pytest.mark.parametrize("command", ["create-table", "clean-up", "settings"])
def test_a_region_that_is_none_is_told(command: str, dynamodb: str) -> None:
    assert "Give credentials and a region" in refusal("aws", command, f"aws://shop?region=eu+west&endpoint={dynamodb}")


def test_an_option_that_is_mistyped_is_named_with_those_there_are() -> None:
    told = refusal("aws", "create-table", "aws://shop?regoin=eu-west-1")
    assert "has no option regoin; there are: region, endpoint" in told


@pytest.mark.parametrize("command", ["create-table", "clean-up", "settings"])
def test_a_home_that_is_elsewhere_is_refused(command: str) -> None:
    assert "names no home on AWS" in refusal("aws", command, "sqlite:///shop.db")
    result = run("aws", command)
    assert result.exit_code == 2
    assert "Which home?" in result.stderr
