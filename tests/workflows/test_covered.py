"""The ledger of a nest of saga blocks: many steps cost each alike."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.workflows.saga import Saga
from holdfast.workflows.saga_ledger import Covered, Ledger


class Watched(asyncio.Future[Any]):
    """A future that counts how often somebody asks whether it is done."""

    looks = 0

    def done(self) -> bool:
        Watched.looks += 1
        return super().done()


async def _undo(_result: Any) -> None:
    """Nothing to undo."""


def covered(block: Saga, number: int) -> Covered:
    return Covered(block, f"take#{number}", Watched(), "give_back", _undo, ambiguous=False)


async def test_the_end_of_a_step_looks_at_no_other_step():
    block, ledger = Saga(), Ledger()
    steps = [covered(block, number) for number in range(100)]
    for step in steps:
        ledger.note(step)
    Watched.looks = 0
    for step in reversed(steps):
        step.operation.set_result(None)
        await asyncio.sleep(0)
    assert Watched.looks <= 100
    assert ledger.done == steps[::-1]


async def test_what_is_undone_next_is_the_latest_of_the_block_or_of_one_inside():
    outer, inner, beside = Saga(), Saga(), Saga()
    inner.outer = beside.outer = outer
    ledger = Ledger()
    steps = [covered(block, number) for number, block in enumerate((inner, outer, beside))]
    for step in steps:
        ledger.note(step)
        step.operation.set_result(None)
    assert ledger.under_way(outer) is None
    assert [ledger.latest_in(block) for block in (inner, outer, beside)] == [steps[0], steps[2], steps[2]]
    assert ledger.latest_in(Saga()) is None
