"""Finding an execution by its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import NotFound
from holdfast.workflows.record import describe_partition, is_there

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime


async def head_of(runtime: Runtime, partition: str) -> Item:
    """The execution's head. Raises ``NotFound``, also if it has expired and waits to be purged."""
    head = await runtime.home.store.get(partition)
    if not is_there(head, runtime.clock.now_ms()):
        raise NotFound(f"there is no {describe_partition(partition)}")
    return head
