"""Tools that would not go well with the project's own packages, each in an environment of its own under ``.tools/``."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NoReturn

import pytest

TOOLS = Path(__file__).parents[2] / ".tools"

HOW = ("--quiet", "--no-compile", "--disable-pip-version-check")

CFN_LINT = ("cfn-lint==1.58.0",)
MINISTACK = ("ministack==1.5.33", "boto3==1.43.106")
"""ministack pins botocore, so it cannot share an environment with a current boto3."""

CDK = ("aws-cdk-lib==2.275.0", "constructs==10.8.1", "msgspec>=0.22")
"""Large: 400 MB. Only `make test-cdk` and CI install it."""


def environment(requirements: tuple[str, ...], suffix: str = "") -> Path:
    """The folder of programs of an environment with these packages; installs it if it is not there.

    Tests that come at the same time wait for the first. Raises ``subprocess.CalledProcessError`` if it cannot be done.
    """
    folder = TOOLS / (requirements[0].replace("==", "-") + suffix)
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            install = (folder / "bin" / "python", "-m", "pip", "install", *HOW)
            subprocess.run([*install, *requirements], check=True, capture_output=True, text=True)
            (folder / "installed").touch()
    return folder / "bin"


def environment_or_skip(requirements: tuple[str, ...], suffix: str = "") -> Path:
    """The same; if it cannot be had, a loud skip."""
    try:
        return environment(requirements, suffix)
    except subprocess.CalledProcessError as error:
        lack = f"{requirements[0]} cannot be installed: {(error.stderr or str(error)).strip()[-300:]}"
    lacking(f"what {requirements[0]} is for", lack)


def lacking(what: str, lack: str) -> NoReturn:
    """Skip loudly for what the machine lacks; `tests/conftest.py` makes it a failure where nothing may be skipped."""
    pytest.skip(f"NOT TESTED: {what}: {lack}")


def bare_environment(**more: str) -> dict[str, str]:
    """The variables of a child that must find neither real credentials nor a proxy on its way to this machine."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    return kept | {"NO_PROXY": "127.0.0.1", "PYTHONPATH": str(Path(__file__).parents[2] / "src")} | more


def installed(requirements: tuple[str, ...]) -> bool:
    """Whether the environment is there already."""
    return (TOOLS / requirements[0].replace("==", "-") / "installed").exists()


if __name__ == "__main__":
    print(environment({"cfn-lint": CFN_LINT, "ministack": MINISTACK, "cdk": CDK}[sys.argv[1]]))  # noqa: T201 - for make
