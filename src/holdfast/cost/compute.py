"""Lines for the time in functions. It is the same wherever the state is kept, so comparisons may leave it out."""

from __future__ import annotations

from holdfast.cost.bill import Compute, Line, line
from holdfast.cost.prices import PriceList


def compute_lines(compute: Compute, prices: PriceList) -> tuple[Line, ...]:
    """The invocations and their gigabyte-seconds; none if nothing is invoked."""
    if not compute.invocations:
        return ()
    told = f"{compute.milliseconds} ms at {compute.memory_mb} MB"
    return (
        line("Lambda: invocations", compute.invocations, prices.invocation, assumed=True),
        line(f"Lambda: {told}", compute.gb_seconds, prices.compute_gb_second, assumed=True),
    )
