"""A real Redis for tests: on loopback, on a port that was free, killed and started again as they like."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

STARTS_WITHIN_SECONDS = 60.0


class RedisServer:
    """One server, on one port for all its lives. It keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            ["redis-server", *options, "--dir", str(self._folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        gives_up_at = time.monotonic() + STARTS_WITHIN_SECONDS
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                if time.monotonic() > gives_up_at or self._process.poll() is not None:
                    raise

    def kill(self) -> None:
        """End it as by ``kill -9``: it has no time for anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Let it answer nothing, though its connections stay open, as a hung machine does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def server_or_skip() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("NOT TESTED: redis-server is not installed (Debian: apt-get install redis-server)")


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis that lives as long as the tests of this process; each test uses keys of its own."""
    server_or_skip()
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, to be killed. It runs."""
    server_or_skip()
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.kill()
