"""Resources of an app: clients and pools that a process opens once, shares, and closes when the app closes.

Each lives in a task of its own from its opening to its end: it is closed in the task and the context in which it was
opened, as some clients require. Neither belongs to the caller that asked first.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar, cast

from holdfast.containment import contained
from holdfast.duration import Duration, seconds
from holdfast.errors import ConfigurationError, InvalidState
from holdfast.kernel.runtime import Connect
from holdfast.patterns.bridge import wait_in_thread

T = TypeVar("T")

DEFAULT_CHECK_EVERY: Final = "30s"

CLOSE_SECONDS: Final = 10.0

Factory = Callable[[], AsyncIterator[T]]
Check = Callable[[T], Awaitable[object]]


class Resource(Generic[T]):
    """An open object that this process shares. ``type`` is the annotation of parameters that get it."""

    def __init__(self, connect: Connect, factory: Factory[T], check: Check[T] | None, check_every: Duration) -> None:
        self.name: str = getattr(factory, "__name__", repr(factory))
        self.type = _type_of(factory, self.name)
        self._connect = connect
        self._factory = factory
        self._check = check
        self._check_seconds = seconds(check_every)

    def __repr__(self) -> str:
        return f"<Resource {self.name!r}>"

    async def get(self) -> T:
        """The open object. It is opened now if it was not, or if its check fails. Raises what opening raises; then try
        again.
        """
        return await self._connect().kept.get(self, self._begin).get()

    def get_in_thread(self) -> T:
        """``get``, for code in a thread without an event loop. Raises ``InvalidState`` on the app's own loop."""
        return wait_in_thread(self._connect, self.get())

    async def reopen(self) -> None:
        """Close it because it is broken, so that the next caller gets a new one."""
        await self._connect().kept.get(self, self._begin).close()

    def _begin(self) -> Instance[T]:
        return Instance(self.name, self._factory, self._check, self._check_seconds, self._connect().emit)


class Instance(Generic[T]):
    """The one instance of a resource in an open app."""

    def __init__(
        self,
        name: str,
        factory: Factory[T],
        check: Check[T] | None,
        check_seconds: float,
        tell: Callable[..., Any],
    ) -> None:
        self._name = name
        self._factory = factory
        self._check = check
        self._check_seconds = check_seconds
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._life: Life[T] | None = None
        self._opening: Life[T] | None = None
        self._checked_at = 0.0

    async def get(self) -> T:
        """See ``Resource.get``. However many callers there are, one at a time opens and checks it."""
        if (life := self._life) is not None and not self._is_due(life):
            return life.value
        async with self._turn:
            life = self._life
            if life is not None and self._is_due(life) and not await self._is_well(life):
                self._life = None
                await life.end()
                life = None
            if life is None:
                life = self._opening = Life(self._name, self._factory, self._ended)
                try:
                    await life.begin()
                finally:
                    self._opening = None
                self._life, self._checked_at = life, self._loop.time()
            return life.value

    def _is_due(self, life: Life[T]) -> bool:
        if life.is_over:
            return True
        return self._check is not None and self._loop.time() - self._checked_at >= self._check_seconds

    async def _is_well(self, life: Life[T]) -> bool:
        if life.is_over:
            return False
        assert self._check is not None, "nothing else is due"
        try:
            well = await contained(self._check(life.value)) is not False
        except Exception as error:  # noqa: BLE001 - whatever it raises, it is not well
            self._tell("resource_failed", resource=self._name, error=type(error).__name__)
            return False
        self._checked_at = self._loop.time()
        return well

    def _ended(self, error: BaseException) -> None:
        self._tell("resource_failed", resource=self._name, error=type(error).__name__)

    async def close(self) -> None:
        """Close it, if it is open; if it is being opened, that ends too."""
        lives, self._life = [each for each in (self._life, self._opening) if each is not None], None
        for life in lives:
            await life.end()


class Life(Generic[T]):
    """One instance from its opening to its end, in a task and a context of its own."""

    def __init__(self, name: str, factory: Factory[T], failed: Callable[[BaseException], object]) -> None:
        self.value: T
        self._name = name
        self._factory = factory
        self._failed = failed
        self._open: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._ending = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._live(), context=contextvars.Context())

    @property
    def is_over(self) -> bool:
        """Whether it ended by itself."""
        return self._task.done()

    async def begin(self) -> None:
        """Wait until it is open. Raises what opening raises."""
        try:
            self.value = await asyncio.shield(self._open)
        except asyncio.CancelledError:
            await self.end()
            raise

    async def end(self) -> None:
        """Close it. An error of closing is reported to telemetry and raised nowhere: the caller has no more use for it.

        If closing takes longer than ``CLOSE_SECONDS``, it is cancelled.
        """
        self._ending.set()
        if self._open.done():
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _live(self) -> None:
        try:
            await contained(self._be_open())
        except BaseException as error:
            if not self._open.done():
                told = f"resource {self._name!r} was closed while it was being opened"
                self._open.set_exception(error if isinstance(error, Exception) else InvalidState(told))
                self._open.exception()  # retrieved, because the caller may have gone
            else:
                self._failed(error)
            if not isinstance(error, Exception):
                raise

    async def _be_open(self) -> None:
        async with asynccontextmanager(cast("Callable[[], AsyncGenerator[T]]", self._factory))() as value:
            self._open.set_result(value)
            await self._ending.wait()


def _type_of(factory: Any, name: str) -> Any:
    """The type of what the factory yields, by its annotation."""
    told = f"resource {name!r} must be an async generator that yields once: async def f() -> AsyncIterator[T]"
    if not inspect.isasyncgenfunction(factory):
        raise ConfigurationError(told)
    if inspect.signature(factory).parameters:
        raise ConfigurationError(f"resource {name!r} is opened without arguments")
    try:
        hint = typing.get_type_hints(factory).get("return")
    except Exception as error:
        raise ConfigurationError(f"the annotation of resource {name!r} cannot be resolved: {error}") from error
    if typing.get_origin(hint) not in {AsyncIterator, AsyncIterable, AsyncGenerator}:
        raise ConfigurationError(told)
    return typing.get_args(hint)[0]
