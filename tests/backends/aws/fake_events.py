"""EventBridge, as far as its guide says how it behaves, with whatever goes wrong that no emulator shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from tests.backends.aws.cloud import Refusal

BUS = "test-holdfast"
REFUSED = {
    "throttled": Refusal("ThrottlingException"),
    "failed before": Refusal("InternalException", 500),
    "not connected": TimeoutError("nobody is there"),
}
LOST = {"answer lost": TimeoutError("no answer in time"), "failed after": Refusal("InternalException", 500)}
PARTLY = {"entry failed": "InternalFailure", "entry throttled": "ThrottlingException"}
FAULTS = (*REFUSED, *LOST, *PARTLY)


class Events:
    """The way to a bus. ``next_fault`` says what goes wrong with each request, by its name; it is counted."""

    def __init__(self, next_fault: Callable[[], str | None] = lambda: None, *, is_there: bool = True) -> None:
        self.delivered: list[dict[str, Any]] = []
        """What rules of the bus match, in the shape in which they pass it on."""
        self.requests: Counter[str] = Counter()
        self.entries: list[int] = []
        self.suffered: Counter[str] = Counter()
        self.is_there = is_there
        self.unfit: Callable[[dict[str, Any]], str | None] = lambda _entry: None
        self.closed = False
        self._next_fault = next_fault

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.requests[operation] += 1
        if operation == "DescribeEventBus":
            if not self.is_there:
                raise Refusal("ResourceNotFoundException")
            return {"Name": parameters["Name"]}
        assert operation == "PutEvents"
        entries = parameters["Entries"]
        assert 1 <= len(entries) <= 10
        assert {each["EventBusName"] for each in entries} == {BUS}
        assert sum(len(each["Detail"]) for each in entries) <= 1024 * 1024
        self.entries.append(len(entries))
        fault = self._next_fault()
        if fault is not None:
            self.suffered[fault] += 1
        if fault in REFUSED:
            raise REFUSED[fault]
        answers = [self._take(each, fault if n % 2 else None) for n, each in enumerate(entries, start=1)]
        if fault in LOST:
            raise LOST[fault]
        return {"FailedEntryCount": sum("ErrorCode" in each for each in answers), "Entries": answers}

    def _take(self, entry: dict[str, Any], fault: str | None) -> dict[str, str]:
        if (code := self.unfit(entry) or PARTLY.get(fault or "")) is not None:
            return {"ErrorCode": code, "ErrorMessage": "injected"}
        id = f"event-{len(self.delivered)}"
        self.delivered.append(letter(entry["Source"], entry["DetailType"], json.loads(entry["Detail"]), id))
        return {"EventId": id}

    def close(self) -> None:
        self.closed = True


def letter(source: str, detail_type: str, detail: dict[str, Any], id: str) -> dict[str, Any]:
    """An event as a rule passes it on."""
    return {
        "version": "0",
        "id": id,
        "detail-type": detail_type,
        "source": source,
        "account": "000000000000",
        "time": "2026-01-01T00:00:00Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": detail,
    }


def sometimes(seed: int, share: float) -> Callable[[], str | None]:
    """Any fault, in this share of the requests."""
    random = Random(seed)
    return lambda: random.choice(FAULTS) if random.random() < share else None


def then_none(*faults: str | None) -> Callable[[], str | None]:
    """These, one after another, and none from then on."""
    rest = iter(faults)
    return lambda: next(rest, None)
