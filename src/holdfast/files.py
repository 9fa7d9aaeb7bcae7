"""Files that are made and read where others may have put something: a link, or a pipe that holds up its reader."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO


def new_file(path: Path) -> IO[bytes]:
    """A file that was not there before, for its owner alone, whatever the umask. Raises ``OSError``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "wb")


def give_name(part: Path, path: Path) -> None:
    """Give a file that is whole its name, beside the one it has. Raises ``FileExistsError`` if something has that name.

    A link is never in place of what is there, as a renamed file would be.
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
    """A regular file, to be read. Raises ``OSError`` at once for anything else, a symbolic link too: a pipe would wait
    for somebody to write, for ever, and a device may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file, but a pipe, a device, a socket or a folder", str(path))
    return os.fdopen(descriptor, "rb")
