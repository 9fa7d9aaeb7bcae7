"""What ``holdfast cost`` works out, and the page says, is what DynamoDB Local reports behind a queue and a function."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.aws import RESULTS
from benchmarks.lambda_path import dollars
from benchmarks.lambda_path import measured as metered
from tests.backends.aws.local import credentials, shared_client
from tests.cost.workloads import WITHIN_A_UNIT, Make, a_message, measured, noise, steps

from holdfast.backends.aws import Settings
from holdfast.cost.ours import Used

pytestmark = [pytest.mark.aws, pytest.mark.gentle("it counts requests and units")]

FIVE = noise(WITHIN_A_UNIT)
WORK: dict[str, Make] = {
    "5 steps": steps(5, FIVE),
    "5 steps and an hour": steps(5, FIVE, timer=True),
    "message": a_message,
}


@pytest.fixture(scope="module")
def found() -> dict[str, Used]:
    with credentials():
        client: Any = shared_client()
    return metered(client, runs=1)


@pytest.mark.parametrize("name", WORK)
def test_a_trial_agrees_with_the_meter_on_the_path_of_a_function(found: dict[str, Used], name: str) -> None:
    real, trial = found[name], measured(WORK[name])
    for each in ("queue", "swept"):
        of_each = getattr(real, each), getattr(trial, each)
        assert of_each[0].sends / real.runs == of_each[1].sends / trial.runs, each
        assert of_each[0].receives / real.runs == of_each[1].receives / trial.runs, each
    assert real.invocations / real.runs == trial.invocations / trial.runs
    assert real.usage.requests / real.runs <= trial.usage.requests / trial.runs
    assert real.usage.write_units / real.runs == trial.usage.write_units / trial.runs


def test_a_trial_that_the_stream_covers_agrees_with_it_too() -> None:
    with credentials():
        client: Any = shared_client()
    real = metered(client, runs=1, streamed=True)
    for name, make in WORK.items():
        trial = measured(make, settings=Settings(cover="stream"))
        assert real[name].usage.write_units / real[name].runs == trial.usage.write_units / trial.runs, name


@pytest.mark.parametrize("name", ["5 steps", "5 steps and an hour"])
def test_it_costs_no_more_than_was_recorded(found: dict[str, Used], name: str) -> None:
    recorded = {each["name"]: each["value"] for each in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]}
    assert dollars(found[name]) <= recorded[f"{name}, covered by the index"]


def test_a_start_by_a_message_takes_no_claim_and_reads_nothing(found: dict[str, Used]) -> None:
    used, by_message = found["5 steps"], found["5 steps, commanded"]
    assert by_message.usage.write_units == used.usage.write_units - used.runs
    assert by_message.usage.read_units == 0
    assert by_message.queue == used.queue


def test_an_ordered_batch_of_ten_costs_at_most_five_units(found: dict[str, Used]) -> None:
    used = found["ordered batch of ten"]
    assert used.usage.write_units / used.runs <= 5
