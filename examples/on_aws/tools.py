"""Tools that would not go well with the project's own packages, each in an environment of its own under ``.tools/``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools"


class ToolMissing(Exception):
    """A tool is not there and cannot be installed."""


def environment(name: str, tell: Callable[[str], None]) -> Path:
    """The folder of programs of an environment with what ``locks/NAME.txt`` lists; installs it if it is not there.

    Raises ``ToolMissing``.
    """
    if not any(TOOLS.glob(f"{name}-*/installed")):
        tell(f"installing {name} into {TOOLS}; only once, and it takes its time")
    command = (ROOT / "tools" / "locked-environment", name, sys.executable)
    return Path(run(command, f"{name} cannot be installed").strip())


def run(
    command: Sequence[Path | str], failure: str, *, folder: Path | None = None, variables: dict[str, str] | None = None
) -> str:
    """What a program prints. Raises ``ToolMissing`` with its last words if it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=variables)
    if done.returncode:
        raise ToolMissing(f"{failure}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout
