"""The memory home: the reference model of the ports, for tests and simulation. Nothing survives the process.

Homes that share a ``MemoryData`` behave like processes that share a database file::

    data = MemoryData()
    one, two = open_memory_home(data=data), open_memory_home(data=data)
"""

from __future__ import annotations

from holdfast.backends.memory.blobs import MemoryBlobs
from holdfast.backends.memory.bus import MemoryBus
from holdfast.backends.memory.data import MemoryData
from holdfast.backends.memory.doorbell import MemoryDoorbell
from holdfast.backends.memory.store import MemoryStore
from holdfast.ids import new_id
from holdfast.ports import Home


def open_memory_home(name: str | None = None, *, data: MemoryData | None = None, owner: str | None = None) -> Home:
    """Open a home on ``data`` (new data of its own if none is given).

    ``name`` only labels the URL. ``owner`` is for simulations that need the same names in every run; it must be
    unique among the homes that share the data.
    """
    shared = MemoryData() if data is None else data
    store = MemoryStore(shared)
    owner = owner or f"memory-{new_id()[:12]}"
    return Home(
        url=f"memory://{name or ''}",
        owner=owner,
        store=store,
        doorbell=MemoryDoorbell(shared, owner),
        purges=store,
        blobs=MemoryBlobs(shared),
        sequencer=store,
        inventory=store,
        census=store,
        bus=MemoryBus(shared.on_bus),
        salt=shared.salt,
    )


__all__ = ["MemoryBus", "MemoryData", "MemoryDoorbell", "MemoryStore", "open_memory_home"]
