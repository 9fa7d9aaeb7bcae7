"""What goes wrong in an environment because the driver wants it to: it dies at a named point, is called twice, is told
nothing.

Everything is told by files in one folder, the only thing that environments and driver share besides the cloud:

| file | means |
|---|---|
| ``planned/<fault>@<n>`` | it is to happen to whoever comes there next |
| ``happened/<fault>@<n>`` | it did |
| ``busy/<pid>`` | this environment handles an event now |
| ``seen`` | a line for each message that came again |
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

FOLDER_VARIABLE = "ON_AWS_FAULTS"
FOLDERS = ("planned", "happened", "busy")

POINTS = ("reserved", "paying", "paid", "asked", "sold", "received", "handled")
"""Where environments die: behind an effect whose step is not recorded, mostly; before a batch; behind one that is done,
of which Lambda has not heard."""

TWICE = "twice"
"""A batch is handled twice, as if SQS had delivered it again."""

LOST = "lost"
"""A batch of rings is not handled, as if it had been lost. The next sweep has to find what they were for."""


def point(name: str) -> None:
    """Die here, if that is planned, by ``kill -9``."""
    if happens(name):
        os.kill(os.getpid(), signal.SIGKILL)


def happens(fault: str) -> bool:
    """Whether this is planned, and is to happen here and now."""
    folder = _folder()
    if folder is None:
        return False
    for plan in sorted((folder / "planned").glob(f"{fault}@*")):
        try:
            plan.rename(folder / "happened" / plan.name)
        except FileNotFoundError:
            continue  # another environment was faster
        return True
    return False


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
