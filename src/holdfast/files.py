"""Files in places where other users may have put a link, or a pipe that blocks its reader."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO


def new_file(path: Path) -> IO[bytes]:
    """A new file, for its owner alone, whatever the umask. Raises ``OSError`` if there is one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "wb")


def give_name(part: Path, path: Path) -> None:
    """Give a complete file a second name, its final one. Raises ``FileExistsError`` if that name is in use.

    Unlike a rename, a link never replaces an existing file.
    """
    try:
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # not every file system has links
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        part.rename(path)


def open_file(path: Path) -> IO[bytes]:
    """A regular file, to be read. Raises ``OSError`` at once for anything else, also for a symbolic link: a pipe would
    wait for a writer without end, and a device may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file, but a pipe, a device, a socket or a folder", str(path))
    return os.fdopen(descriptor, "rb")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: syncing a file does not (fsync(2))."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
