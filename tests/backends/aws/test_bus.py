"""PutEvents: how many requests, what is sent again, what never is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tests.backends.aws.cloud import Refusal
from tests.backends.aws.fake_events import BUS, FAULTS, Events, sometimes, then_none

from holdfast.backends.aws import EventBridgeBus, open_aws_home, parse_address
from holdfast.bus import BusEvent, NotTaken, Unfit
from holdfast.testing.virtual_time import run_virtual


def event(n: int, size: int = 10) -> BusEvent:
    return BusEvent("holdfast.shop", "Placed", b'{"n":%d,"x":"%s"}' % (n, b"x" * size))


def put(events: Events, *sent: BusEvent) -> Sequence[Any]:
    return run_virtual(lambda: EventBridgeBus(events, BUS).put(sent))


def numbers(events: Events) -> list[int]:
    return [each["detail"]["n"] for each in events.delivered]


def test_ten_go_together_and_the_bus_is_looked_for_once() -> None:
    async def main() -> None:
        events = Events()
        bus = EventBridgeBus(events, BUS)
        assert await bus.put([event(n) for n in range(25)]) == [None] * 25
        assert await bus.put([event(25)]) == [None]
        assert await bus.put([]) == []
        assert events.requests == {"DescribeEventBus": 1, "PutEvents": 4}
        assert sorted(events.entries) == [1, 5, 10, 10]
        assert sorted(numbers(events)) == list(range(26))

    run_virtual(main)


def test_large_events_go_by_themselves_and_too_large_ones_not_at_all() -> None:
    events = Events()
    sizes = [600_000, 600_000, 300_000, 999_000, 1_000_001, 10]
    answers = put(events, *(event(n, size) for n, size in enumerate(sizes)))
    assert [type(each) for each in answers] == [type(None)] * 4 + [Unfit, type(None)]
    assert "1,000,0" in answers[4].reason
    assert sorted(numbers(events)) == [0, 1, 2, 3, 5]


def test_only_the_entries_that_failed_are_sent_again() -> None:
    events = Events(then_none("entry failed", "entry throttled"))
    assert put(events, *(event(n) for n in range(8))) == [None] * 8
    assert events.entries == [8, 4, 2]
    assert sorted(numbers(events)) == list(range(8)), "each of them once"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_not_seen(fault: str) -> None:
    events = Events(then_none(fault))
    assert put(events, event(1), event(2)) == [None, None]
    assert events.suffered == {fault: 1}
    assert set(numbers(events)) == {1, 2}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stays_is_told_and_nothing_raised(fault: str) -> None:
    events = Events(lambda: fault)
    first, second = put(events, event(1), event(2))
    assert isinstance(first, NotTaken)
    assert isinstance(second, NotTaken) is (not fault.startswith("entry")), "of two entries only one fails"
    assert events.requests["PutEvents"] == 3


def test_entries_that_are_wrong_are_never_taken_and_hold_up_nothing() -> None:
    events = Events()
    events.unfit = lambda entry: "MalformedDetail" if '"n":3,' in entry["Detail"] else None
    answers = put(events, *(event(n) for n in range(6)))
    assert answers == [None, None, None, Unfit("MalformedDetail: injected"), None, None]
    assert events.entries == [6]


def test_a_request_that_is_wrong_is_taken_apart() -> None:
    class Strict(Events):
        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            if any('"n":3,' in each["Detail"] for each in parameters.get("Entries", ())):
                raise Refusal("ValidationException")
            return await super().send(operation, parameters)

    events = Strict()
    answers = put(events, *(event(n) for n in range(6)))
    assert [type(each) for each in answers] == [type(None)] * 3 + [Unfit] + [type(None)] * 2
    assert sorted(numbers(events)) == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "AccessDeniedException", "ThrottlingException"])
def test_a_bus_that_cannot_be_seen_is_given_nothing_because_it_would_drop_it_without_a_word(code: str) -> None:
    class Blind(Events):
        blind = True

        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            if operation == "DescribeEventBus" and self.blind:
                raise Refusal(code)
            return await super().send(operation, parameters)

    async def main() -> None:
        events = Blind()
        bus = EventBridgeBus(events, BUS)
        (answer,) = await bus.put([event(1)])
        assert isinstance(answer, NotTaken)
        assert code in answer.reason and BUS in answer.reason
        assert events.delivered == []
        events.blind = False
        assert await bus.put([event(1)]) == [None]

    run_virtual(main)


def test_each_event_is_taken_at_least_once_whatever_goes_wrong_and_everything_does() -> None:
    """Whoever calls tries again what was not taken, as the relay does."""
    suffered: Counter[str] = Counter()

    async def main() -> int:
        events = Events(sometimes(7, 0.6))
        bus = EventBridgeBus(events, BUS)
        left = list(range(400))
        while left:
            answers = await bus.put([event(n) for n in left])
            left = [n for n, answer in zip(left, answers, strict=True) if answer is not None]
        suffered.update(events.suffered)
        assert set(numbers(events)) == set(range(400))
        return len(events.delivered)

    assert run_virtual(main) > 400, "an answer that was lost means twice"
    assert all(suffered[fault] >= 5 for fault in FAULTS), suffered


def test_the_url_names_the_bus() -> None:
    async def main() -> None:
        events = Events()
        home = await open_aws_home(f"aws://test?region=eu-west-1&bus={BUS}", events=events)
        assert home.bus is not None
        assert await home.bus.put([event(1)]) == [None]
        await home.doorbell.close()
        await home.store.close()
        assert events.closed
        assert (await open_aws_home("aws://test?region=eu-west-1")).bus is None

    asyncio.run(main())
    assert parse_address("aws://test").open_bus() is None
