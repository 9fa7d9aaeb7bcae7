"""The numbers of runs. An execution counts them, and no two starts of one id share any.

The number of a run is part of the keys of its journal and of its marks. Where an expired head may be deleted before the
rest of its execution, an execution that is started again under the same id could find a journal that is not its own. So
there each start draws a *generation*, from which its runs are counted: what an earlier start has left, or a process
that was stopped in it still writes, is under other keys (G3).

So does each start where writes are paid for: the revision of its head begins at the generation, too. A process that has
an earlier start in memory, and would end it without a claim, finds another revision (``replay.settling``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.codec.stored import stored
from holdfast.ids import new_seed

if TYPE_CHECKING:
    from holdfast.ports import Home

RUNS: Final = 1_000_000
"""The runs of one generation: what a key has six digits for."""

FIRST_GENERATION: Final = 10**9
GENERATIONS: Final = 8 * 10**9
"""All have ten digits, so the runs of one sort in their order, and a number fits the integers of JSON (2**53)."""

REVISIONS: Final = 2**20
GENERATIONS_TOLD: Final = 2**32


class RecordedStart(Struct, frozen=True, gc=False):
    """Which start of its id an execution is, without the rest of its record."""

    nonce: str = ""


decode_start: Final = stored(RecordedStart, "the start of an execution")


def first_run(home: Home) -> int:
    """The number of the first run of a new execution whose place is empty."""
    draws = home.heads_go_first or home.writes_are_paid
    return (FIRST_GENERATION + new_seed() % GENERATIONS) * RUNS if draws else 0


def first_revision(run: int) -> int:
    """The revision of the head of an execution before any message: of which start it is, its runs say.

    >>> first_revision(0), first_revision(1_234_567_890_000_003)
    (0, 1294538259824640)
    """
    return run // RUNS % GENERATIONS_TOLD * REVISIONS


def count_of(run: int) -> int:
    """How many runs of its execution came before a run.

    >>> count_of(3), count_of(1_234_567_890_000_003)
    (3, 3)
    """
    return run % RUNS
