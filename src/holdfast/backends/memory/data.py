"""What the homes of one simulated database share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.bus import BusEvent
from holdfast.hints import Hint
from holdfast.ids import new_id
from holdfast.items import HEAD, Item


class StoredBlob(Struct, frozen=True):
    """A blob, and until when it stays without a reference."""

    data: bytes
    keep_until: int


class MemoryData:
    """What the homes of one simulated database share: its items and its listeners."""

    def __init__(self, salt: str | None = None) -> None:
        self.salt = new_id() if salt is None else salt
        """See ``Home.salt``."""
        self.partitions: dict[str, dict[str, Item]] = {}
        self.created: dict[str, int] = {}
        """The order in which the existing heads were created."""
        self.creations: int = 0
        self.blobs: dict[str, StoredBlob] = {}
        """By digest."""
        self.on_bus: list[BusEvent] = []
        """The events that the bus has accepted, in order."""
        self.listeners: dict[str, Callable[[Hint], None]] = {}
        """The open homes by owner name, and what each does with a wake-up."""

    def find(self, partition: str, sort: str) -> Item | None:
        """The item there, or ``None``."""
        return self.partitions.get(partition, {}).get(sort)

    def heads(self) -> Iterator[Item]:
        """Every head, in no particular order."""
        for partition in self.created:
            yield self.partitions[partition][HEAD]

    def set(self, item: Item) -> None:
        """Store ``item``, new or in place of the existing one."""
        self.partitions.setdefault(item.partition, {})[item.sort] = item
        if item.sort == HEAD and item.partition not in self.created:
            self.creations += 1
            self.created[item.partition] = self.creations

    def remove(self, partition: str, sort: str) -> None:
        """Forget the item, if it exists."""
        entity = self.partitions.get(partition, {})
        entity.pop(sort, None)
        if sort == HEAD:
            self.created.pop(partition, None)
        if not entity:
            self.partitions.pop(partition, None)
