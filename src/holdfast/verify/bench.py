"""What a check works with: the account, and the trial that stands in it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec import Struct

from holdfast.backends.aws import Meter, names, open_aws_home
from holdfast.backends.aws.connection import ThreadedConnection
from holdfast.ports import Home
from holdfast.verify.cloud import Cloud
from holdfast.verify.record import Record


class Bench(Struct, frozen=True):
    """``outputs`` are those of the stack; ``spent`` counts the requests to the table that checks send."""

    cloud: Cloud
    record: Record
    outputs: dict[str, str]
    spent: Meter

    @property
    def table(self) -> str:
        """The name of the table, and of the function."""
        return names.base(self.record.prefix)

    @property
    def function(self) -> str:
        """The function, by the version that is live."""
        return f"{self.table}:{names.LIVE}"

    @property
    def bucket(self) -> str:
        """The bucket of large values."""
        return names.bucket(self.record.prefix, self.record.account, self.record.region)

    @property
    def url(self) -> str:
        """The trial as a home, for this process."""
        url = f"aws://{self.record.prefix}?region={self.record.region}&bucket={self.bucket}"
        endpoint = self.cloud.address.endpoint
        return url if endpoint is None else f"{url}&endpoint={endpoint}"

    def connect(self) -> ThreadedConnection:
        """A connection to the table of its own."""
        return ThreadedConnection(self.record.region, self.cloud.address.endpoint)

    @asynccontextmanager
    async def home(self, owner: str) -> AsyncGenerator[Home]:
        """The home, as a process of this name opens it. It is not a worker."""
        home = await open_aws_home(self.url, owner=owner)
        try:
            yield home
        finally:
            await home.doorbell.close()
            await home.store.close()
