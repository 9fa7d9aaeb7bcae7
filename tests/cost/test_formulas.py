"""The formulas: two published tables to the tenth of a cent, and each service's own limits."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.backends.aws.meter import Usage
from holdfast.cost import durable_functions, ours, roll_your_own, step_functions
from holdfast.cost.bill import Bill, Compute, line
from holdfast.cost.durable_functions import Work
from holdfast.cost.prices import US_EAST_1
from holdfast.cost.queue import Requests
from holdfast.cost.tables import PRINTED_OTHERWISE, Table, by_count, by_size

# As they were printed. The formulas know nothing of these figures.
PRINTED_BY_SIZE = """
1 KB        8.25    1.65    8   0.525
8 KB        10      6.025   8   0.65
20 KB       13      6.65    8   0.925
over 20 KB  13.25   6.65    8   0.925
"""
PRINTED_BY_COUNT = """
1 KB        0.525   0.525   0.525   0.525   0.65    0.9
4 KB        0.525   0.65    0.775   0.9     1.4     2.4
8 KB        0.65    0.9     1.15    1.4     2.4     4.4
16 KB+      0.925   1.325   1.725   2.125   3.735   6.925
"""


def cells(text: str, columns: int) -> dict[tuple[str, int], Decimal]:
    rows = [line.rsplit(maxsplit=columns) for line in text.strip().splitlines()]
    return {(row[0].strip(), place): Decimal(cell) for row in rows for place, cell in enumerate(row[1:])}


def worked_out(table: Table) -> dict[tuple[str, int], Decimal]:
    return {(name, place): amount for name, row in table.rows for place, amount in enumerate(row)}


def test_the_table_by_size_follows_from_the_formulas() -> None:
    assert worked_out(by_size()) == cells(PRINTED_BY_SIZE, 4)


def test_the_table_by_count_follows_from_the_formulas_but_for_one_cell() -> None:
    printed, found = cells(PRINTED_BY_COUNT, 6), worked_out(by_count())
    assert printed.keys() == found.keys()
    differ = {place for place in printed if printed[place] != found[place]}
    assert differ == {("16 KB+", 4)}
    assert found["16 KB+", 4] == Decimal("0.40") + Decimal("0.125") + 8 * Decimal("0.40") == Decimal("3.725")
    assert {("16 KB+", "8"): printed["16 KB+", 4]} == PRINTED_OTHERWISE


def test_a_replay_reads_begun_units() -> None:
    """17 references of 256 bytes are 4.25 KB: two units."""
    assert roll_your_own.replay([16] * 17).usd_per_million == Decimal("0.4") + Decimal("0.25") + 17 * Decimal("0.4")


def test_durable_functions_count_what_aws_meters() -> None:
    work = Work(steps=5, retries=2, waits=1, callbacks=2, branches=(3, 4))
    assert work.operations == 5 + 2 + 1 + 6 + 4 + 5


def test_five_steps_and_a_timer() -> None:
    """The worked example of the notes: about 53 dollars a million, a fifth of it data, functions and time."""
    bill = durable_functions.execution(
        Work(steps=5, waits=1, written_kb=(1,) * 5), Compute(invocations=2, milliseconds=200, memory_mb=512)
    )
    assert bill.usd_per_million.quantize(Decimal("0.01")) == Decimal("52.98")
    assert bill.measured().usd_per_million == Decimal("49.25")
    assert not bill.over


def test_what_is_kept_costs_by_the_month() -> None:
    kept = durable_functions.execution(Work(steps=1, written_kb=(1,), retention_days=60))
    assert kept.usd_per_million == Decimal(8) + Decimal("0.25") + 2 * Decimal("0.15")


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (Work(steps=3_001), "3,001 operations"),
        (Work(steps=1_000, written_kb=(110,) * 1_000), "110,000 KB written"),
        (Work(steps=1, written_kb=(257,)), "a result of 257 KB"),
        (Work(steps=1, retention_days=91), "91 days"),
    ],
)
def test_what_durable_functions_would_refuse_is_said(work: Work, told: str) -> None:
    (over,) = durable_functions.execution(work).over
    assert told in over


def test_at_their_limits_durable_functions_go() -> None:
    assert not durable_functions.execution(Work(steps=3_000, written_kb=(256,) * 400, retention_days=90)).over


def test_standard_step_functions_are_paid_by_transition() -> None:
    assert step_functions.standard(6).usd_per_million == 8 * 25
    assert step_functions.standard(6, retries=2).usd_per_million == 10 * 25
    assert "25,005 events" in step_functions.standard(5_001).over[0]
    assert not step_functions.standard(5_000, payload_kb=256).over
    assert "257 KB" in step_functions.standard(1, payload_kb=257).over[0]


def test_express_step_functions_are_paid_by_begun_100_ms_and_64_mb() -> None:
    one = Decimal("0.00001667") * 64 / 1024 / 10
    assert step_functions.express(milliseconds=1).usd == Decimal("0.000001") + one
    assert step_functions.express(milliseconds=101, memory_mb=65).usd == Decimal("0.000001") + 4 * one
    assert step_functions.express(milliseconds=300_001).over
    assert not step_functions.express(milliseconds=300_000).over


def test_an_execution_of_ones_own_is_its_checkpoints_and_a_replay_for_each_wait() -> None:
    bill = roll_your_own.execution((1, 1), waits=1)
    assert bill.usd_per_million == Decimal("1.2") + 3 * Decimal("1.65") + Decimal("0.525")


def test_ours_is_what_was_metered_by_run() -> None:
    used = ours.Used(
        runs=4, usage=Usage(requests=40, write_units=20, read_units=6), queue=Requests(8, 4), swept=Requests(4, 4)
    )
    bill = ours.bill_of("checkout", used, Compute(invocations=2))
    measured = 5 * Decimal("0.625") + Decimal("1.5") * Decimal("0.125") + 4 * Decimal("0.4")
    assert bill.measured().usd_per_million == measured
    assert [each.count for each in bill.lines if each.what.startswith("SQS")] == [2, 2, Decimal("0.3")]
    assert [each.what for each in bill.lines if each.assumed] == [
        "SQS: ends of long waits",
        "Lambda: invocations",
        "Lambda: 200 ms at 512 MB",
    ]


def test_ten_messages_share_a_receive_and_a_delete_and_are_sent_each_by_its_client() -> None:
    used = ours.Used(runs=1, usage=Usage(), queue=Requests(sends=1, receives=1))
    assert ours.bill_of("start", used).usd_per_million == Decimal("1.2")
    assert ours.bill_of("start", used.in_batches()).usd_per_million == Decimal("0.48")


def test_a_bill_adds_up() -> None:
    bill = Bill("x", (line("a", 3, US_EAST_1.write_unit), line("b", 0.5, US_EAST_1.read_unit)))
    assert bill.usd == 3 * Decimal("0.000000625") + Decimal("0.0000000625")
