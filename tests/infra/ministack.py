"""ministack: a stand-in for AWS in one process, on this machine, for as long as a test needs it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from tests.infra.tools import bare_environment, environment_or_skip
from tests.torture.die_with_parent import die_with_parent

REGION = "eu-west-1"
STARTS_WITHIN_SECONDS = 60
SETTLES_WITHIN_SECONDS = 60


KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@contextmanager
def only_ministack(factory: pytest.TempPathFactory, **credentials: str) -> Generator[str]:
    """Its address, in an environment that knows no other AWS, for a fixture that the tests of a module share."""
    programs = environment_or_skip("ministack")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in {**(credentials or KEYS), "NO_PROXY": "127.0.0.1"}.items():
            patch.setenv(name, value)
        with ministack(programs, factory.mktemp("ministack")) as endpoint:
            yield endpoint


@contextmanager
def clients(endpoint: str) -> Generator[Callable[[str], Any]]:
    """``client("sqs")``; all are closed in the end."""
    made: dict[str, Any] = {}

    def get(service: str) -> Any:
        if service not in made:
            made[service] = boto3.client(service, region_name=REGION, endpoint_url=endpoint)
        return made[service]

    yield get
    for each in made.values():
        each.close()


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
