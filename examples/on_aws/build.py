"""The function's code: Holdfast and what it needs, as pip puts it there, and the examples."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from examples.on_aws.tools import ROOT, run

EXAMPLES = ROOT / "examples"
DEPLOYED = [f"on_aws/{name}.py" for name in ("__init__", "app", "checkout", "faults", "handler")]


def build(folder: Path) -> Path:
    """Fill a folder with the code. It is for this machine and this Python, because the stand-in runs it here; for
    Lambda itself pip is told the platform, as the ``Makefile`` of ``holdfast init`` does. Raises ``ToolMissing``.
    """
    code = folder / "build"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    into = ("--target", code, "--upgrade")
    locked = ("--require-hashes", "--only-binary", ":all:", "--requirement", ROOT / "locks" / "core.txt")
    run([*pip, *into, *locked], "what the code needs cannot be packed")
    run([*pip, *into, "--no-deps", "--no-build-isolation", ROOT], "the code cannot be packed")
    (code / "examples" / "on_aws").mkdir(parents=True)
    for source in [*EXAMPLES.glob("*.py"), *(EXAMPLES / each for each in DEPLOYED)]:
        shutil.copy(source, code / source.relative_to(ROOT))
    return code


def packed(code: Path) -> Path:
    """The folder as a zip file beside it."""
    archive = code.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for file in sorted(each for each in code.rglob("*") if each.is_file() and "__pycache__" not in each.parts):
            made.write(file, file.relative_to(code))
    return archive
