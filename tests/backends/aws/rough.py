"""A simulated table that is no better than DynamoDB promises: pages are torn, and the index is seen late, and twice.

``tearing`` and ``lagging`` say how. With ``way=hostile.lean()`` requests are refused, fail, and lose their answers too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from tests.backends.aws.lagging import LaggingDatabase
from tests.backends.aws.tearing import LONG_SECONDS, Tears

from holdfast.backends.aws.requests import BOUNDS
from holdfast.items import Bounds, Item

LAGS_SECONDS = (0.0, 0.5, 2.0, 8.0)
"""Shorter than a lease, so that time-outs of scenarios come as they do elsewhere."""


class RoughDatabase(LaggingDatabase):
    """``seen`` counts what the lag of its index did. The same requests meet the same tears and the same lags."""

    def __init__(
        self, client: Any, *, way: Any = None, bounds: Bounds = BOUNDS, holds: Iterable[Item] = (), seed: int = 0
    ) -> None:
        self.seen = Counter[str]()
        super().__init__(client, Random(seed), self.seen, LAGS_SECONDS, way=way, bounds=bounds, holds=holds)
        self.tears = Tears(seed, LONG_SECONDS)

    async def close(self) -> None:
        self.drop()  # a store whose process died within a write would wait for its end
