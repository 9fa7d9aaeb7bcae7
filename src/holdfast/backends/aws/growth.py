"""How large the table is, as DynamoDB counts it: for an alarm, as no metric of AWS has it."""

from __future__ import annotations

from typing import Final

from holdfast.backends.aws.transport import Transport
from holdfast.clock import Clock
from holdfast.errors import StoreError

ASKED_EVERY_MS: Final = 3_600_000
"""DynamoDB counts about every six hours
(https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html)."""


class TableSize:
    """The size of the table, asked for once an hour and never waited for again if it is refused."""

    def __init__(self, transport: Transport, table: str, clock: Clock) -> None:
        self._transport = transport
        self._table = table
        self._clock = clock
        self._ask_at = 0
        self.bytes = 0
        """Without its indexes; 0 until it is known."""

    async def refresh(self) -> None:
        """See ``Metered.refresh``."""
        now = self._clock.now_ms()
        if now < self._ask_at:
            return
        self._ask_at = now + ASKED_EVERY_MS
        try:
            answer = await self._transport.call("DescribeTable", {"TableName": self._table})
        except StoreError:
            return
        self.bytes = int(answer["Table"].get("TableSizeBytes", 0))
