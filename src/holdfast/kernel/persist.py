"""Writing until the outcome is known.

A store may not answer although it applied a write. The writes of the kernel carry their writer's name and epoch, so a
write sent again and refused by its own earlier self is recognised as done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import Item, Write
from holdfast.ports import Store

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 5.0


async def write_until_known(
    store: Store, *writes: Write, ours: Callable[[Item | None], bool], tries: int | None = None
) -> None:
    """Apply ``writes`` all or nothing, through outages, exactly once as far as anyone can see.

    ``ours(item)`` tells whether what the store holds in a refused write's place is that very write, applied before.
    Raises ``Refused`` if it is not. Outages are sat out, for ever or for so many ``tries``: fencing makes a late write
    harmless.
    """
    pause = FIRST_PAUSE_SECONDS
    sent = 0
    while True:
        try:
            await store.write(*writes)
            return
        except Refused as refused:
            if ours(refused.item):
                return
            raise
        except StoreUnavailable:
            sent += 1
            if sent == tries:
                raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
