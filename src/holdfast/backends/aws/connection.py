"""A connection to a service of AWS: one client of botocore, called from a few threads.

botocore is loaded when a connection is made, so that importing Holdfast costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, Protocol, TypeVar

from holdfast.errors import ConfigurationError

T = TypeVar("T")

THREADS: Final = 16
"""The most requests of one process at once; others wait."""

CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0


class Connection(Protocol):
    """Sends requests, each once: the transport decides whether to try again."""

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """The answer to one attempt; raises what botocore raises."""
        ...

    def close(self) -> None:
        """Close threads and sockets."""
        ...


def new_client(
    region: str | None,
    endpoint: str | None,
    service: str = "dynamodb",
    *,
    session: tuple[str, str, str] | None = None,
    read_seconds: float = READ_SECONDS,
) -> Any:
    """A client of botocore that never repeats a request by itself: every attempt is ours, counted and timed.

    ``session`` is the id, the secret and the token of credentials that replace those of the environment.
    """
    botocore = new_session()
    if session is not None:
        botocore.set_credentials(*session)
    return client_of(botocore, region, endpoint, service, read_seconds=read_seconds)


def new_session() -> Any:
    """A session of botocore, with nothing of ours yet. Raises ``ConfigurationError`` if botocore is not installed."""
    try:
        from botocore.session import Session  # noqa: PLC0415 - loaded when it is needed, and only then
    except ImportError:
        raise ConfigurationError(
            "the home on AWS needs botocore: pip install '.[aws]' in a checkout of Holdfast"
        ) from None
    return Session()


def client_of(
    session: Any,
    region: str | None,
    endpoint: str | None,
    service: str = "dynamodb",
    *,
    read_seconds: float = READ_SECONDS,
) -> Any:
    """A client of this session, as ``new_client`` makes it."""
    from botocore import __version__ as version  # noqa: PLC0415 - loaded when it is needed, and only then
    from botocore.config import Config  # noqa: PLC0415 - loaded when it is needed, and only then

    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        max_pool_connections=THREADS,
        tcp_keepalive=True,
        # Only this package makes requests of DynamoDB, and DynamoDB checks them too. S3 does not: without a key,
        # to get an object would be to list the bucket.
        parameter_validation=service != "dynamodb",
        user_agent=f"Botocore/{version} lib/holdfast",  # botocore's own is computed each time
    )
    client: Any = session.create_client(service, region_name=region, endpoint_url=endpoint, config=config)
    client.meta.events.register("response-received", check_is_whole)
    return client


class AnswerCut(Exception):
    """The connection was cut in the middle of an answer: what was asked for may have been done."""


def check_is_whole(event_name: str, response_dict: dict[str, Any] | None, **_: Any) -> None:
    """Raise ``AnswerCut`` if a body is shorter than its header says.

    botocore tells urllib3 not to compare them (``enforce_content_length=False`` in ``botocore.httpsession``), and takes
    JSON that it cannot read for an answer without any content. So half of an item would be no item. Only its legacy
    mode of retries compares checksums. The bodies of streams are checked as they are read, and ``HEAD`` has none.
    """
    if response_dict is None or event_name.rpartition(".")[2].startswith("Head"):
        return
    body, length = response_dict["body"], response_dict["headers"].get("content-length")
    if isinstance(body, bytes) and length is not None and len(body) != int(length):
        raise AnswerCut(f"{len(body)} of {length} bytes came")


class ThreadedConnection:
    """A client, made when it is first needed and used by a pool of threads. A given client is left open."""

    def __init__(
        self, region: str | None, endpoint: str | None, service: str = "dynamodb", *, client: Any = None
    ) -> None:
        self._client_of = (region, endpoint, service)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-aws")
        self._client = client
        self._is_mine = client is None
        self._making = asyncio.Lock()

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if self._client is None:
            async with self._making:
                if self._client is None:
                    self._client = await self.run(new_client, *self._client_of)
        return await self.run(perform, self._client, operation, parameters)

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Do something that waits, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *args)

    def close(self) -> None:
        self._pool.shutdown(wait=False)
        if self._is_mine and self._client is not None:
            self._client.close()


def perform(client: Any, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Call an operation by its name in the API reference. An answer that is a stream is read here, in the thread that
    waits.
    """
    answer: dict[str, Any] = getattr(client, _method_of(operation))(**parameters)
    for stream in answer.keys() & {"Body", "Payload"}:
        answer[stream] = answer[stream].read()
    return answer


@cache
def _method_of(operation: str) -> str:
    """``TransactWriteItems`` is ``transact_write_items``, as botocore names its methods."""
    from botocore import xform_name  # noqa: PLC0415 - loaded when it is needed, and only then

    method: str = xform_name(operation)
    return method
