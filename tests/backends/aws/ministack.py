"""ministack: a stand-in for services of AWS, installed once in an environment of its own, for it pins botocore."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

from tests.backends.aws.local import STARTS_WITHIN_SECONDS, TOOLS
from tests.torture.die_with_parent import die_with_parent

VERSION = "1.5.33"
FOLDER = TOOLS / f"ministack-{VERSION}"
PROGRAM = FOLDER / "bin" / "ministack"


def missing() -> str | None:
    """Why it cannot be run here, if it cannot."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "ministack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if PROGRAM.exists():
            return None
        try:
            _install()
        except (OSError, subprocess.CalledProcessError) as error:
            return f"ministack {VERSION} could not be installed: {error}"
    return None


def _install() -> None:
    """What an attempt that was stopped has left is made anew: the program is there last."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], check=True, capture_output=True)
    pip = [FOLDER / "bin" / "python", "-m", "pip", "install", "--quiet", f"ministack=={VERSION}", "boto3"]
    subprocess.run(pip, check=True, capture_output=True)


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Its address, on loopback, at a port that was free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [PROGRAM],
        cwd=FOLDER,
        env=os.environ | {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing else runs yet that a fork could upset
    )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _wait(process, endpoint)
        yield endpoint
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], endpoint: str) -> None:
    open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    until = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            open_url(f"{endpoint}/_ministack/health", timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"ministack did not answer at {endpoint}")
