"""Creating the file of a home, for its owner alone, and refusing one that others could have put there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidInput, StoreUnusable
from holdfast.file_owner import complaint_of, complaint_of_links

COMPANIONS: Final = ("", "-wal", "-shm", "-journal")
"""The file, and the files next to it that SQLite trusts: a log found there becomes part of the file."""


def real_path(path: str | os.PathLike[str]) -> Path:
    """Where the file is, or would be. Raises ``StoreUnusable`` if another user has a hand in it."""
    named = os.fspath(path)
    if not named or named == ":memory:":
        msg = f"{named!r} is not a file. For a store without one use memory://"
        raise InvalidInput(msg)
    if complaint := complaint_of_links(named):
        raise StoreUnusable(complaint)
    real = Path(os.path.realpath(named))
    check_ownership(real)
    return real


def create(path: str | os.PathLike[str]) -> str:
    """Make sure that the file exists, readable by its owner alone if we created it; returns its real path."""
    real = real_path(path)
    try:
        _create_directory(real.parent)
        # O_EXCL: an existing file keeps its mode. SQLite gives -wal and -shm the mode of the file itself
        # (https://sqlite.org/src, os_unix.c, findCreateFileMode), so 0600 here is 0600 for all three.
        descriptor = os.open(real, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return str(real)
    except OSError as error:
        msg = f"{real} cannot be created: {error.strerror}. Choose a path in a folder that this user may write"
        raise StoreUnusable(msg) from error
    try:
        os.fchmod(descriptor, 0o600)  # whatever the umask took away
    finally:
        os.close(descriptor)
    return str(real)


def check_ownership(path: Path) -> None:
    """Refuse a file, or a log of it, that another user owns or may write: its content would be that user's."""
    for suffix in COMPANIONS:
        if complaint := complaint_of(f"{path}{suffix}"):
            raise StoreUnusable(complaint)


def _create_directory(directory: Path) -> None:
    if directory.exists():
        return
    _create_directory(directory.parent)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:  # another process was faster
        return
    directory.chmod(0o700)
