"""Wake-ups as messages: how many requests they are, when they arrive, and what becomes of those that cannot be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.backends.aws.cloud import URL, Cloud, Refusal

from holdfast.backends.aws import Bells, SqsDoorbell, parse_address
from holdfast.backends.aws.doorbell import LEFT_TO_SWEEPS_MS
from holdfast.ports import WakeUp
from holdfast.testing.virtual_time import run_virtual


def ringing(story: Callable[[Cloud, SqsDoorbell], Any]) -> None:
    async def nothing(_owner: str) -> Any:
        raise AssertionError("no store is needed")

    async def main() -> None:
        async with Cloud(nothing, None) as cloud:
            ringer = parse_address(URL).bells(cloud.sqs)
            bell = SqsDoorbell(Bells(), "env", ringer, cloud.clock, cloud._tell)
            await story(cloud, bell)
            await bell.close()

    run_virtual(main)


def test_the_rings_of_a_tick_are_one_request_for_ten_and_each_is_sent_once() -> None:
    async def story(cloud: Cloud, bell: SqsDoorbell) -> None:
        for _ in range(3):
            for n in range(25):
                bell.ring(f"wf#job#{n}")
        await bell.sent()
        assert cloud.sqs.requests == {"GetQueueUrl": 1, "SendMessageBatch": 3}
        assert sorted(each["partition"] for each in cloud.sqs.sent) == sorted(f"wf#job#{n}" for n in range(25))
        bell.ring("wf#job#0")
        await bell.sent()
        assert cloud.sqs.requests["SendMessageBatch"] == 4

    ringing(story)


@pytest.mark.parametrize(
    ("left_ms", "delay"),
    [(-5, 0), (0, 0), (1, 1), (1000, 1), (1001, 2), (LEFT_TO_SWEEPS_MS, 90), (LEFT_TO_SWEEPS_MS + 1, None)],
)
def test_a_ring_at_a_time_is_never_early_and_a_distant_one_is_left_to_sweeps(left_ms: int, delay: int | None) -> None:
    async def story(cloud: Cloud, bell: SqsDoorbell) -> None:
        bell.wake_at("wf#job#1", cloud.clock.now_ms() + left_ms)
        await bell.sent()
        assert cloud.sqs.delays == ([] if delay is None else [delay])

    ringing(story)


def test_calls_of_a_sweep_are_sent_ten_to_a_request_and_those_that_were_lost_are_named() -> None:
    async def story(cloud: Cloud, bell: SqsDoorbell) -> None:
        now = cloud.clock.now_ms()
        wake_ups = [WakeUp(f"wf#job#{n:02}", now + 1000 * n) for n in range(25)]
        assert await bell.call(wake_ups) == []
        assert cloud.sqs.requests == {"GetQueueUrl": 1, "SendMessageBatch": 3}
        assert sorted(cloud.sqs.delays) == list(range(25))
        cloud.sqs.broken = ["InternalError"] * 3
        assert await bell.call(wake_ups[:2]) == wake_ups[:1]
        cloud.sqs.broken = [Refusal("AWS.SimpleQueueService.NonExistentQueue")]
        assert await bell.call(wake_ups[:12]) == wake_ups[:10]
        assert await bell.call(wake_ups[:2]) == wake_ups[:2], "for a while no other is sent"
        assert cloud.told == {"ring_failed": 11}

    ringing(story)


@pytest.mark.parametrize(
    "fault", ["InternalError", Refusal("ThrottlingException"), Refusal("InternalFailure", 500), TimeoutError("slow")]
)
def test_what_was_turned_away_is_sent_again(fault: Exception | str) -> None:
    async def story(cloud: Cloud, bell: SqsDoorbell) -> None:
        bell.ring("wf#job#first")
        await bell.sent()
        cloud.sqs.broken = [fault]
        for n in range(3):
            bell.ring(f"wf#job#{n}")
        await bell.sent()
        assert {each["partition"] for each in cloud.sqs.sent} == {"wf#job#first", *(f"wf#job#{n}" for n in range(3))}
        assert len(cloud.sqs.sent) == 4
        assert cloud.told == {}

    ringing(story)


def test_what_cannot_be_sent_is_told_and_raises_nothing() -> None:
    async def story(cloud: Cloud, bell: SqsDoorbell) -> None:
        cloud.sqs.broken = [Refusal("InternalFailure", 500)] * 3
        bell.ring("wf#job#1")
        bell.ring("wf#job#2")
        await bell.sent()
        assert (cloud.told, cloud.sqs.sent) == ({"ring_failed": 2}, [])
        bell.ring("wf#job#3")
        await bell.sent()
        assert len(cloud.sqs.sent) == 1

    ringing(story)


def test_a_queue_that_is_not_there_is_asked_for_once_a_minute() -> None:
    async def story(cloud: Cloud, bell: SqsDoorbell) -> None:
        cloud.sqs.broken = [Refusal("AWS.SimpleQueueService.NonExistentQueue")] * 2
        for _ in range(90):
            bell.ring("wf#job#1")
            await asyncio.sleep(1)
        await bell.sent()
        assert cloud.sqs.requests["GetQueueUrl"] == 2
        assert cloud.told == {"ring_failed": 2}

    ringing(story)


def test_closing_waits_for_what_was_rung() -> None:
    async def story(cloud: Cloud, bell: SqsDoorbell) -> None:
        bell.ring("wf#job#1")
        await bell.close()
        assert len(cloud.sqs.sent) == 1

    ringing(story)
