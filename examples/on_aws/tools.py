"""Tools that would not go well with the project's own packages, each in an environment of its own under ``.tools/``.

The pins are those of the tests, which compare them.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

TOOLS = Path(__file__).parents[2] / ".tools"

MINISTACK = ("ministack==1.5.33", "boto3==1.43.106")
CDK = ("aws-cdk-lib==2.275.0", "constructs==10.8.1", "msgspec>=0.22")


class ToolMissing(Exception):
    """A tool is not there and cannot be installed."""


def environment(requirements: tuple[str, ...], tell: Callable[[str], None]) -> Path:
    """The folder of programs of an environment with these packages; installs it if it is not there.

    Raises ``ToolMissing``.
    """
    folder = TOOLS / requirements[0].replace("==", "-")
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            tell(f"installing {requirements[0]} into {folder}; only once, and it takes its time")
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            run([folder / "bin" / "python", *PIP_INSTALL, *requirements], f"{requirements[0]} cannot be installed")
            (folder / "installed").touch()
    return folder / "bin"


PIP_INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def run(
    command: Sequence[Path | str], failure: str, *, folder: Path | None = None, variables: dict[str, str] | None = None
) -> str:
    """What a program prints. Raises ``ToolMissing`` with its last words if it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=variables)
    if done.returncode:
        raise ToolMissing(f"{failure}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout
