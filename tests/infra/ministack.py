"""ministack: a stand-in for AWS in one process, on this machine, for as long as a test needs it."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.infra.tools import bare_environment
from tests.torture.die_with_parent import die_with_parent

REGION = "eu-west-1"
STARTS_WITHIN_SECONDS = 60
SETTLES_WITHIN_SECONDS = 60


@contextmanager
def ministack(programs: Path, folder: Path) -> Generator[str]:
    """Its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = bare_environment(
        BIND_HOST="127.0.0.1", GATEWAY_PORT=str(port), AWS_REGION=REGION, MINISTACK_REGION=REGION, TMPDIR=str(folder)
    )
    with (folder / "ministack.log").open("wb") as log:
        command = [programs / "ministack"]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing else runs yet that a fork could upset
        )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(process, endpoint), STARTS_WITHIN_SECONDS)
        yield endpoint
    finally:
        process.terminate()
        process.wait(timeout=30)


def answers(process: subprocess.Popen[bytes], endpoint: str) -> bool:
    assert process.poll() is None, "ministack has ended"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{endpoint}/_ministack/health", timeout=1):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def wait_until(done: Any, seconds: float = SETTLES_WITHIN_SECONDS) -> Any:
    """The first true answer; a failure if none comes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if answer := done():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"this did not come true within {seconds} seconds: {done}")
