"""A simulated world on DynamoDB Local: several processes, one table, virtual time.

A request happens in one piece on the loop, so that the same seed gives the same run; doorbells are simulated.
"""

from __future__ import annotations

import hashlib
from random import Random
from typing import Any

from holdfast.backends.aws import Bells, DynamoStore, LocalDoorbell, Transport
from holdfast.backends.aws.connection import perform
from holdfast.backends.aws.requests import BOUNDS
from holdfast.backends.aws.table import create_table
from holdfast.items import Item
from holdfast.ports import Home
from holdfast.testing.oracles import WatchedData
from holdfast.testing.virtual_time import outside


class InlineConnection:
    """Sends on the loop itself, and waits there.

    Ids are drawn from a seed, so runs have the same ones; DynamoDB would take their transactions for each other's.
    """

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if (token := parameters.get("ClientRequestToken")) is not None:
            token = hashlib.sha256(f"{self._table}/{token}".encode()).hexdigest()[:36]
            parameters = parameters | {"ClientRequestToken": token}
        return outside().run(perform, self._client, operation, parameters)

    def close(self) -> None:
        pass


class DynamoDatabase:
    """One new table, which each process of a world has a store on."""

    def __init__(self, client: Any, table: str) -> None:
        self.table = table
        self.stores: list[DynamoStore] = []
        self._client = client
        self._bells = Bells()
        self._violations: list[str] = []
        self._made = False

    def _store(self) -> DynamoStore:
        transport = Transport(InlineConnection(self._client, self.table), self.table, random=Random(len(self.stores)))
        store = DynamoStore(transport, self.table)
        self.stores.append(store)
        return store

    async def open(self, owner: str) -> Home:
        if not self._made:
            await create_table(InlineConnection(self._client, self.table), self.table)
            self._made = True
        return Home(
            url=f"aws://{self.table}",
            owner=owner,
            store=self._store(),
            doorbell=LocalDoorbell(self._bells, owner),
            bounds=BOUNDS,
        )

    async def items(self) -> list[Item]:
        """Everything, read past the store: a scan of the table answers its items one by one."""
        store, found = self._store(), list[Item]()
        after: str | None = None
        while True:
            heads = await store.scan("", after=after, limit=1000)
            for head in heads.items:
                found += await _entity(store, head.partition)
            if (after := heads.cursor) is None:
                break
        watched = WatchedData()
        for item in sorted(found, key=lambda item: (item.partition, item.sort)):
            watched.check_segment_at_rest(item)
        self._violations = watched.violations
        return found

    def attempted(self, key: str, process: str, *, excused: bool) -> None:
        pass  # a table is only looked at when all is over

    def violations(self) -> list[str]:
        return self._violations

    def forget(self, owner: str) -> None:
        self._bells.listeners.pop(owner, None)

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


async def _entity(store: DynamoStore, partition: str) -> list[Item]:
    found: list[Item] = []
    after: str | None = None
    while True:
        page = await store.query(partition, after=after)
        found += page.items
        if (after := page.cursor) is None:
            return found
