"""How to call this command line again, for commands that people copy from its output."""

from __future__ import annotations

import shlex
import shutil
import sys
import sysconfig
from pathlib import Path


def own_command() -> str:
    """``holdfast`` if the shell finds this installation under that name, else its path, ready for a shell."""
    script = Path(sysconfig.get_path("scripts")) / "holdfast"
    found = shutil.which("holdfast")
    if not script.exists():
        return "holdfast" if found else f"{shlex.quote(sys.executable)} -m holdfast.cli"
    if found and Path(found).samefile(script):
        return "holdfast"
    here = Path.cwd()
    return shlex.quote(f"./{script.relative_to(here)}" if script.is_relative_to(here) else str(script))
