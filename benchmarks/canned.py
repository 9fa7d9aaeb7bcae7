"""A DynamoDB that says yes to every request, in a process of its own: ``python -m benchmarks.canned`` tells its port.

So the rest of a request can be counted alone, by instructions: those of the processes that ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator

from holdfast.testing.hostile.wire import Messages

BODY = b'{"ConsumedCapacity":{"TableName":"bench-holdfast","CapacityUnits":1.0}}'
ANSWER = (
    "HTTP/1.1 200 OK\r\nServer: Server\r\nDate: Sat, 28 Nov 2026 12:00:00 GMT\r\nConnection: keep-alive\r\n"
    f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(BODY)}\r\n"
    f"x-amzn-RequestId: {'A' * 52}\r\nx-amz-crc32: {zlib.crc32(BODY)}\r\n\r\n"
).encode() + BODY
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "eu-west-1"}


@contextlib.contextmanager
def canned() -> Iterator[str]:
    """A running one, and the URL of a home on it; the environment has credentials for it."""
    command = [sys.executable, "-m", "benchmarks.canned"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        os.environ |= CREDENTIALS | {"NO_PROXY": "127.0.0.1"}
        try:
            yield f"aws://bench?region=eu-west-1&endpoint=http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    messages = Messages()
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            for _ in messages.feed(data):
                writer.write(ANSWER)
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
