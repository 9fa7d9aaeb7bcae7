"""Another user of the machine, for tests: as root a real one, else one that this process is taken to be.

Whoever is root gives a file away, or becomes somebody else for a while. For everybody else the kernel allows neither:
then this process only says that its user is another, and every file of its own is a stranger's to it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

STRANGER = 54321
"""A user that no machine knows."""


def given_away(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Have a file, a folder or a link belong to another user than the one who looks at it."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    else:
        patch.setattr(os, "geteuid", lambda: STRANGER)


@contextmanager
def sticky_folder(patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that all may write to, with a file ``theirs`` in it of another user, seen by somebody who is not root
    and owns neither.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "theirs").touch(mode=0o600)
        folder.chmod(0o1777)
        if os.geteuid() != 0:
            with patch.context() as patched:
                patched.setattr(os, "geteuid", lambda: STRANGER)
                yield folder
            return
        os.chown(folder / "theirs", STRANGER + 1, STRANGER + 1)
        os.seteuid(STRANGER)
        try:
            yield folder
        finally:
            os.seteuid(0)
