"""What a process's loan of a limit tells of the calls that wait here, and when that is to be written.

A loan with permits is written every few seconds. One without, of a limit that is stopped or only has a rate, is written
for this alone: when something has changed, and, where writes are not paid for, as long as it tells of calls that have
left memory. Others would take it for over otherwise. So where they are paid for it does not tell of those.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.flow.borrowing import NOTHING_TOLD
from holdfast.flow.line import parked_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.flow.borrowing import Borrowing, Source
    from holdfast.flow.line import Waiting

MOST_NAMED: Final = 200
MOST_NAMED_PAID: Final = 8
"""Of how many calls that wait and are not in memory the loan tells, for a process that finds this one dead; and where
the size of an item is paid for.
"""

TOLD_AFTER_SECONDS: Final = 5.0
"""So long after something has changed it is written, unless the loan is written before. A call that waits for less
costs nothing by that.
"""


class Telling(Struct):
    """What is to be told of one key of a limit. ``_since`` is when something changed that is not in the item."""

    source: Source
    loan: Borrowing
    _since: float = math.inf

    @property
    def _is_paid(self) -> bool:
        return self.source.runtime.home.writes_are_paid

    def named(self, line: Sequence[Waiting[Any]], left: Sequence[str]) -> tuple[str, ...]:
        """The executions that wait, and are not in memory, of which the loan tells: of those that are ``left`` to
        others if there are any, else of those in the line.
        """
        if self._is_paid and not (left or self.loan.numbers.permits):
            return ()
        return tuple((left or parked_in(line))[: MOST_NAMED_PAID if self._is_paid else MOST_NAMED])

    @property
    def is_owed(self) -> bool:
        """Whether the item tells of calls that wait: it has to be told when none does. It is left where that costs."""
        return self.loan.told != NOTHING_TOLD and not self._is_paid

    def look_at(self, line: Sequence[Waiting[Any]], left: Sequence[str]) -> float:
        """When the item is to be looked at to tell of the calls in this line, in the loop's time."""
        named = self.named(line, left)
        if (len(line), named) == self.loan.told:
            self._since = math.inf
            return self.loan.renew_at if named else math.inf
        if not line and self._is_paid:
            return math.inf
        self._since = min(self._since, asyncio.get_running_loop().time())
        return max(self._since + TOLD_AFTER_SECONDS, self.loan.renew_at)
