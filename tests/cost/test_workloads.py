"""The table of reference workloads in ``docs/cost.md`` is what was measured, and its misses are those it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import Raw
from tests.cost.workloads import RUNS, Workload, a_call, measured, noise, order, steps, workloads

from holdfast.cli.output import dollars
from holdfast.cost.durable_functions import Work
from holdfast.cost.elsewhere import elsewhere, work_of
from holdfast.failure import ErrorRecord
from holdfast.kernel.entries import Cancelled, Done, Failed, Received, Tried

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"

HALF, FIFTH = 0.5, 0.2
"""The aims: at most so much of what it costs by oneself, and of what Durable Functions cost."""


@pytest.fixture(scope="module")
def found() -> list[Workload]:
    return workloads()


def row(each: Workload) -> str:
    own = f"{dollars(each.own)} | {each.ours / each.own:.2f}"
    durable = "– | –" if each.durable is None else f"{dollars(each.durable)} | {each.ours / each.durable:.2f}"
    return f"| {each.name} | {dollars(each.ours)} | {own} | {durable} |"


def test_the_page_says_what_was_measured(found: list[Workload]) -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| .* \| [\d.]+ \| ", line)]
    assert rows == [row(each) for each in found]


def test_the_page_names_every_miss_and_no_other(found: list[Workload]) -> None:
    misses = {
        each.name
        for each in found
        if each.ours / each.own > HALF or (each.durable is not None and each.ours / each.durable > FIFTH)
    }
    explained = PAGE.read_text(encoding="utf-8").partition("## Misses")[2].partition("\n## ")[0]
    named = {name for each in re.findall(r"^- \*\*(.*?)\*\*", explained, re.MULTILINE) for name in each.split("; ")}
    assert named == misses


def test_a_checkpoint_of_ours_takes_no_lease_and_no_queue() -> None:
    """One more step of a result that fits is one request and one unit more."""
    two, three = (measured(steps(count, noise(800))) for count in (2, 3))
    assert three.usage.requests - two.usage.requests == RUNS
    assert three.usage.write_units - two.usage.write_units == RUNS
    assert three.wakes == two.wakes


def test_what_compresses_costs_less() -> None:
    inline = measured(steps(2, noise(20_000))).usage.write_units
    assert measured(steps(2, order(20_000))).usage.write_units < inline / 3


def test_what_is_put_aside_is_an_object_and_a_reference() -> None:
    aside = measured(steps(2, noise(20_000)), inline_kb=8)
    assert aside.blob_writes == 2 * RUNS


def test_an_actor_that_was_asleep_is_taken_up_once_a_call() -> None:
    assert measured(a_call).wakes == RUNS


# ── Elsewhere ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_journal_is_work_elsewhere() -> None:
    error = ErrorRecord("ValueError", "no")
    entries = [
        Done("charge", 1, "step", Raw(b'"' + b"x" * 1_500 + b'"'), attempts=3),
        Tried("charge", 1, 1, error, 2),
        Failed("ship", 1, "step", error, attempts=2),
        Done("timer", 1, "timer"),
        Done("answer", 1, "callback"),
        Received("1", "decision", 1),
        Cancelled(1),
    ]
    assert work_of(entries) == Work(steps=2, retries=3, waits=1, callbacks=2, written_kb=[2, 1, 1, 1])


def test_elsewhere_every_wait_is_a_replay_and_a_state() -> None:
    durable, own, machine = elsewhere(Work(steps=2, waits=1, written_kb=(1, 1)))
    assert float(durable.usd_per_million) == 3 * 8 + 2 * 0.25
    assert [each.what for each in own.lines].count("SQS: receive") == 1
    assert machine.usd_per_million == (3 + 2) * 25
