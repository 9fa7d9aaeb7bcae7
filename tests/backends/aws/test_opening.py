"""Opening a home on AWS: its URL, what is loaded for it and when, and what a person hears who has made a mistake."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

import holdfast as hf
from holdfast.backends.aws import Bells, LocalDoorbell, create_table, open_aws_home, parse_address
from holdfast.backends.aws.table import create_table as create_dynamo_table
from holdfast.errors import ConfigurationError, StoreUnavailable, StoreUnusable
from holdfast.items import ABSENT, Item, Put
from holdfast.opening import open_home

WRONG = [
    "aws://",
    "aws:///shop",
    "aws://shop/table",
    "aws://my shop",
    "dynamodb://shop",
    "aws://sh.op",
]


def test_a_url_says_which_table_and_where() -> None:
    address = parse_address("aws://shop?region=eu-west-1&endpoint=http://127.0.0.1:8000")
    assert (address.table, address.region, address.endpoint) == ("shop-holdfast", "eu-west-1", "http://127.0.0.1:8000")
    assert parse_address("aws://shop_2-b").region is None


@pytest.mark.parametrize("url", WRONG)
def test_a_url_that_names_nothing_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="aws://prefix"):
        parse_address(url)


@pytest.mark.parametrize("option", ["endpoint", "sqs_endpoint", "s3_endpoint", "lambda_endpoint", "events_endpoint"])
@pytest.mark.parametrize("value", ["garbage", "127.0.0.1:8000", "http://", "ftp://127.0.0.1", "http://127.0.0.1:x"])
def test_an_endpoint_that_is_no_url_is_refused(option: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} is no URL; write its scheme"):
        parse_address(f"aws://shop?region=eu-west-1&{option}={value}")
    assert parse_address(f"aws://shop?{option}=").endpoint is None


def test_an_option_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has region more than once"):
        parse_address("aws://shop?region=eu-west-1&region=us-east-1")


def test_botocore_is_loaded_with_the_first_request_only() -> None:
    code = """
import asyncio, sys
from holdfast.opening import open_home
async def main():
    home = await open_home("aws://shop?region=eu-west-1")
    assert not {"boto3", "botocore"} & set(sys.modules), "opening sends nothing"
    await home.store.close()
    await home.doorbell.close()
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


async def test_a_home_tells_its_url_without_the_password() -> None:
    home = await open_home("aws://shop?region=eu-west-1&endpoint=http://ann:hunter2@127.0.0.1:9")
    assert home.url == "aws://shop?region=eu-west-1&endpoint=http://ann:***@127.0.0.1:9"
    await home.doorbell.close()
    await home.store.close()


async def test_a_home_on_aws_works_from_its_url(new_url: Callable[[], Awaitable[str]]) -> None:
    url = await new_url()
    home = await open_home(url)
    await home.store.write(Put(Item("p", body=b"body"), ABSENT))
    assert await home.store.get("p") == Item("p", body=b"body")
    assert (home.url, home.purges, home.transactions) == (url, None, None)
    await home.store.close()


async def test_the_table_is_made_once_with_expiry(
    dynamodb: str, new_url: Callable[[], Awaitable[str]], client: Any
) -> None:
    url = await new_url()
    await create_table(url)
    table = client.describe_table(TableName=parse_address(url).table)["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    expiry = client.describe_time_to_live(TableName=parse_address(url).table)["TimeToLiveDescription"]
    assert (expiry["AttributeName"], expiry["TimeToLiveStatus"]) == ("x", "ENABLED")


async def test_a_connection_that_breaks_while_the_table_is_made_is_told_as_such() -> None:
    class Broken:
        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            raise ConnectionClosedError(endpoint_url="http://127.0.0.1")

        def close(self) -> None: ...

    with pytest.raises(StoreUnavailable, match="CreateTable of the table shop-holdfast failed"):
        await create_dynamo_table(Broken(), "shop-holdfast")


async def test_a_table_that_is_missing_is_named_with_the_remedy(dynamodb: str) -> None:
    home = await open_home(f"aws://nothing?region=eu-west-1&endpoint={dynamodb}")
    with pytest.raises(StoreUnusable, match=r"no table nothing-holdfast.*create_table"):
        await home.store.get("p")
    await home.store.close()


async def test_credentials_that_are_missing_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    home = await open_aws_home("aws://shop?region=eu-west-1&endpoint=http://127.0.0.1:9")
    with pytest.raises(StoreUnusable, match="credentials"):
        await home.store.get("p")
    await home.store.close()


async def test_homes_of_one_process_hear_each_other_if_they_share_bells() -> None:
    bells = Bells()
    one, two, alone = LocalDoorbell(bells, "one"), LocalDoorbell(bells, "two"), LocalDoorbell(Bells(), "alone")
    heard: list[tuple[str, str | None]] = []
    for name, bell in (("one", one), ("two", two), ("alone", alone)):
        bell.listen(lambda partition, name=name: heard.append((name, partition)))
    one.ring("p")
    assert heard == []
    await asyncio.sleep(0)
    assert heard == [("two", "p")]
    assert (one.peers(), alone.peers()) == (frozenset({"two"}), frozenset())
    assert one.alive("somebody on another machine"), "nothing is known of him"
    await two.close()
    assert not one.alive("two")
    one.ring("q")
    await asyncio.sleep(0)
    assert heard == [("two", "p")]


def test_an_app_takes_the_url() -> None:
    assert hf.App("shop", home="aws://shop?region=eu-west-1").home_url == "aws://shop?region=eu-west-1"
