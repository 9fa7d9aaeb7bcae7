"""The same execution elsewhere: the work in its journal, at the prices of other services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.cost import durable_functions, roll_your_own, step_functions
from holdfast.cost.bill import NO_COMPUTE, Bill, Compute
from holdfast.cost.compute import compute_lines
from holdfast.cost.durable_functions import Work
from holdfast.cost.prices import US_EAST_1, PriceList
from holdfast.replay.entries import Done, Entry, Failed, Received

TIMER: Final = "timer"
CALLBACK: Final = "callback"
KB: Final = 1024


def work_of(entries: Iterable[Entry]) -> Work:
    """The entries of a journal as work elsewhere. A signal is a callback there; every other recorded operation is a
    step. Sizes are of the results, in begun kilobytes.
    """
    steps = retries = waits = callbacks = 0
    written: list[int] = []
    for entry in entries:
        match entry:
            case Done(kind=kind) | Failed(kind=kind) if kind == TIMER:
                waits += 1
            case Received(value=value):
                callbacks += 1
                written.append(_begun_kb(bytes(value)))
            case Done(kind=kind, value=value, attempts=attempts):
                steps, callbacks = steps + (kind != CALLBACK), callbacks + (kind == CALLBACK)
                retries += attempts - 1
                written.append(_begun_kb(bytes(value)))
            case Failed(attempts=attempts):
                steps, retries = steps + 1, retries + attempts - 1
                written.append(1)
            case _:
                pass
    return Work(steps=steps, retries=retries, waits=waits, callbacks=callbacks, written_kb=written)


def elsewhere(work: Work, compute: Compute = NO_COMPUTE, prices: PriceList = US_EAST_1) -> Sequence[Bill]:
    """One such execution on Durable Functions, on the user's own checkpoints, and on Step Functions, each with the same
    compute.
    """
    sizes = [int(size) for size in work.written_kb]
    waits = work.waits + work.callbacks
    own = roll_your_own.execution(sizes, waits=waits, prices=prices)
    return (
        durable_functions.execution(work, compute, prices),
        replace(own, lines=(*own.lines, *compute_lines(compute, prices))),
        step_functions.standard(work.steps + waits, retries=work.retries, compute=compute, prices=prices),
    )


def _begun_kb(value: bytes) -> int:
    return max(1, -(-len(value) // KB))
