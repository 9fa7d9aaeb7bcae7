"""The services around the table, asked by ``holdfast doctor``: whatever they answer, also nothing, is told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.backends.aws.cloud import Refusal

from holdfast.backends.aws import parse_address
from holdfast.backends.aws.services import AwsServices
from holdfast.cli.checks import check_services
from holdfast.watched import Reached

NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


class Aws:
    """Services that know some queues and answer everything else, unless they are ``broken``."""

    def __init__(self, queues: dict[str, int], broken: dict[str, Exception] | None = None) -> None:
        self.queues, self.broken = queues, broken or {}
        self.open = 0

    def connect(self, service: str) -> Any:
        return Connection(self, service)

    def services(self, **options: Any) -> AwsServices:
        known = {"bucket": "large", "bus": "shop-holdfast"} | options
        return AwsServices("shop", self.connect, **known)


class Connection:
    def __init__(self, aws: Aws, service: str) -> None:
        self._aws, self._service = aws, service
        aws.open += 1

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if self._service in self._aws.broken:
            raise self._aws.broken[self._service]
        match operation, parameters:
            case "GetQueueUrl", {"QueueName": name}:
                if name not in self._aws.queues:
                    raise Refusal(NO_QUEUE)
                return {"QueueUrl": name}
            case "GetQueueAttributes", {"QueueUrl": name}:
                return {"Attributes": {"ApproximateNumberOfMessages": str(self._aws.queues[name])}}
            case "DescribeEventBus", {"Name": "shop-holdfast"}:
                return {}
            case "HeadBucket", {"Bucket": "large"}:
                return {}
        raise AssertionError(operation)

    def close(self) -> None:
        self._aws.open -= 1


ALL = {
    "shop-holdfast-doorbell": 3,
    "shop-holdfast-doorbell-dead": 0,
    "shop-holdfast-ordered.fifo": 0,
    "shop-holdfast-ordered-dead.fifo": 0,
}


async def lacks(aws: Aws, **options: Any) -> dict[str, Reached]:
    found = await aws.services(**options).check()
    assert aws.open == 0
    return {each.service: each for each in found if each.lack is not None}


async def test_all_is_well() -> None:
    aws = Aws(ALL)
    assert await lacks(aws) == {}
    told = {each.service: each.told for each in await aws.services().check()}
    assert told.keys() == {"doorbell", "ordered", "eventbridge", "bucket"}
    assert told["doorbell"] == "3 messages in shop-holdfast-doorbell"


async def test_a_queue_that_is_missing_is_a_lack_unless_it_need_not_be_there() -> None:
    found = await lacks(Aws({}))
    assert found.keys() == {"doorbell"}
    assert NO_QUEUE in str(found["doorbell"].lack)
    assert "by sweeps" in found["doorbell"].told


async def test_dead_letters_are_a_lack() -> None:
    found = await lacks(Aws(ALL | {"shop-holdfast-ordered-dead.fifo": 2}))
    assert found["ordered"] == Reached(
        "ordered",
        "find the cause (holdfast dlq ls), then holdfast dlq redrive",
        "2 dead letters of shop-holdfast-ordered.fifo",
    )


@pytest.mark.parametrize(
    ("service", "names"),
    [("sqs", {"doorbell", "ordered"}), ("events", {"eventbridge"}), ("s3", {"bucket"})],
)
@pytest.mark.parametrize("error", [Refusal("AccessDeniedException"), ConnectionError("nobody answers")], ids=str)
async def test_a_service_that_cannot_be_reached_is_a_lack_and_the_others_are_asked(
    service: str, names: set[str], error: Exception
) -> None:
    found = await lacks(Aws(ALL, {service: error}))
    assert found.keys() == names
    assert all(str(error) in str(each.lack) for each in found.values())


async def test_what_the_url_does_not_name_is_not_asked() -> None:
    aws = Aws(ALL, {service: AssertionError() for service in ("events", "s3")})
    assert await lacks(aws, bucket=None, bus=None) == {}


def test_the_url_says_what_there_is() -> None:
    found = parse_address("aws://shop?region=eu-west-1&bucket=large").services()
    assert (found.bucket, found.bus) == ("large", None)


async def test_the_doctor_warns_of_each_lack() -> None:
    class Home:
        services = Aws({}).services()

    found = {each.check: each for each in await check_services(Home())}  # type: ignore[arg-type]
    assert found["doorbell"].level == "warn"
    assert found["doorbell"].told.startswith(NO_QUEUE)
    assert found["bucket"].level == "ok"
