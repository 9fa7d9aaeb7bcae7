"""AWS Step Functions: standard workflows by transition, express ones by request and memory over time.

("AWS Step Functions pricing"; "Quotas", developer guide.) A retry is a transition too.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from holdfast.cost.bill import NO_COMPUTE, Bill, Compute, Line, line
from holdfast.cost.compute import compute_lines
from holdfast.cost.prices import US_EAST_1, PriceList

START_AND_END_TRANSITIONS: Final = 2
MOST_EVENTS: Final = 25_000
EVENTS_PER_STATE: Final = 5
"""The events of a task in the history: entered, scheduled, started, succeeded, exited."""
MOST_PAYLOAD_KB: Final = 256
EXPRESS_SECONDS: Final = 300
EXPRESS_MEMORY_STEP_MB: Final = 64


def standard(
    states: int, *, retries: int = 0, payload_kb: int = 0, compute: Compute = NO_COMPUTE, prices: PriceList = US_EAST_1
) -> Bill:
    """One execution of a standard workflow through a number of states; start and end are transitions too."""
    transitions = states + retries + START_AND_END_TRANSITIONS
    events = EVENTS_PER_STATE * (states + retries)
    return Bill(
        "AWS Step Functions, standard",
        (line("Step Functions: transitions", transitions, prices.transition), *compute_lines(compute, prices)),
        over=_over((events > MOST_EVENTS, f"about {events:,} events; a history has {MOST_EVENTS:,}"), payload_kb),
    )


def express(
    *,
    milliseconds: int,
    memory_mb: int = EXPRESS_MEMORY_STEP_MB,
    payload_kb: int = 0,
    compute: Compute = NO_COMPUTE,
    prices: PriceList = US_EAST_1,
) -> Bill:
    """One execution of an express workflow: at least once, without a history that outlives it, five minutes at most.

    Time is billed in steps of 100 ms and memory in steps of 64 MB.
    """
    steps_of_100_ms = -(-milliseconds // 100)
    billed_mb = -(-memory_mb // EXPRESS_MEMORY_STEP_MB) * EXPRESS_MEMORY_STEP_MB
    gb_seconds = Decimal(steps_of_100_ms * billed_mb) / (10 * 1024)
    too_long = milliseconds > EXPRESS_SECONDS * 1000
    return Bill(
        "AWS Step Functions, express",
        (
            line("Step Functions: requests", 1, prices.express_request),
            line("Step Functions: memory over time", gb_seconds, prices.express_gb_second),
            *compute_lines(compute, prices),
        ),
        over=_over((too_long, f"it takes {milliseconds // 1000:,} s; at most {EXPRESS_SECONDS}"), payload_kb),
    )


def together(bill: Bill, others: Iterable[Bill]) -> Bill:
    """One bill of an execution and of the executions that it has started: lines of the same thing are one.

    >>> float(together(standard(1), [standard(2), standard(2)]).lines[0].count)
    11.0
    """
    found: dict[str, Line] = {}
    over: dict[str, None] = {}
    for each in (bill, *others):
        over |= dict.fromkeys(each.over)
        for one in each.lines:
            there = found.get(one.what)
            found[one.what] = one if there is None else replace(there, count=there.count + one.count)
    return Bill(bill.what, tuple(found.values()), tuple(over))


def _over(limit: tuple[bool, str], payload_kb: int) -> tuple[str, ...]:
    payload = (payload_kb > MOST_PAYLOAD_KB, f"a payload of {payload_kb:,} KB; one has at most {MOST_PAYLOAD_KB}")
    return tuple(told for broken, told in (limit, payload) if broken)
