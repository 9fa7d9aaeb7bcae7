"""How the tests of the SQLite home come by one."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.backends.sqlite import SocketDoorbell, SqliteStore, open_sqlite_home


class Opened(NamedTuple):
    """A home, with what it is made of."""

    owner: str
    url: str
    store: SqliteStore
    doorbell: SocketDoorbell


OpenHome = Callable[[], AbstractAsyncContextManager[Opened]]


@pytest.fixture(autouse=True)
def temporary_directory(tmp_path: Path) -> Iterator[None]:
    """One of the test's own, also for its children."""
    assert tmp_path.is_dir()  # pytest has chosen its own place before this
    with tempfile.TemporaryDirectory(prefix="hf") as folder, pytest.MonkeyPatch.context() as patch:
        Path(folder).chmod(0o711)  # the tests that give up their privileges must get through
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home.db"


@pytest.fixture
def open_home(path: Path) -> OpenHome:
    """Opens the file at `path`; called twice, it opens it as two processes would."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Opened]:
        home = await open_sqlite_home(path)
        assert isinstance(home.store, SqliteStore)
        assert isinstance(home.doorbell, SocketDoorbell)
        assert home.transactions is home.store
        try:
            yield Opened(home.owner, home.url, home.store, home.doorbell)
        finally:
            await home.doorbell.close()
            await home.store.close()

    return opened
