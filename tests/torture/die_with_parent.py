"""No orphans: whatever happens to the run, its processes go with it, stopped ones too."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel kill us when the parent dies (prctl(2), Linux only; elsewhere the parent's own care must do)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:  # it died before we asked
            sys.exit(1)
