"""The peers, and an environment for each, made when it is first needed: ``.peers/<name>`` in the project's folder."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PEERS: Final = Path(__file__).parents[1] / ".peers"
SCRIPTS: Final = Path(__file__).parent / "peers"


class PeerMissingError(Exception):
    """The peer could not be installed; the message says why."""


@dataclass(frozen=True, slots=True)
class System:
    """A peer: what is installed of it, and what runs there.

    ``requirements`` are for pip; ``server`` is a package of npm with a program for one platform, whose name follows.
    ``imported`` is the package of its users and a name in it. ``remark`` says what else is to be known of a figure.
    """

    name: str
    version: str
    requirements: tuple[str, ...]
    script: Path
    imported: tuple[str, str]
    server: str = ""
    remark: str = ""


DBOS: Final = System(
    "DBOS",
    "3.4.0",
    ("dbos==3.4.0",),
    SCRIPTS / "measure_dbos.py",
    ("dbos", "DBOS"),
    remark="a library on SQLite, as Holdfast is",
)
RESTATE: Final = System(
    "Restate",
    "1.7.12",
    ("restate-sdk==1.3.0", "hypercorn==0.18.0", "granian==2.8.7"),
    SCRIPTS / "measure_restate.py",
    ("restate", "app"),
    server="@restatedev/restate-server",
    remark="a server, called over HTTP on loopback, which calls the handlers over HTTP",
)
DURABLE: Final = System(
    "AWS durable SDK",
    "3.0.0",
    (
        "aws-durable-execution-sdk-python==3.0.0",
        "aws-durable-execution-sdk-python-testing==1.4.0",
        "boto3==1.44.5",
        "botocore==1.44.5",
    ),
    SCRIPTS / "measure_durable.py",
    ("aws_durable_execution_sdk_python", "durable_execution"),
    remark="on its local runner for tests, which nothing survives: no sync, and no network where it says so",
)
POWERTOOLS: Final = System(
    "Powertools",
    "3.37.0",
    ("aws-lambda-powertools==3.37.0", "boto3==1.44.5", "botocore==1.44.5"),
    SCRIPTS / "measure_powertools.py",
    ("aws_lambda_powertools.utilities.idempotency", "idempotent"),
    remark="its idempotent decorator and its layer for DynamoDB, on the same DynamoDB Local as ours",
)
MOTO: Final = System(
    "Moto",
    "5.2.5",
    ("moto[stepfunctions]==5.2.5", "boto3==1.44.8", "botocore==1.44.8"),
    SCRIPTS / "measure_moto.py",
    ("moto", "mock_aws"),
    remark="its interpreter of state machines, in process and in memory: nothing is durable",
)
SYSTEMS: Final = (DBOS, RESTATE, DURABLE, POWERTOOLS, MOTO)

PROCESSORS: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def interpreter(system: System) -> str:
    """The interpreter of the peer's environment, installing the peer if need be. Raises ``PeerMissingError``."""
    folder = PEERS / system.name.lower().replace(" ", "-")
    python, stamp = folder / "bin" / "python", folder / ".installed"
    wanted = "\n".join([*system.requirements, *_server_package(system)])
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return str(python)
    print(f"installing {' '.join(wanted.split())} into {PEERS.name}/{folder.name}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _install(folder, str(python), system)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerMissingError(_reason(error)) from error
    stamp.write_text(wanted, encoding="utf-8")
    return str(python)


def _server_package(system: System) -> list[str]:
    """The package of npm that has the server's program for this machine."""
    if not system.server:
        return []
    processor = platform.machine().lower()
    return [f"{system.server}-{sys.platform}-{PROCESSORS.get(processor, processor)}@{system.version}"]


def _install(folder: Path, python: str, system: System) -> None:
    if system.server and shutil.which("npm") is None:
        raise PeerMissingError("its server comes from npm, and there is no npm here")
    uv = shutil.which("uv")
    if uv:
        _run(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
        _run(uv, "pip", "install", "--quiet", "--python", python, *system.requirements)
    else:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *system.requirements)
    for package in _server_package(system):
        options = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund")  # npm checks the package's hash itself
        _run("npm", "install", *options, "--prefix", str(folder), package)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _reason(error: Exception) -> str:
    """In one line: pip says it last, npm says it first."""
    said = (getattr(error, "stderr", None) or str(error)).strip().splitlines() or [repr(error)]
    of_npm = [line for line in said if line.startswith("npm error")]
    return " ".join(line.removeprefix("npm error").strip() for line in of_npm[:2]) or said[-1]
