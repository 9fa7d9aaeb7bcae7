"""Where the bells of a database file are: a folder next to it that belongs to the file's owner alone.

It depends on the file alone, never on the environment of a process (``TMPDIR``, a private ``/tmp``): two processes with
different folders would not find each other's sockets.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from holdfast.errors import StoreUnusable
from holdfast.file_owner import complaint_of

ADDRESS_BYTES: Final = 100
"""The longest path of a socket: the kernel's limit is 108 bytes on Linux and 104 on macOS (unix(7))."""

NAME_BYTES: Final = 34
"""The longest name in the folder: a separator, a dot, ten digits, a dash, eight digits, a dash and twelve digits."""

DESCRIPTORS: Final = Path("/proc/self/fd")
"""Where Linux lets a process name what it has open: a short way to a folder whose path is long."""

DEAD: Final = ".dead"
"""The suffix of a socket's name once it is known that no process has it open: the proof for all others."""

PROOF_SECONDS: Final = 60
"""How long the proof stays. Longer leases have to lapse."""

BIND_TRIES: Final = 10
"""How often the folder may be removed between its creation and its use."""


class BellFolder:
    """The folder of one database file, and a way to its sockets that is short enough for the kernel."""

    def __init__(self, path: str) -> None:
        self.path = bell_folder(path)
        self._way, self.close = _short_way(self.path)

    def address(self, name: str) -> str:
        """The address to which a socket is bound or connected."""
        return f"{self._way}/{name}"

    def bind(self, name: str) -> socket.socket:
        """A socket of this name. Raises ``FileNotFoundError`` if the folder is gone."""
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            bell.settimeout(0)
            # Under a name that others ignore, then renamed: between its creation and the end of `bind` the socket
            # refuses connections and would look like that of a dead process.
            unnoticed = self.path / f".{name}"
            unnoticed.unlink(missing_ok=True)
            bell.bind(self.address(unnoticed.name))
            unnoticed.chmod(0o600)
            unnoticed.rename(self.path / name)
        except BaseException:
            bell.close()
            raise
        return bell

    def changed_ns(self) -> int:
        """When an entry was last added or removed."""
        return self.path.stat().st_mtime_ns

    def names(self) -> list[str]:
        """The present entries."""
        return [each.name for each in self.path.iterdir()]

    def bury(self, name: str) -> None:
        """No process has this socket open, and none ever will: names are not used again. Leave the proof for others."""
        with suppress(OSError):
            proof = self.path / f"{name}{DEAD}"
            (self.path / name).rename(proof)
            os.utime(proof)

    def is_buried(self, name: str) -> bool:
        """Whether there is proof that no process has this socket open."""
        return (self.path / f"{name}{DEAD}").exists()

    def tidy(self) -> None:
        """Remove the proofs that are not needed any more."""
        with suppress(OSError):
            latest = self.path.stat().st_mtime
            for each in self.path.iterdir():
                if each.name.endswith(DEAD) and each.lstat().st_mtime < latest - PROOF_SECONDS:
                    each.unlink(missing_ok=True)


def open_bell(path: str, owner: str) -> tuple[BellFolder, socket.socket]:
    """The folder of the database file at the real path ``path``, and our socket in it. Raises ``StoreUnusable``."""
    for _ in range(BIND_TRIES):
        with suppress(FileNotFoundError):
            folder = BellFolder(path)
            try:
                return folder, folder.bind(owner)
            except FileNotFoundError:
                folder.close()
            except OSError as error:
                folder.close()
                raise StoreUnusable(
                    f"no socket can be made in {folder.path}: {error.strerror or error}. Processes on one database"
                    " wake each other there; keep the file on a local file system, in a folder that this user may use"
                ) from error
    raise StoreUnusable(f"the folder for the bells of {path} is removed again and again; stop what cleans up there")


def beside(path: str) -> Path:
    """The folder for the bells of a database file, whether or not there are any."""
    return Path(f"{path}-bells")


def bell_folder(path: str) -> Path:
    """The folder for the database file at the real path ``path``, created if necessary: ``<path>-bells``.

    Raises ``StoreUnusable`` if another user could add sockets there, or remove ours, and ``FileNotFoundError`` if
    it was removed meanwhile: try again.
    """
    folder = beside(path)
    try:
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # whatever the umask took away
    except FileExistsError:
        pass
    except FileNotFoundError:
        raise
    except OSError as error:
        msg = f"{folder} cannot be created: {error.strerror}. Processes on one database use it; make room for it"
        raise StoreUnusable(msg) from error
    found = folder.lstat()  # of the folder itself: a symbolic link is not one
    if complaint := complaint_of(folder, found):
        raise StoreUnusable(complaint)
    if not stat.S_ISDIR(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o077:
        msg = f"{folder} must be a folder of this user alone (mode 0700). Remove it; it is created again"
        raise StoreUnusable(msg)
    return folder


def _short_way(folder: Path) -> tuple[str, Callable[[], None]]:
    """A path to the folder for this process, and the function that frees it. The sockets are in the folder itself."""
    if len(os.fsencode(folder)) + NAME_BYTES <= ADDRESS_BYTES:
        return str(folder), _nothing
    if DESCRIPTORS.is_dir():
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return f"{DESCRIPTORS}/{descriptor}", partial(os.close, descriptor)
    beside = tempfile.mkdtemp(prefix="hf")
    link = Path(beside) / "b"
    link.symlink_to(folder, target_is_directory=True)
    return str(link), partial(shutil.rmtree, beside, ignore_errors=True)


def _nothing() -> None:
    """There is nothing to free."""
