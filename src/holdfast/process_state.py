"""Whether a process of this machine is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Final

STOPPED: Final = ("T", "t")
"""The states of a process that a signal, or a debugger, has stopped (proc_pid_stat(5),
https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)."""


def pid_of(owner: str) -> str:
    """The process of an owner's name."""
    return owner.partition("-")[0]


def is_stopped(owner: str) -> bool:
    """Whether the process of an owner's name is stopped. False where that cannot be known: off this machine, and on
    systems without ``/proc``.
    """
    pid = pid_of(owner)
    if not (pid.isascii() and pid.isdigit()):
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended, or there is no /proc
        return False
    return stat.rpartition(")")[2].split()[0] in STOPPED
