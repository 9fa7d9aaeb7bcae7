"""Pages of a table as DynamoDB promises them: each item of a page is read at a moment of its own.

``Query`` and ``Scan`` are read-committed item by item, also if they are consistent ("Isolation levels of transactions",
developer guide: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html). In a simulated
world each request happens in one piece, so no page would be torn there but by this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

Answer = dict[str, Any]

SHARE = 0.5
SHORT_SECONDS = 0.02
LONG_SECONDS = 2.0


class Tears:
    """Lets a share of pages take up to ``seconds`` to read, in virtual time, and draws when each of their items is
    read.

    ``torn`` counts the pages that show one change of that moment and miss another. The same seed draws the same.
    """

    def __init__(self, seed: int = 0, seconds: float = SHORT_SECONDS) -> None:
        self.pages = self.torn = 0
        self._random = Random(seed)
        self._seconds = seconds

    async def read(self, perform: Callable[[], Answer]) -> Answer:
        """The answer to a ``Query``, which ``perform`` asks the table for."""
        self.pages += 1
        if self._random.random() >= SHARE:
            return perform()
        first = perform()
        await asyncio.sleep(self._seconds * self._random.random() ** 3)
        return self._between(first, perform())

    def _between(self, first: Answer, last: Answer) -> Answer:
        """A page that ended early is left as it is: what would be on it is not known."""
        if "LastEvaluatedKey" in first or "LastEvaluatedKey" in last:
            return last
        before, after = _by_place(first), _by_place(last)
        changed = [place for place in {**before, **after} if before.get(place) != after.get(place)]
        shown = dict(after)
        for place in changed:
            if self._random.random() < 0.5:
                shown.pop(place, None)
                if (item := before.get(place)) is not None:
                    shown[place] = item
        self.torn += shown not in (before, after)
        items = [shown[place] for place in sorted(shown)]
        return last | {"Items": items, "Count": len(items)}


def _by_place(answer: Answer) -> dict[tuple[str, str], Any]:
    return {(item["p"]["S"], item["s"]["S"]): item for item in answer["Items"]}
