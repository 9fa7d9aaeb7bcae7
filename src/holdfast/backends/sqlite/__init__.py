"""The SQLite home, the embedded default: one file, any number of processes on one machine (DESIGN §5)."""

from __future__ import annotations

import os
from functools import partial

from holdfast.backends.sqlite.blobs import SqliteBlobs
from holdfast.backends.sqlite.census import SqliteCensus
from holdfast.backends.sqlite.doorbell import SocketDoorbell, new_owner
from holdfast.backends.sqlite.finding import SqliteFinder
from holdfast.backends.sqlite.inventory import SqliteInventory
from holdfast.backends.sqlite.store import SqliteStore
from holdfast.ports import Home
from holdfast.token_file import token_of_database


async def open_sqlite_home(path: str | os.PathLike[str]) -> Home:
    """Open the database file at ``path``, creating or migrating it, and this process's doorbell next to it.

    Everything is readable and writable by this user alone. Open it after ``fork``, never before. Raises
    ``StoreUnusable`` with the reason and the remedy if the file cannot serve as a store: it is from a newer version,
    of another application, corrupt, or not writable. The home belongs to the running event loop; close its doorbell
    and its store when done.
    """
    store = SqliteStore.open(os.fspath(path))
    owner = new_owner()
    try:
        doorbell = SocketDoorbell(store.path, owner)
    except BaseException:
        await store.close()
        raise
    return Home(
        url=f"sqlite:///{store.path}",
        owner=owner,
        store=store,
        doorbell=doorbell,
        transactions=store,
        purges=store,
        blobs=SqliteBlobs(store),
        sequencer=store,
        inventory=SqliteInventory(store),
        census=SqliteCensus(store),
        finder=SqliteFinder(store),
        salt=store.salt(),
        token=partial(token_of_database, store.path),
    )


__all__ = ["SocketDoorbell", "SqliteStore", "open_sqlite_home"]
