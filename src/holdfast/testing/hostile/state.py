"""What the requests of one proxy share, and one request."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.testing.hostile.dice import Dice
from holdfast.testing.hostile.holds import Holds
from holdfast.testing.hostile.index_lag import Late
from holdfast.testing.hostile.metering import Metering
from holdfast.testing.hostile.page_reads import PageReads
from holdfast.testing.hostile.report import Fault, Report
from holdfast.testing.hostile.rules import Rules
from holdfast.testing.hostile.tables import Tables
from holdfast.testing.hostile.upstream import TARGET, Reply, Upstream


class Request(Struct, frozen=True):
    """A request about items: its operation, its parameters, and its draws."""

    operation: str
    parameters: dict[str, Any]
    dice: Dice


class State:
    """What the rules need to know of other requests."""

    def __init__(self, upstream: Upstream, rules: Rules, report: Report) -> None:
        self.rules = rules
        self.report = report
        self.upstream = upstream
        self.tables = Tables(upstream.call)
        self.holds = Holds()
        self.page_reads = PageReads()
        self.late = Late(rules.index_lag) if rules.index_lag is not None else None
        self.metering = Metering(rules.capacity) if rules.capacity is not None else None

    def suffered(self, fault: Fault, count: int = 1) -> None:
        """It has happened."""
        if count:
            self.report.faults[fault] += count

    def now(self) -> float:
        """The time of the loop, in seconds."""
        return asyncio.get_running_loop().time()

    async def apply(self, request: Request, **changes: Any) -> Reply:
        """Send a request on, with some parameters changed. With capacity to be metered, all units are asked for."""
        parameters = request.parameters | changes
        if self.metering is not None:
            parameters |= {"ReturnConsumedCapacity": "INDEXES"}
        return await self.upstream.send(TARGET + request.operation, msgspec.json.encode(parameters))
