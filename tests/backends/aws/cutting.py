"""Processes that die between the requests of one write: the wire is cut at the transport, beneath the store.

One write of the port may be several requests: it is sent again after a lost answer, it loads what it wrote, and what is
more than a transaction takes is several. The crash harness of the port sees one write, and never dies inside it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError
from tests.backends.aws.lagging import LaggingConnection
from tests.backends.aws.rough import RoughDatabase
from tests.backends.aws.world import CHANGES

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.direct.messages import Refused
from holdfast.items import Bounds
from holdfast.testing import Scenario, run_scenario
from holdfast.testing.process import Process
from holdfast.testing.virtual_time import current_scope

SMALL = Bounds(writes=16, body_bytes=2_000)
"""So small that what a turn writes is often more than one call takes."""


class Cut(StrEnum):
    """What happens to a request."""

    BEFORE = "the process dies before it is sent"
    AFTER = "the process dies after it was performed"
    LOST = "it is performed, and its answer is lost"


Plan = Mapping[int, Cut]


class CuttingConnection(LaggingConnection):
    """The way of one process to the table, cut where its plan says so."""

    def __init__(self, database: CuttingDatabase, plan: Plan) -> None:
        super().__init__(database)
        process = current_scope.get()
        assert isinstance(process, Process)
        self.changes = 0
        self._process = process
        self._plan = plan
        self._suffered = database.suffered

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if self._process.dead:
            await _never()
        if operation not in CHANGES:
            return await super().send(operation, parameters)
        self.changes += 1
        cut = self._plan.get(self.changes)
        if cut is None:
            return await super().send(operation, parameters)
        self._suffered[cut] += 1
        if cut is not Cut.BEFORE:
            with contextlib.suppress(ClientError, Refused):
                await super().send(operation, parameters)
        if cut is Cut.LOST:
            raise ReadTimeoutError(endpoint_url="http://127.0.0.1")
        self._process.crash()
        await _never()
        raise AssertionError("nobody goes on from here")


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


class CuttingDatabase(RoughDatabase):
    """A table to which the first worker has a way that is cut. ``visitors`` came before it."""

    def __init__(self, client: Any, way: Any, plan: Plan, suffered: Counter[Cut], visitors: int) -> None:
        super().__init__(client, way=way, bounds=SMALL)
        self.suffered = suffered
        self.connections: list[CuttingConnection] = []
        self._plan = plan
        self._visitors = visitors

    def connect(self) -> Connection:
        is_first = len(self.connections) == self._visitors
        self.connections.append(CuttingConnection(self, self._plan if is_first else {}))
        return self.connections[-1]


def cut_at_every_request(each: Scenario, client: Any, most_points: int | None, *, way: Any = None) -> Counter[Cut]:
    """Let the first process die before and after each request that changes anything, and before and after each that is
    sent again because the answer to the first was lost; of more points than ``most_points`` a sample is played. What
    the runs amount to must be the same as if nothing happened. Answers what happened how often. Their requests go
    another ``way`` than that of ``client``, if one is given.
    """
    suffered, visitors = Counter[Cut](), int(each.has_client)
    databases: list[CuttingDatabase] = []

    def run(plan: Plan) -> Any:
        def database() -> CuttingDatabase:
            databases.append(CuttingDatabase(client, way, plan, suffered, visitors))
            return databases[-1]

        return run_scenario(replace(each, database=database, unsteady=way is not None))

    base, in_memory = run({}), run_scenario(each)
    assert [*base.violations, *in_memory.observation.differences(base.observation, each.histories)] == []
    requests = databases[0].connections[visitors].changes
    plans: list[Plan] = [{number: cut} for number in range(1, requests + 1) for cut in (Cut.BEFORE, Cut.AFTER)]
    plans += [
        {number: Cut.LOST, number + 1: cut} for number in range(1, requests + 1) for cut in (Cut.BEFORE, Cut.AFTER)
    ]
    if most_points is not None and most_points < len(plans):
        plans = Random(each.name).sample(plans, most_points)
    for plan in plans:
        found = run(plan)
        wrong = [*found.violations, *base.observation.differences(found.observation, each.histories)]
        assert wrong == [], f"{each}, {plan}"
        assert suffered, plan
    return suffered
