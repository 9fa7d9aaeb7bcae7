"""What goes wrong in an environment because the driver wants it to: it dies at a named point, or is called twice.

Everything is told by files in one folder, the only thing that environments and driver share besides the cloud:

| file | means |
|---|---|
| ``planned/<point>@<n>`` | whoever comes to this point next, takes the file and dies |
| ``died/<point>@<n>`` | somebody did |
| ``busy/<pid>`` | this environment handles an event now |
| ``seen`` | a line for each thing that is worth counting |
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

FOLDER_VARIABLE = "ON_AWS_FAULTS"
FOLDERS = ("planned", "died", "busy")

POINTS = ("reserved", "paying", "paid", "asked", "sold", "received", "handled")
"""Where environments die: behind an effect whose step is not recorded, mostly; before a batch; behind one that is done,
of which Lambda has not heard."""


def point(name: str) -> None:
    """Die here, if that is planned, by ``kill -9``."""
    folder = _folder()
    if folder is None:
        return
    for plan in sorted((folder / "planned").glob(f"{name}@*")):
        try:
            plan.rename(folder / "died" / plan.name)
        except FileNotFoundError:
            continue  # another environment was faster
        os.kill(os.getpid(), signal.SIGKILL)


def seen(what: str) -> None:
    """Have it counted."""
    if (folder := _folder()) is not None:
        with (folder / "seen").open("a") as lines:
            lines.write(f"{what}\n")


@contextmanager
def busy() -> Generator[None]:
    """This environment is at work."""
    if (folder := _folder()) is None:
        yield
        return
    mark = folder / "busy" / str(os.getpid())
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def _folder() -> Path | None:
    named = os.environ.get(FOLDER_VARIABLE)
    return None if named is None else Path(named)
