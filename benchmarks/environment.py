"""The peer's own environment, made when it is first needed: ``.peers/dbos`` in the project's folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

PEER: Final = "DBOS"
VERSION: Final = "3.4.0"
REQUIREMENT: Final = f"dbos=={VERSION}"

FOLDER: Final = Path(__file__).parents[1] / ".peers" / "dbos"


class PeerMissingError(Exception):
    """The peer could not be installed; the message says why."""


def peer_python() -> str:
    """The interpreter of the peer's environment, installing the peer if need be. Raises ``PeerMissingError``."""
    python, stamp = FOLDER / "bin" / "python", FOLDER / ".installed"
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == REQUIREMENT:
        return str(python)
    print(f"installing {REQUIREMENT} into {FOLDER.parent.name}/{FOLDER.name}", file=sys.stderr, flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    try:
        _install(str(python))
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise PeerMissingError(said.strip().splitlines()[-1] if said.strip() else repr(error)) from error
    stamp.write_text(REQUIREMENT, encoding="utf-8")
    return str(python)


def _install(python: str) -> None:
    uv = shutil.which("uv")
    if uv:
        _run(uv, "venv", "--quiet", "--python", sys.executable, str(FOLDER))
        _run(uv, "pip", "install", "--quiet", "--python", python, REQUIREMENT)
        return
    _run(sys.executable, "-m", "venv", str(FOLDER))
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
