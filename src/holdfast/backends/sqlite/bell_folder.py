"""Where the bells of a database file are: a folder that belongs to the file's owner, and to nobody else."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from holdfast.errors import StoreUnusable

ADDRESS_BYTES: Final = 100
"""The longest path of a socket: the kernel's limit is 108 bytes on Linux and 104 on macOS (unix(7))."""

NAME_BYTES: Final = 25
"""The longest name in the folder: a separator, a dot, ten digits, a dash and twelve digits."""


def bell_folder(path: str) -> Path:
    """The folder for the database file at the real path ``path``, created if need be.

    ``<path>-bells``, or a folder named by the path's hash in the temporary directory if that would be too long for a
    socket. Raises ``StoreUnusable`` if somebody else could put sockets there, or take ours away, and
    ``FileNotFoundError`` if somebody who closed removed it meanwhile: try again.
    """
    owner = Path(path).stat().st_uid
    folder = Path(f"{path}-bells")
    if len(os.fsencode(folder)) + NAME_BYTES > ADDRESS_BYTES:
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"holdfast-{owner}-{digest}"
    try:
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # whatever the umask took away
    except FileExistsError:
        pass
    except FileNotFoundError:  # it was there, and went
        raise
    except OSError as error:
        msg = f"{folder} cannot be created: {error.strerror}. Processes on one database meet there; make room for it"
        raise StoreUnusable(msg) from error
    found = folder.lstat()  # of the folder itself: a symbolic link is not one
    if (
        not stat.S_ISDIR(found.st_mode)
        or stat.S_IMODE(found.st_mode) & 0o077
        or found.st_uid not in {os.geteuid(), owner}
    ):
        msg = f"{folder} must be a folder of this user alone (mode 0700). Remove it; it is made anew"
        raise StoreUnusable(msg)
    return folder
