"""The index of the table as DynamoDB promises it and no emulator shows it: seen late, and twice.

A global secondary index follows its table by and by ("Data synchronization between tables and global secondary
indexes", developer guide): it may miss what has come, name what has gone, and, while a head moves, name it at both
places.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.backends.aws.world import CHANGES, DynamoDatabase, InlineConnection

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.layout import DUE_INDEX

LAGS_SECONDS = (0.0, 1.0, 10.0, 60.0, 300.0)
TWICE_SHARE = 0.5

View = list[dict[str, Any]]
"""What the index held at some time."""


class LaggingConnection(InlineConnection):
    def __init__(self, database: LaggingDatabase) -> None:
        super().__init__(database)
        self._lagging = database

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if "IndexName" in parameters:
            return self._lagging.look(parameters)
        try:
            return await super().send(operation, parameters)
        finally:
            if operation in CHANGES:
                self._lagging.remember()


class LaggingDatabase(DynamoDatabase):
    """A table whose index lags behind by up to some minutes, drawn for every look. ``seen`` counts what that did."""

    def __init__(
        self, client: Any, random: Random, seen: Counter[str], lags: Sequence[float] = LAGS_SECONDS, **options: Any
    ) -> None:
        super().__init__(client, **options)
        self._random = random
        self._seen_how = seen
        self._lags = lags
        self._views: list[tuple[float, View]] = []
        self.remember()

    def connect(self) -> Connection:
        return LaggingConnection(self)

    def remember(self) -> None:
        """Keep what the index holds from now on."""
        view = self._all_of({"TableName": self.table, "IndexName": DUE_INDEX})
        self._views.append((asyncio.get_running_loop().time(), view))

    def look(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """An answer of some time ago, or of some time ago and of now in one."""
        at = asyncio.get_running_loop().time() - self._random.choice(self._lags)
        now = self._views[-1][1]
        old = next((view for since, view in reversed(self._views) if since <= at), [])
        twice = self._random.random() < TWICE_SHARE
        shown = [*old, *now] if twice else old
        wires = {_place(wire): wire for wire in shown}

        if "ExpressionAttributeValues" not in parameters:
            self._count(shown, now)
            items = list(wires.values())[: parameters["Limit"]]
            return {"Items": items, "Count": len(items)} | (
                {"LastEvaluatedKey": items[-1]} if len(wires) > len(items) else {}
            )

        values = parameters["ExpressionAttributeValues"]
        first, last = int(values[":first"]["N"]), int(values[":last"]["N"])

        def wanted(entries: list[dict[str, Any]]) -> list[tuple[int, str]]:
            behind = parameters.get("ExclusiveStartKey")
            start = (int(behind["d"]["N"]), behind["p"]["S"]) if behind else (-1, "")
            places = (place[1:] for place in map(_place, entries) if place[0] == values[":q"]["S"])
            return sorted(each for each in places if first <= each[0] <= last and each > start)

        found, true = wanted(shown), wanted(now)
        self._seen_how["missed"] += len(set(true) - set(found))
        self._seen_how["gone"] += len(set(found) - set(true))
        self._seen_how["twice"] += len(found) - len({partition for _, partition in found})
        items = [wires[values[":q"]["S"], *place] for place in found[: parameters["Limit"]]]
        answer: dict[str, Any] = {"Items": items, "Count": len(items)}
        return answer | ({"LastEvaluatedKey": items[-1]} if len(found) > len(items) else {})

    def _count(self, shown: View, now: View) -> None:
        """What is missing, what is gone, and what is named twice in an answer with all of the index."""
        found, true = set(map(_place, shown)), set(map(_place, now))
        self._seen_how["missed"] += len(true - found)
        self._seen_how["gone"] += len(found - true)
        self._seen_how["twice"] += len(found) - len({partition for _, _, partition in found})


def _place(wire: dict[str, Any]) -> tuple[str, int, str]:
    return wire["q"]["S"], int(wire["d"]["N"]), wire["p"]["S"]
