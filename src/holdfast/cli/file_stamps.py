"""Which files have changed since they were looked at: by time, size and inode, without reading them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

NS_PER_MS: Final = 1_000_000

Stamp = tuple[int, int, int] | None
"""When a file was written, its size and its inode; ``None`` if it is not there."""


def stamp_of(file: str) -> Stamp:
    """The stamp of a file; a symbolic link has that of what it leads to."""
    try:
        found = os.stat(file)  # noqa: PTH116 - a file may have a name that is no good path
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def stamps_of(files: Iterable[str]) -> dict[str, Stamp]:
    """The stamps of files."""
    return {file: stamp_of(file) for file in files}


def changed_files(before: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> list[str]:
    """The files whose stamps differ."""
    return sorted(file for file, stamp in before.items() if now.get(file) != stamp)


def written_between(stamps: Iterable[Stamp], began_ms: int, ended_ms: int) -> bool:
    """Whether a file was written between two moments. One that says it was written in the future was not."""
    return any(stamp is not None and began_ms <= stamp[0] // NS_PER_MS <= ended_ms for stamp in stamps)


def with_folders(files: Iterable[str], here: Path) -> list[str]:
    """The files, and the folders that they are in: a module that is missing may appear there."""
    files = list(files)
    return sorted({*files, *(str(Path(file).parent) for file in files), str(here)})


def told_file(file: str, here: Path) -> str:
    """A file for people: as it is named from a folder."""
    return os.path.relpath(file, here)
