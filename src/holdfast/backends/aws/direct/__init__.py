"""A connection to DynamoDB or SQS without botocore's work for each request: a small client of their JSON protocol.

botocore takes two thirds of the processor time of a request: it passes each through a model of the service, a chain of
handlers and a pool of connections, in a thread. Here a request is encoded, signed and written to an open connection,
and its answer is checked and decoded. Nothing else differs: each request is sent once, and errors look as
botocore's do. What this client does not know goes through botocore.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

import msgspec

from holdfast.backends.aws.connection import AnswerCut, ThreadedConnection
from holdfast.backends.aws.direct.answers import HttpAnswer
from holdfast.backends.aws.direct.authorities import trusted
from holdfast.backends.aws.direct.lines import Lines, NotSent
from holdfast.backends.aws.direct.messages import DYNAMODB, Refused, Service, encode, refused
from holdfast.backends.aws.direct.signing import Keys, Signer
from holdfast.backends.aws.direct.surroundings import Found, Place, ask_botocore, look_around
from holdfast.clock import MS_PER_MINUTE, Clock, SystemClock

OK: Final = 200

SKEWED: Final = frozenset({"InvalidSignatureException", "RequestExpired", "RequestTimeTooSkewed"})
SKEW_MS: Final = 4 * MS_PER_MINUTE
"""A request is refused if its time is off by more than five minutes ("Troubleshoot Signature Version 4 signing", IAM
user guide: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html)."""


class DirectConnection:
    """Sends requests from the event loop. With the first one it finds out where they go, unless ``found`` says so.

    ``region`` and ``endpoint`` are as for botocore.
    """

    def __init__(
        self,
        region: str | None,
        endpoint: str | None,
        service: Service = DYNAMODB,
        *,
        clock: Clock | None = None,
        found: Found | None = None,
    ) -> None:
        self._asked = (region, endpoint, service.name)
        self._service = service
        self._clock = clock or SystemClock()
        self._others = ThreadedConnection(*self._asked)
        self._client = None if found is None else self._client_at(found)
        self._is_found = found is not None
        self._finding = asyncio.Lock()

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """See ``Connection.send``."""
        if not self._is_found:
            await self._find()
        if self._client is None or operation not in self._service.operations:
            return await self._others.send(operation, parameters)
        return await self._client.send(operation, parameters)

    def close(self) -> None:
        """See ``Connection.close``."""
        self._others.close()
        if self._client is not None:
            self._client.close()

    async def _find(self) -> None:
        async with self._finding:
            if not self._is_found:
                found = look_around(*self._asked) or await self._others.run(ask_botocore, *self._asked)
                self._client = None if found is None else self._client_at(found)
                self._is_found = True

    def _client_at(self, found: Found) -> _Client:
        return _Client(self._service, found, self._others, self._clock)


class _Client:
    """A service at one place."""

    def __init__(self, service: Service, found: Found, pool: ThreadedConnection, clock: Clock) -> None:
        self._service = service
        place, self._credentials = found
        self._keys = self._credentials if isinstance(self._credentials, Keys) else None
        self._pool = pool
        self._clock = clock
        self._ahead_ms = 0
        self._signer = Signer(service.name, place.region, place.header)
        self._lines = Lines(place.host, place.port, _tls(place))

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        keys = self._keys or await self._current_keys()
        body = encode(parameters)
        headers = self._signer.headers(
            keys, self._service.target + operation, body, self._clock.now_ms() + self._ahead_ms
        )
        head = f"POST / HTTP/1.1\r\n{headers}{REST}content-length:{len(body)}\r\n\r\n"
        answer = await self._lines.ask(head.encode() + body)
        if answer.status != OK:
            raise self._error(refused(operation, answer.status, answer.body), answer)
        try:
            content: dict[str, Any] = self._service.decode(answer.body)
        except msgspec.DecodeError as error:
            raise AnswerCut(f"the answer cannot be read: {error}") from error
        return content

    def close(self) -> None:
        self._lines.close()

    async def _current_keys(self) -> Keys:
        """Those of botocore, which renews what is about to expire. That asks another service, so a thread waits."""
        held = self._credentials
        if hasattr(held, "refresh_needed") and held.refresh_needed():
            frozen = await self._pool.run(held.get_frozen_credentials)
        else:
            frozen = held.get_frozen_credentials()
        return Keys(frozen.access_key, frozen.secret_key, frozen.token)

    def _error(self, error: Refused, answer: HttpAnswer) -> Exception:
        """The error of a request. If its time was wrong, the service's clock counts from now on."""
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - a cold start has no need of it

        date = answer.headers.get(b"date")
        if error.response["Error"]["Code"] not in SKEWED or date is None:
            return error
        try:
            ahead_ms = int(parsedate_to_datetime(date.decode()).timestamp() * 1000) - self._clock.now_ms()
        except ValueError:
            return error
        if abs(ahead_ms - self._ahead_ms) < SKEW_MS:
            return error
        self._ahead_ms = ahead_ms
        return NotSent(f"the clock of this machine differs by {ahead_ms / 1000:.0f} seconds from that of AWS")


REST: Final = "accept-encoding:identity\r\nuser-agent:lib/holdfast\r\n"


def _tls(place: Place) -> ssl.SSLContext | None:
    return trusted(place.authorities) if place.scheme == "https" else None
