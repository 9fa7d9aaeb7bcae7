"""A small HTTP client that keeps cookies, for the demonstration and the tests: one connection per request."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from http.client import HTTPMessage, parse_headers
from http.cookies import SimpleCookie
from io import BytesIO
from typing import Any

ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """What came back; ``data`` is its JSON."""

    status: int
    headers: HTTPMessage
    data: Any


@dataclass
class Browser:
    """A visitor of the server at a port of this machine; set ``port`` to go on at another."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict[str, str])

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def post(self, path: str, data: object, key: str | None = None) -> Answer:
        return await self.ask("POST", path, data, key)

    async def put(self, path: str, data: object) -> Answer:
        return await self.ask("PUT", path, data)

    async def ask(self, method: str, path: str, data: object = None, key: str | None = None) -> Answer:
        """One request. Raises ``OSError`` if nobody answers it."""
        body = b"" if data is None else json.dumps(data).encode()
        lines = [f"{method} {path} HTTP/1.1", "host: shop", "connection: close", f"content-length: {len(body)}"]
        if self.cookies:
            lines.append("cookie: " + "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        if key is not None:
            lines.append(f'idempotency-key: "{key}"')
        async with asyncio.timeout(ANSWER_SECONDS):
            raw = await self._exchange("\r\n".join([*lines, "", ""]).encode() + body)
        answer = parsed(raw)
        for header in answer.headers.get_all("set-cookie", []):
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(header).items()}
        return answer

    async def _exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()


def parsed(raw: bytes) -> Answer:
    """An answer, from its bytes. Raises ``ConnectionError`` if there are too few."""
    head, separator, body = raw.partition(b"\r\n\r\n")
    if not separator:
        raise ConnectionResetError("the server went away")
    first, _, rest = head.partition(b"\r\n")
    headers = parse_headers(BytesIO(rest + separator))
    if len(body) < int(headers.get("content-length", "0")):
        raise ConnectionResetError("the server went away in the middle of its answer")
    return Answer(int(first.split()[1]), headers, json.loads(body) if body else None)
