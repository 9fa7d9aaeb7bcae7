"""A simulated table whose stream covers what is due. Records come late, again, and in any order but that of an item.

What happens to a record on its way to a function is that of ``holdfast.testing.hostile.disordered``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.backends.aws.world import DynamoDatabase

from holdfast.backends.aws import Transport
from holdfast.backends.aws.connection import perform
from holdfast.backends.aws.laggards import StreamLaggards
from holdfast.backends.aws.settings import Settings
from holdfast.clock import Clock
from holdfast.items import HEAD
from holdfast.runtime.shapes import Changes, recognised
from holdfast.testing.hostile import Report, disordered
from holdfast.testing.virtual_time import VirtualClock, outside

LATE_SECONDS = 100.0
"""Longer than any retry of a wake-up."""

APART_SECONDS = 0.05
"""Between two batches."""

Record = dict[str, Any]


class StreamSettings:
    """The stream covers what is due, and nothing is read for it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or VirtualClock()

    async def now(self) -> Settings:
        return Settings(cover="stream")


class StreamedDatabase(DynamoDatabase):
    """``kept`` counts the heads that the stream has brought into the index, ``disorder`` what happened to records."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.settings = StreamSettings()
        self.kept = 0
        self.disorder = Report()
        self._records: list[Record] = []
        self._random = Random(0)

    def changed(self, parameters: dict[str, Any]) -> None:
        if not self._records:
            asyncio.get_running_loop().call_later(LATE_SECONDS, self._come, context=outside())
        self._records += map(self._record, _heads(parameters))

    def _record(self, key: dict[str, Any]) -> Record:
        asked = {"TableName": self.table, "Key": key, "ConsistentRead": True}
        found = outside().run(perform, self.client, "GetItem", asked).get("Item")
        image = {} if found is None else {"NewImage": found}
        return {"eventSource": "aws:dynamodb", "dynamodb": {"Keys": key, **image}}

    def _come(self) -> None:
        records, self._records = self._records, []
        self._coming = asyncio.ensure_future(self._deliver(records))

    async def _deliver(self, records: list[Record]) -> None:
        transport = Transport(self.connect(), self.table, random=Random(0))
        laggards = StreamLaggards(transport, self.settings)
        for batch in disordered(records, self._random.getrandbits(32), self.disorder):
            changes = recognised({"Records": batch})
            assert isinstance(changes, Changes)
            self.kept += await laggards.keep(changes.unfinished)
            await asyncio.sleep(self._random.random() * APART_SECONDS)


def _heads(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The keys of the heads that a request writes."""
    actions = [next(iter(each.values())) for each in parameters.get("TransactItems", ())] or [parameters]
    for action in actions:
        key = action.get("Key") or {name: action["Item"][name] for name in ("p", "s")}
        if key["s"]["S"] == HEAD:
            yield key
