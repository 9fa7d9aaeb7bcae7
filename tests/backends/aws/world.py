"""Worlds on DynamoDB Local: a home for tests in real time, and a simulated one, of several processes in virtual time.

Requests are real. In a simulated world each happens in one piece on the loop, so that the same seed gives the same run,
and pages are torn (``tearing``); doorbells are simulated, and blobs, as there is no S3, are in memory.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable
from random import Random
from typing import Any

from tests.backends.aws import hostile
from tests.backends.aws.tearing import Tears

from holdfast.backends.aws import Bells, DynamoStore, LocalDoorbell, Transport
from holdfast.backends.aws.blobs import INLINE_BYTES
from holdfast.backends.aws.connection import Connection, perform
from holdfast.backends.aws.enclosing import Action, enclosed_in
from holdfast.backends.aws.layout import DUE_INDEX, decode
from holdfast.backends.aws.requests import BOUNDS, Writing
from holdfast.backends.aws.shares import SharedSweeps
from holdfast.backends.aws.table import table_definition
from holdfast.backends.aws.units import units_of
from holdfast.backends.memory import MemoryData
from holdfast.backends.memory.blobs import MemoryBlobs
from holdfast.ids import new_id
from holdfast.items import Bounds, Item, Put
from holdfast.ports import Home
from holdfast.testing.actor_oracles import let_go
from holdfast.testing.oracles import SALT, WatchedData
from holdfast.testing.virtual_time import VirtualClock, outside

CHANGES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"})
"""The requests by which a store changes anything."""

NUMBERS = itertools.count()


def new_table(client: Any) -> str:
    """The name of a table of its own, which is there."""
    table = f"world-{os.getpid()}-{next(NUMBERS)}-holdfast"
    perform(client, "CreateTable", table_definition(table))
    return table


def drop_table(client: Any, table: str) -> None:
    """Let go of it: the emulator gets slower with each table."""
    perform(client, "DeleteTable", {"TableName": table})


class DynamoHomes:
    """One new table; each home that is opened on it is as of another process."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.table = new_table(client)
        self._bells = Bells()
        self._blobs = MemoryData()

    async def open(self) -> Home:
        owner = f"aws-{new_id()[:12]}"
        store = DynamoStore(Transport(hostile.connection(), self.table, random=Random(owner)), self.table)
        return Home(
            url=f"aws://{self.table}",
            owner=owner,
            store=store,
            inventory=store,
            doorbell=LocalDoorbell(self._bells, owner),
            blobs=MemoryBlobs(self._blobs),
            inline_bytes=INLINE_BYTES,
            packs=True,
            bounds=BOUNDS,
            writes_are_paid=True,
            units_of=units_of,
            pages_tear=True,
            heads_go_first=True,
            reads_are_paid=True,
            hears_peers=False,
        )

    def drop(self) -> None:
        drop_table(self.client, self.table)


class InlineConnection:
    """Sends on the loop itself, and waits there.

    Ids are drawn from a seed, so runs have the same ones; DynamoDB would take their transactions for each other's.
    """

    def __init__(self, database: DynamoDatabase) -> None:
        self._database = database

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        database = self._database
        if (token := parameters.get("ClientRequestToken")) is not None:
            token = hashlib.sha256(f"{database.table}/{token}".encode()).hexdigest()[:36]
            parameters = parameters | {"ClientRequestToken": token}
        if (known := database.known(operation, parameters)) is not None:
            return known
        database.requests += 1

        def performed() -> dict[str, Any]:
            return outside().run(perform, database.way, operation, parameters)

        if operation == "Query" and "IndexName" not in parameters:
            return await database.tears.read(performed)
        if operation not in CHANGES:
            return performed()
        database.changes += 1
        try:
            return performed()
        finally:
            database.changed(parameters)

    def close(self) -> None:
        pass


class DynamoDatabase:
    """One new table, which each process of a world has a store on. Their requests go the ``way`` that is given, or that
    of the run; ``client`` is for looks at the table from outside.
    """

    settings: Any = None

    def changed(self, parameters: dict[str, Any]) -> None:
        """A request that writes was answered, or its answer was lost."""

    def __init__(self, client: Any, *, way: Any = None, bounds: Bounds = BOUNDS, holds: Iterable[Item] = ()) -> None:
        self.client = client
        self.way = way or (hostile.lean() if hostile.is_hostile() else client)
        self.table = new_table(client)
        self.stores: list[DynamoStore] = []
        self.tears = Tears()
        self.requests = self.changes = 0
        self._bounds = bounds
        self._bells = Bells()
        self._violations: list[str] = []
        self._index: tuple[int, list[dict[str, Any]]] = (-1, [])
        self._seen: tuple[int, list[Item]] = (-1, [])
        for item in holds:
            request = Writing(self.table, b"", "").one(Action(Put(item), 0))
            perform(client, request.operation, request.parameters)

    def connect(self) -> Connection:
        """The way to the table for one more process."""
        return InlineConnection(self)

    async def open(self, owner: str) -> Home:
        transport = Transport(self.connect(), self.table, random=Random(len(self.stores)))
        store = DynamoStore(transport, self.table, settings=self.settings)
        self.stores.append(store)
        return Home(
            url=f"aws://{self.table}",
            owner=owner,
            store=store,
            doorbell=LocalDoorbell(self._bells, owner),
            bounds=self._bounds,
            writes_are_paid=True,
            units_of=units_of,
            pages_tear=True,
            heads_go_first=True,
            reads_are_paid=True,
            hears_peers=False,
            sweeps=SharedSweeps(store, owner, VirtualClock()),
            salt=SALT,
        )

    def known(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a look at the index, if it is known from one at all of it since the last change.

        In virtual time days pass with a look every few seconds.
        """
        if "IndexName" not in parameters or "ExclusiveStartKey" in parameters:
            return None
        changes, entries = self._index
        if changes != self.changes:
            entries = self._all_of({"TableName": self.table, "IndexName": DUE_INDEX})
            self._index = (self.changes, entries)
        if operation == "Scan":
            return {"Items": entries, "Count": len(entries)} if len(entries) < parameters["Limit"] else None
        values = parameters["ExpressionAttributeValues"]
        part, last = values[":q"], int(values[":last"]["N"])
        found = [wire for wire in entries if wire["q"] == part and int(wire["d"]["N"]) <= last]
        return None if found else {"Items": [], "Count": 0}

    async def items(self) -> list[Item]:
        """Everything, read past the stores; not again while nothing was sent that could have changed it."""
        changes, found = self._seen
        if changes != self.changes:
            found = self._scan()
            self._seen = (self.changes, found)
        now = VirtualClock().now_ms()
        return [let_go(item, now) for item in found]

    def _scan(self) -> list[Item]:
        wires = self._all_of({"TableName": self.table, "ConsistentRead": True})
        enclosed = (item for wire in wires for item in enclosed_in(wire))
        found = sorted((*map(decode, wires), *enclosed), key=lambda item: (item.partition, item.sort))
        watched = WatchedData()
        for item in found:
            watched.check_segment_at_rest(item)
        self._violations = watched.violations
        return found

    def _all_of(self, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            answer = outside().run(perform, self.client, "Scan", parameters)
            found += answer["Items"]
            if (last := answer.get("LastEvaluatedKey")) is None:
                return found
            parameters["ExclusiveStartKey"] = last

    def attempted(self, key: str, process: str, *, excused: bool) -> None:
        pass  # a table is only looked at when all is over

    def watch_queues(self, allowed: object) -> None:
        pass

    def violations(self) -> list[str]:
        return self._violations

    def forget(self, owner: str) -> None:
        self._bells.listeners.pop(owner, None)

    async def close(self) -> None:
        for store in self.stores:
            await store.close()
        self.drop()

    def drop(self) -> None:
        drop_table(self.client, self.table)
