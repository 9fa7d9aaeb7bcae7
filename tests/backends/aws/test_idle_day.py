"""A day on which nothing happens, in virtual time: what a deployed home requests of AWS, in all."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import Cloud
from tests.backends.aws.test_lambda import Shop, start
from tests.backends.aws.world import DynamoDatabase

from holdfast.backends.aws import DynamoStore, Transport
from holdfast.backends.aws.settings import KnownSettings
from holdfast.ports import Home
from holdfast.testing.virtual_time import VirtualClock, run_virtual

DAY_SECONDS = 24 * 3600
MOST = 2_000


class WithSettings(DynamoDatabase):
    """As a home is opened by its URL: its processes read the settings."""

    async def open(self, owner: str) -> Home:
        transport = Transport(self.connect(), self.table, random=Random(1))
        settings = KnownSettings(transport, self.table, VirtualClock())
        store = DynamoStore(transport, self.table, settings=settings)
        self.stores.append(store)
        return replace(await super().open(owner), store=store)


@pytest.mark.parametrize("sleepers", [0, 20])
def test_an_idle_day_is_at_most_two_thousand_requests(client: Any, sleepers: int) -> None:
    async def main() -> None:
        database = WithSettings(client)
        async with Cloud(database.open, Shop()) as cloud:
            for number in range(sleepers):
                await cloud.invoke(start("checkout", f"o{number}", "one", "7d"))
            for store in database.stores:
                store.meter.reset()
            cloud.sqs.requests.clear()
            cloud.begin_sweeping()
            await asyncio.sleep(DAY_SECONDS + 1)
            assert cloud.invocations["holdfast"] == sleepers + DAY_SECONDS / 60
            table = sum(store.meter.total.requests for store in database.stores)
            assert DAY_SECONDS / 60 <= table + cloud.sqs.requests.total() <= MOST
            assert sum(store.meter.total.write_units for store in database.stores) == 0
        await database.close()

    run_virtual(main)
