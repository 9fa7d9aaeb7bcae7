"""Tools that would not go well with the project's own packages, each in an environment of its own under ``.tools/``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools"

CDK = "cdk"
"""Large: 400 MB. Only `make test-cdk` and CI install it."""


def environment(name: str) -> Path:
    """The folder of programs of an environment with what ``locks/NAME.txt`` lists; installs it if it is not there.

    Tests that come at the same time wait for the first. Raises ``subprocess.CalledProcessError`` if it cannot be done.
    """
    command = (ROOT / "tools" / "locked-environment", name, sys.executable)
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def environment_or_skip(name: str) -> Path:
    """The same; if it cannot be had, a loud skip."""
    try:
        return environment(name)
    except subprocess.CalledProcessError as error:
        lack = f"{name} cannot be installed: {(error.stderr or str(error)).strip()[-300:]}"
    lacking(f"what {name} is for", lack)


def lacking(what: str, lack: str) -> NoReturn:
    """Skip loudly for what the machine lacks; `tests/conftest.py` makes it a failure where nothing may be skipped."""
    pytest.skip(f"NOT TESTED: {what}: {lack}")


def bare_environment(**more: str) -> dict[str, str]:
    """The variables of a child that must find neither real credentials nor a proxy on its way to this machine."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    return kept | {"NO_PROXY": "127.0.0.1", "PYTHONPATH": str(ROOT / "src")} | more


def installed(name: str) -> bool:
    """Whether there is such an environment already."""
    return any(TOOLS.glob(f"{name}-*/installed"))
