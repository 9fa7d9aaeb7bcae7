"""The account: requests to its services with the credentials of the environment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from holdfast.backends.aws import Address
from holdfast.backends.aws.connection import ThreadedConnection, new_client
from holdfast.errors import StoreUnavailable, StoreUnusable

T = TypeVar("T")

TRIES: Final = 6
FIRST_PAUSE_SECONDS: Final = 0.5
LOOK_EVERY_SECONDS: Final = 1.0
LOOK_EVERY_SECONDS_ON_EMULATOR: Final = 0.1

ANSWER_SECONDS: Final = 75.0
"""An invocation takes as long as its function may."""

BUSY: Final = frozenset({"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded"})
"""https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html"""


class Cloud:
    """One account and region, or an emulator of them: an address with an endpoint is taken for an emulator."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_emulator = address.endpoint is not None
        self._connections: dict[str, tuple[ThreadedConnection, Any]] = {}

    async def send(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """The answer. Requests that were refused for their rate are sent again; other errors are botocore's."""
        for attempt in range(TRIES):
            try:
                return await self._connection(service).send(operation, parameters)
            except Exception as error:
                if code_of(error) not in BUSY or attempt == TRIES - 1:
                    raise
            await asyncio.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    async def until(self, look: Callable[[], Awaitable[T | None]], what: str, *, seconds: float) -> T:
        """The first answer that is not ``None``. Raises ``StoreUnavailable`` if there is none in time."""
        every = LOOK_EVERY_SECONDS_ON_EMULATOR if self.is_emulator else LOOK_EVERY_SECONDS
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            if (found := await look()) is not None:
                return found
            if loop.time() > end:
                raise StoreUnavailable(f"{what} took more than {seconds:.0f} seconds")
            await asyncio.sleep(every)

    def _connection(self, service: str) -> ThreadedConnection:
        if service not in self._connections:
            address = self.address
            client = new_client(address.region, address.endpoint, service, read_seconds=ANSWER_SECONDS)
            self._connections[service] = (ThreadedConnection(None, None, client=client), client)
        return self._connections[service][0]

    def close(self) -> None:
        """Close every connection."""
        for connection, client in self._connections.values():
            connection.close()
            client.close()


@contextmanager
def aws_errors() -> Generator[None]:
    """Raise what AWS, or botocore, refuses as ``StoreUnusable``, with the reason."""
    try:
        yield
    except Exception as error:
        if code_of(error) or type(error).__module__.startswith("botocore."):
            raise StoreUnusable(f"AWS did not do what a trial needs: {error}") from error
        raise


def is_refusal(error: Exception) -> bool:
    """Whether the caller lacks a right."""
    return "AccessDenied" in code_of(error) or code_of(error) == "UnauthorizedOperation"


def code_of(error: Exception) -> str:
    """The code of an error of AWS; empty for others."""
    response: Any = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
