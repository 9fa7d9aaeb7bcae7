"""ministack: SQS, DynamoDB and the rest of AWS in one process, in an environment of its own, on the loopback."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.backends.aws.local import TOOLS
from tests.torture.die_with_parent import die_with_parent

VERSION = "1.5.33"
"""Exactly this one: it is young, and what it does was compared with AWS's guides once (it pins botocore, too)."""

STARTS_WITHIN_SECONDS = 60


class Missing(Exception):
    """It is not there, and cannot be fetched."""


def install() -> Path:
    """Make the environment, once; answers its folder. Processes that come at the same time wait for the first."""
    TOOLS.mkdir(exist_ok=True)
    place = TOOLS / f"ministack-{VERSION}"
    with (TOOLS / "ministack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / "complete"
        if not done.exists():
            _run(sys.executable, "-m", "venv", "--clear", str(place))
            pip = str(place / "bin" / "pip")
            _run(pip, "install", "--quiet", "--disable-pip-version-check", f"ministack=={VERSION}", "boto3")
            done.touch()
    return place


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"ministack {VERSION} cannot be installed: {error}") from error


class Ministack:
    """A running server, and its address."""

    def __init__(self) -> None:
        folder = install()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [str(folder / "bin" / "ministack")],
            cwd=folder,
            env=os.environ | {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing else runs yet that a fork could upset
        )
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + STARTS_WITHIN_SECONDS
        open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        while time.monotonic() < until and self._process.poll() is None:
            try:
                open_url(self.endpoint, timeout=5).close()
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.05)
            else:
                return
        self.stop()
        raise AssertionError(f"ministack did not answer at {self.endpoint}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
