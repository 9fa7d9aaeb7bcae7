"""The stand-in for AWS: ministack, one process on a free port of loopback, and whatever it starts itself."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from examples.on_aws.tools import ToolMissing

REGION = "eu-west-1"
STARTS_WITHIN_SECONDS = 60

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}  # none that anybody would accept
GUARD = '"$0" & read -r _; kill -s KILL -- -$$'
"""Ends it, and the environments that it has started, when our end of the pipe is closed, also because we were killed.
They are in one process group of their own, and nothing else is. There is nothing in them that a grace would save."""


class Emulator:
    """Where it is, and which process it is."""

    def __init__(self, endpoint: str, guard: int) -> None:
        self.endpoint = endpoint
        self._guard = guard
        self._clients: list[Any] = []

    def client(self, service: str) -> Any:
        """A client that talks to it, and is patient."""
        config = Config(retries={"total_max_attempts": 6, "mode": "standard"}, read_timeout=60)
        client = boto3.client(service, region_name=REGION, endpoint_url=self.endpoint, config=config)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            client.close()

    def environments(self) -> list[int]:
        """The processes in which it runs the function now."""
        processes = listed_processes()
        (own,) = [pid for pid, (parent, _) in processes.items() if parent == self._guard]
        return [pid for pid, (parent, command) in processes.items() if parent == own and "_worker.py" in command]


def listed_processes() -> dict[int, tuple[int, str]]:
    """The parent and the command of every process."""
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]  # whole lines, however wide
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = (line.split(maxsplit=2) for line in told.stdout.splitlines())
    return {int(pid): (int(parent), args[0] if args else "") for pid, parent, *args in rows}


@contextmanager
def emulator(programs: Path, folder: Path) -> Generator[Emulator]:
    """Runs while the block does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    settings = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "AWS_REGION": REGION, "MINISTACK_REGION": REGION}
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", GUARD, programs / "ministack"],
            cwd=folder,
            env={**kept, **settings, **CREDENTIALS, "TMPDIR": str(folder), "NO_PROXY": "127.0.0.1"},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            process_group=0,  # Ctrl-C is for us alone; we stop it in order
        )
    made = Emulator(f"http://127.0.0.1:{port}", process.pid)
    try:
        _wait(process, made.endpoint)
        yield made
    finally:
        made.close()
        _stop(process)


def _wait(process: subprocess.Popen[bytes], endpoint: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            opener.open(f"{endpoint}/_ministack/health", timeout=1).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise ToolMissing("the emulator does not answer; its log is emulator.log in the folder of the run (--keep)")


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
