"""The worlds these tests run in, and a watchdog for those that would hang.

A test that takes ``world`` runs four times: on the memory home, on a SQLite file, where nothing stays in memory, so
that every wait of every execution ends in a replay, and on DynamoDB Local by real HTTP. A test that is about what only
some homes have says so: ``@pytest.mark.not_on_dynamodb("why")``.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends.aws import hostile
from tests.backends.aws.local import lean_client, shared_client, shared_server
from tests.backends.aws.world import DynamoDatabase, DynamoHomes
from tests.sqlite_database import SqliteDatabase

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing import MemoryDatabase
from holdfast.testing.world import Database

__all__ = [
    "app",
    "errors_expected",
    "eventually",
    "fast",
    "hangs_after_seconds",
    "memory_world",
    "new_database",
    "no_complaints",
    "reaches",
    "sqlite_world",
    "watchdog",
    "world",
]
"""The fixtures. A conftest takes all of them: ``from tests.worlds import *``."""

HANGS_AFTER_SECONDS = 600
"""No bound for what a test may take: a loaded machine is slow, and what hangs does so for good."""
PATIENCE_SECONDS = 100.0
SLOWER_ON_DYNAMODB = 2

WORLDS = {
    "memory": hf.Limits(near_seconds=0.2),  # what waits is seen to be suspended soon
    "sqlite": hf.Limits(near_seconds=0.2),
    "forgetful": hf.Limits(linger_seconds=0.0, near_seconds=0.0, resident=0),
    "dynamodb": hf.Limits(near_seconds=0.2),
}
PARAMETERS = [pytest.param(name, marks=[pytest.mark.aws] if name == "dynamodb" else []) for name in WORLDS]


class World:
    """One home. Every app it makes lives on it, as processes share a database."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.file = folder / "home.db"
        self.data = MemoryData()
        self.limits = WORLDS[name]
        self._homes = DynamoHomes(shared_client()) if name == "dynamodb" else None

    @property
    def forgets(self) -> bool:
        """Whether nothing that waits stays in memory."""
        return self.limits.resident == 0

    def listed(self, ids: list[str]) -> list[str]:
        """Ids of a listing, newest first, as they compare here: DynamoDB knows no order of creation."""
        return sorted(ids) if self._homes is not None else ids

    def app(self, name: str = "shop", **options: Any) -> hf.App:
        """A fresh app on this home, with no code in it yet."""
        options = {"limits": self.limits, "home": self.home} | options
        return hf.App(name, **options)

    @property
    def home(self) -> Any:
        if self.name == "sqlite":
            return f"sqlite:///{self.file}"
        if self._homes is not None:
            return self._homes.open

        async def open_shared() -> Home:
            return open_memory_home(data=self.data)

        return open_shared

    def drop(self) -> None:
        """Let go of what outlives the test."""
        if self._homes is not None:
            self._homes.drop()


BY_THE_STORE = re.compile(r"(turn_failed partition=\S+|beat_failed) error=StoreUnavailable\(")
"""What is logged of a turn or a beat that got no answer from the store. It is done again."""


def is_on_dynamodb(request: pytest.FixtureRequest) -> bool:
    """Whether a test runs there this time."""
    callspec = getattr(request.node, "callspec", None)
    return callspec is not None and "dynamodb" in callspec.params.values()


@pytest.fixture(params=PARAMETERS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = World(request.param, tmp_path)
    yield world
    world.drop()


def database_named(name: str, folder: Path) -> Database:
    """A database for a simulated world."""
    match name:
        case "sqlite":
            return SqliteDatabase(folder)
        case "dynamodb":
            return DynamoDatabase(lean_client())
    return MemoryDatabase()


@pytest.fixture(params=["memory", "sqlite", pytest.param("dynamodb", marks=pytest.mark.aws)])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Database]:
    """``new_database()``: one for a simulated world, on each home."""
    return lambda: database_named(request.param, tmp_path)


@pytest.fixture
def sqlite_world(tmp_path: Path) -> World:
    return World("sqlite", tmp_path)


@pytest.fixture
def memory_world(tmp_path: Path) -> World:
    return World("memory", tmp_path)


@pytest.fixture
def app(world: World) -> hf.App:
    return world.app()


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """``await eventually(check)``: call it, and await it, until its answer is true; answer that."""

    async def wait(check: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                answer = check()
                if asyncio.iscoroutine(answer):
                    answer = await answer
                if answer:
                    return answer
                await asyncio.sleep(0.002)

    return wait


@pytest.fixture
def reaches(eventually: Callable[..., Any]) -> Callable[..., Any]:
    """``await reaches(handle, "SUSPENDED")``: wait for a status."""

    async def wait(handle: hf.Handle[Any], status: str) -> hf.Status:
        async def found() -> hf.Status | None:
            now = await handle.status()
            return now if now.status == status else None

        answer: hf.Status = await eventually(found)
        return answer

    return wait


@pytest.fixture
def fast() -> hf.Retry:
    """Three attempts that follow each other at once."""
    return hf.Retry(max_attempts=3, initial="1ms", backoff=1, jitter=hf.Jitter.NONE)


@pytest.fixture(autouse=True)
def no_complaints(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing in these tests may make the engine or asyncio log an error, unless the test reads the log itself; through
    a hostile DynamoDB, nothing but its own failures.
    """
    yield
    errors = [each for each in caplog.get_records("call") if each.levelname in {"ERROR", "CRITICAL"}]
    if hostile.is_hostile():
        errors = [each for each in errors if not BY_THE_STORE.match(each.getMessage())]
    if errors and not getattr(caplog, "errors_expected", False):
        pytest.fail("logged: " + "\n".join(each.getMessage() for each in errors))


@pytest.fixture
def errors_expected(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """For tests in which the engine has reason to log errors."""
    caplog.errors_expected = True  # type: ignore[attr-defined]
    return caplog


@pytest.fixture
def hangs_after_seconds() -> float:
    """When a test is taken to hang; a file of long ones has a fixture of its own."""
    return HANGS_AFTER_SECONDS


@pytest.fixture(autouse=True)
def watchdog(request: pytest.FixtureRequest, hangs_after_seconds: float) -> Iterator[None]:
    """Interrupt a test that hangs, so that it fails alone and with a traceback."""
    if is_on_dynamodb(request):
        shared_server()  # which takes its time, of no test's
        hangs_after_seconds *= SLOWER_ON_DYNAMODB

    def bark(*_: object) -> None:
        raise TimeoutError(f"the test hangs: it ran for more than {hangs_after_seconds} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, hangs_after_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
